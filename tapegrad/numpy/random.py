"""`numpy.random` over tapegrad's generators: seeded functions, `RandomState` and `Generator`.

The numbers are those of tapegrad's counter-based generator, the same on every device, not those
of NumPy's. Draws are float64. Gradients flow to `loc`, `scale`, `low`, `high` and `shape`.
"""

from __future__ import annotations

import os
from typing import Any

from tapegrad.core.dtypes import numpy_dtype
from tapegrad.numpy.distributions import Draws, shape_of, size_for, word_of
from tapegrad.numpy.values import deliver, with_dtype
from tapegrad.ops import random_draws as draws
from tapegrad.ops.random_generator import Generator as Stream


class Generator(Draws):
    """NumPy's newer interface: `default_rng(seed).normal(size=3)`.

    >>> Generator(1).normal(size=3).shape
    (3,)
    """

    def random(self, size: Any = None, dtype: Any = "float64", out: Any = None) -> Any:
        """Draw numbers from [0, 1)."""
        return deliver(with_dtype(self.uniform(size=size_for(size, out)), dtype), out)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = "int64",
        endpoint: bool = False,
    ) -> Any:  # fmt: skip
        """Draw integers from `low` up to, not with, `high` (with it if `endpoint`)."""
        return _integers(self.stream, low, high, size, dtype, endpoint)

    def spawn(self, n_children: int) -> list[Generator]:
        """Return generators of independent streams."""
        return [Generator(stream.key) for stream in self.stream.split(n_children)]


class RandomState(Draws):
    """NumPy's older interface, behind the functions of this module as well.

    >>> RandomState(0).rand(2, 3).shape
    (2, 3)
    """

    def seed(self, seed: Any = None) -> None:
        """Start anew from a seed."""
        fresh = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self.stream.reset_from_seed(word_of(fresh))

    def random_sample(self, size: Any = None) -> Any:
        """Draw numbers from [0, 1)."""
        return self.uniform(size=() if size is None else size)

    def rand(self, *dims: int) -> Any:
        """Draw an array of numbers from [0, 1)."""
        return self.uniform(size=dims)

    def randn(self, *dims: int) -> Any:
        """Draw an array from the standard normal distribution."""
        return self.normal(size=dims)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Draw integers from `low` up to, not with, `high`."""
        return _integers(self.stream, low, high, size, dtype, False)

    def get_state(self, legacy: bool = True) -> Any:
        """Return the state of the stream: its seed and how many draws were made."""
        return self.stream.state.numpy()

    def set_state(self, state: Any) -> None:
        """Go on from a state that `get_state` returned."""
        self.stream.reset(state)


def _integers(stream: Stream, low: Any, high: Any, size: Any, dtype: Any, endpoint: bool) -> Any:
    if high is None:
        low, high = 0, low
    last = int(high) + 1 if endpoint else int(high)
    return draws.draw_integers(stream, shape_of(size, 0), int(low), last, numpy_dtype(dtype))


def default_rng(seed: Any = None) -> Generator:
    """Return a generator; the same seed gives the same numbers, on every device.

    >>> first, second = default_rng(3).random(2), default_rng(3).random(2)
    >>> bool((first == second).all())
    True
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


_global = RandomState()

seed = _global.seed
get_state = _global.get_state
set_state = _global.set_state
rand = _global.rand
randn = _global.randn
randint = _global.randint
random = random_sample = ranf = sample = _global.random_sample
bernoulli = _global.bernoulli
beta = _global.beta
binomial = _global.binomial
chisquare = _global.chisquare
choice = _global.choice
dirichlet = _global.dirichlet
exponential = _global.exponential
gamma = _global.gamma
geometric = _global.geometric
gumbel = _global.gumbel
laplace = _global.laplace
logistic = _global.logistic
lognormal = _global.lognormal
multivariate_normal = _global.multivariate_normal
normal = _global.normal
permutation = _global.permutation
poisson = _global.poisson
shuffle = _global.shuffle
f = _global.f
multinomial = _global.multinomial
negative_binomial = _global.negative_binomial
pareto = _global.pareto
power = _global.power
rayleigh = _global.rayleigh
triangular = _global.triangular
weibull = _global.weibull
standard_cauchy = _global.standard_cauchy
standard_exponential = _global.standard_exponential
standard_gamma = _global.standard_gamma
standard_normal = _global.standard_normal
standard_t = _global.standard_t
uniform = _global.uniform

__all__ = [
    "Generator",
    "RandomState",
    "bernoulli",
    "beta",
    "binomial",
    "chisquare",
    "choice",
    "default_rng",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "get_state",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "random",
    "random_sample",
    "ranf",
    "rayleigh",
    "sample",
    "seed",
    "set_state",
    "shuffle",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "triangular",
    "uniform",
    "weibull",
]
