"""`numpy.random` with tapegrad's generators: seeded functions, `RandomState` and `Generator`.

The numbers come from tapegrad's counter-based generator. They are the same on every device, and
differ from NumPy's. Results are float64 and int64 unless a dtype is given.
"""

from __future__ import annotations

import os
from typing import Any

from numpy.random import SeedSequence

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.orders import LARGEST_INT, Draws
from tapegrad.numpy.streams import BitGenerator, size_for, word_of
from tapegrad.numpy.values import deliver

# NumPy's generator names, so that Generator(PCG64(seed)) works; the numbers are tapegrad's.
Philox = PCG64 = PCG64DXSM = MT19937 = SFC64 = BitGenerator


class Generator(Draws):
    """NumPy's newer interface: `default_rng(seed).normal(size=3)`.

    >>> Generator(1).normal(size=3).shape
    (3,)
    """

    def random(self, size: Any = None, dtype: Any = "float64", out: Any = None) -> Any:
        """Draw numbers from [0, 1)."""
        return deliver(self._random(size_for(size, out), dtype), out)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = "int64",
        endpoint: bool = False,
    ) -> Any:  # fmt: skip
        """Draw integers from `low` up to `high`, exclusive unless `endpoint`."""
        return self._integers(low, high, size, dtype, endpoint)

    def spawn(self, n_children: int) -> list[Generator]:
        """Return generators of independent streams."""
        return [Generator(child) for child in self.bit_generator.spawn(n_children)]

    def __repr__(self) -> str:
        state = self.bit_generator.state["state"]
        return f"Generator(Philox: seed={state['seed']}, offset={state['offset']})"


class RandomState(Draws):
    """NumPy's older interface, which the functions of this module also use.

    >>> RandomState(0).rand(2, 3).shape
    (2, 3)
    """

    def seed(self, seed: Any = None) -> None:
        """Restart from a seed."""
        fresh = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self.stream.reset_from_seed(word_of(fresh))

    def random_sample(self, size: Any = None) -> Any:
        """Draw numbers from [0, 1)."""
        return self._random(size)

    def random(self, size: Any = None) -> Any:
        """Draw numbers from [0, 1)."""
        return self._random(size)

    def rand(self, *dims: int) -> Any:
        """Draw an array of numbers from [0, 1)."""
        return self._random(dims)

    def randn(self, *dims: int) -> Any:
        """Draw an array from the standard normal distribution."""
        return self.normal(size=dims)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Draw integers from `low` up to `high`, exclusive."""
        return self._integers(low, high, size, dtype, False)

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Draw integers from `low` (1 by default) up to `high`, inclusive."""
        low, high = (1, low) if high is None else (low, high)
        return self._integers(low, high, size, "int64", True)

    def tomaxint(self, size: Any = None) -> Any:
        """Draw nonnegative integers from the whole range of the dtype."""
        return self._integers(0, LARGEST_INT, size, "int64", True)

    def get_state(self, legacy: bool = True) -> Any:
        """Return the state of the stream: an array of its seed and its number of draws.

        With `legacy=False`, return a dictionary like `bit_generator.state`.
        """
        return self.stream.state.numpy() if legacy else self.bit_generator.state

    def set_state(self, state: Any) -> None:
        """Continue from a state that `get_state` returned."""
        if isinstance(state, dict):
            self.bit_generator.state = state
        else:
            self.stream.reset(state)


def default_rng(seed: Any = None) -> Generator:
    """Return a generator; the same seed gives the same numbers, on every device.

    >>> first, second = default_rng(3).random(2), default_rng(3).random(2)
    >>> bool((first == second).all())
    True
    """
    if isinstance(seed, RandomState):
        return Generator(seed.bit_generator)
    return seed if isinstance(seed, Generator) else Generator(seed)


_global = RandomState()

random = random_sample = ranf = sample = _global.random_sample
bernoulli = _global.bernoulli
beta = _global.beta
binomial = _global.binomial
bytes = _global.bytes
chisquare = _global.chisquare
choice = _global.choice
dirichlet = _global.dirichlet
exponential = _global.exponential
f = _global.f
gamma = _global.gamma
geometric = _global.geometric
get_state = _global.get_state
gumbel = _global.gumbel
hypergeometric = _global.hypergeometric
laplace = _global.laplace
logistic = _global.logistic
lognormal = _global.lognormal
logseries = _global.logseries
multinomial = _global.multinomial
multivariate_normal = _global.multivariate_normal
negative_binomial = _global.negative_binomial
noncentral_chisquare = _global.noncentral_chisquare
noncentral_f = _global.noncentral_f
normal = _global.normal
pareto = _global.pareto
permutation = _global.permutation
poisson = _global.poisson
power = _global.power
rand = _global.rand
randint = _global.randint
randn = _global.randn
random_integers = _global.random_integers
rayleigh = _global.rayleigh
seed = _global.seed
set_state = _global.set_state
shuffle = _global.shuffle
standard_cauchy = _global.standard_cauchy
standard_exponential = _global.standard_exponential
standard_gamma = _global.standard_gamma
standard_normal = _global.standard_normal
standard_t = _global.standard_t
triangular = _global.triangular
uniform = _global.uniform
vonmises = _global.vonmises
wald = _global.wald
weibull = _global.weibull
zipf = _global.zipf


def get_bit_generator() -> BitGenerator:
    """Return the state of the functions of this module.

    >>> get_bit_generator() is get_bit_generator()
    True
    """
    return _global.bit_generator


def set_bit_generator(bitgen: BitGenerator) -> None:
    """Set the stream from which the functions of this module draw.

    >>> kept = get_bit_generator()
    >>> set_bit_generator(BitGenerator(3))
    >>> set_bit_generator(kept)
    """
    _global.bit_generator = bitgen


__all__ = [
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState",
    "SFC64", "SeedSequence", "default_rng", "get_bit_generator", "set_bit_generator",
]  # fmt: skip
__all__ += [
    name for name, value in [*globals().items()] if getattr(value, "__self__", None) is _global
]

_check_calls(globals(), __all__)
