"""Generators: a state on a device that each draw moves on by one, and the global one."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tapegrad.core import host
from tapegrad.core.device import current_device
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.ops import random_draws as draws

_WORD = 1 << 64
_DEFAULT_SEED = 87654321


class Generator:
    """A stream of random numbers: the same seed gives the same numbers on every device.

    `state` is a Variable `[seed, offset]` of uint64; each draw advances the offset by one, however
    many numbers it makes. Inside vmap each example gets numbers of its own: one draw of
    `[examples, *shape]`.

    >>> first, again = Generator.from_seed(1), Generator.from_seed(1)
    >>> float(first.normal([])) == float(again.normal([]))
    True
    """

    spreads = True

    def __init__(self, copy_from: Generator | None = None, state: Any = None) -> None:
        if copy_from is not None:
            state = copy_from.state.numpy()
        if state is None:
            raise ArgumentError("A Generator needs a state. Use Generator.from_seed(seed).")
        self.state: Variable = Variable(_pair(state), trainable=False, name="random_state")
        self._step = wrap(host.place_like(np.array([0, 1], np.uint64), self.state.array))

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        """Return the generator at the start of the stream of this seed."""
        return cls(state=(int(seed), 0))

    @classmethod
    def from_state(cls, state: Any, alg: Any = None) -> Generator:
        """Return a generator that goes on from the state of another."""
        return cls(state=state)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Return a generator whose seed nobody can know beforehand."""
        return cls.from_seed(int.from_bytes(os.urandom(8), "little"))

    @property
    def key(self) -> int:
        """The seed."""
        return int(self.state.numpy()[0])

    def reset(self, state: Any) -> None:
        """Go on from the given state."""
        self.state.assign(_pair(state), read_value=False)

    def reset_from_seed(self, seed: int) -> None:
        """Go back to the start of the stream of this seed."""
        self.reset((int(seed), 0))

    def skip(self, delta: int) -> None:
        """Leave out `delta` draws."""
        self.state.assign_add(np.array([0, int(delta) % _WORD], np.uint64), read_value=False)

    def take(self) -> Tensor:
        """Return the state for one draw on the current device, and move on."""
        array = self.state.array
        self.state.assign_add(self._step, read_value=False)
        return wrap(host.move(array, current_device()))

    def normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Any:
        """Draw from normal distributions."""
        return draws.draw_normal(self, shape, mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Any:
        """Draw from normal distributions cut off at two standard deviations."""
        return draws.draw_truncated_normal(self, shape, mean, stddev, dtype)

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Any:
        """Draw from [minval, maxval); integer dtypes need a maxval."""
        return draws.draw_uniform(self, shape, minval, maxval, dtype)

    def integers(
        self, shape: Any, minval: int = 0, maxval: Any = None, dtype: Any = "int64"
    ) -> Any:
        """Draw integers from minval to maxval - 1."""
        if maxval is None:
            minval, maxval = 0, minval
        return draws.draw_integers(self, shape, minval, maxval, dtype)

    def uniform_full_int(self, shape: Any, dtype: Any = "uint64", name: str | None = None) -> Any:
        """Draw from all values of an integer dtype."""
        return draws.draw_full_int(self, shape, dtype)

    def make_seeds(self, count: int = 1) -> Any:
        """Draw `[2, count]` numbers whose columns are seeds for the stateless functions."""
        return draws.draw_full_int(self, (2, count), "int64")

    def split(self, count: int = 1) -> list[Generator]:
        """Return generators of independent streams."""
        seeds = host.fetch(draws.draw_full_int(self, (count,), "uint64").array, None, "split")
        return [Generator.from_seed(int(seed)) for seed in seeds]

    def __repr__(self) -> str:
        seed, offset = self.state.numpy()
        return f"<tapegrad.random.Generator: seed={seed}, offset={offset}>"


def _pair(state: Any) -> Any:
    """Return a state as a uint64 host array, numbers taken modulo 2**64."""
    if isinstance(state, Variable | Tensor):
        state = state.numpy()
    numbers = [int(n) % _WORD for n in np.asarray(state, dtype=object).reshape(-1)]
    if len(numbers) != 2:
        raise ArgumentError(f"A state is a pair (seed, offset). Got {state!r}.")
    return np.array(numbers, np.uint64)


class _Globals:
    """The global generator, the global seed, and one stream per operation seed."""

    def __init__(self) -> None:
        self.seed = _DEFAULT_SEED
        self.own: Generator | None = None
        self.generator: Generator | None = None
        self.streams: dict[int, Generator] = {}


_globals = _Globals()


def set_seed(seed: int) -> None:
    """Start the global generator, and all streams with a `seed=`, anew from this seed.

    Functions that were recorded before draw from the same streams.

    >>> set_seed(7)
    >>> a = get_global_generator().normal([])
    >>> set_seed(7)
    >>> float(get_global_generator().normal([])) == float(a)
    True
    """
    _globals.seed = int(seed)
    _globals.generator = _globals.own = _restarted(_globals.own, _globals.seed)
    for number, stream in _globals.streams.items():
        _globals.streams[number] = _restarted(stream, _seed_of_stream(number))


def _restarted(generator: Generator | None, seed: int) -> Generator:
    """A generator at the start of a stream: the given one, if it lives on the current device."""
    if generator is None or generator.state.device != current_device():
        return Generator.from_seed(seed)
    generator.reset_from_seed(seed)
    return generator


def get_global_generator() -> Generator:
    """Return the generator behind the functions that take none.

    >>> get_global_generator() is get_global_generator()
    True
    """
    if _globals.generator is None:
        _globals.generator = _globals.own = Generator.from_non_deterministic_state()
    return _globals.generator


def set_global_generator(generator: Generator) -> None:
    """Use another generator for the functions that take none.

    >>> set_global_generator(Generator.from_seed(3))
    >>> get_global_generator().key
    3
    """
    _globals.generator = generator


def source_for(seed: int | None) -> Generator:
    """Return the global generator or, for a seed, its own stream: calls go on where the last ended.

    A stream depends on the global seed and the operation's, as in TensorFlow.
    """
    if seed is None:
        return get_global_generator()
    stream = _globals.streams.get(seed)
    if stream is None:
        stream = _globals.streams[seed] = Generator.from_seed(_seed_of_stream(seed))
    return stream


def _seed_of_stream(seed: int) -> int:
    return _mix(_mix(_globals.seed) ^ int(seed))


def _mix(n: int) -> int:
    """Scatter a number over 64 bits (the finaliser of SplitMix64)."""
    n = (n + 0x9E3779B97F4A7C15) % _WORD
    n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    n = (n ^ (n >> 27)) * 0x94D049BB133111EB % _WORD
    return n ^ (n >> 31)
