"""Random generators, whose state advances by one with each draw, and the global generator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import refuse
from tapegrad.core.values import host
from tapegrad.core.values.device import current_device
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.ops.random import primitives as random_primitives

_WORD = 1 << 64
_DEFAULT_SEED = 87654321


Skips = dict[int, list[int]]
_skips: ContextVar[Skips | None] = ContextVar("tapegrad_skipped_draws", default=None)


@contextmanager
def skipping_draws(skips: Skips) -> Iterator[None]:
    """Skip so many draws after each draw in the block, by the numbers of generators' states.

    Code that runs a second time skips what it drew the first time for values that exist now.

    >>> generator, other = Generator.from_seed(1), Generator.from_seed(1)
    >>> with skipping_draws({generator.state.number: [2]}):
    ...     _ = generator.normal([])
    >>> other.skip(3)
    >>> float(generator.normal([])) == float(other.normal([]))
    True
    """
    token = _skips.set(skips)
    try:
        yield
    finally:
        _skips.reset(token)


class Generator:
    """A stream of random numbers: the same seed gives the same numbers on every device.

    `state` is a Variable `[seed, offset]` of uint64. Each draw advances the offset by one, for any
    number of values. Inside vmap each example gets different numbers, by one draw of
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
        """Return a generator at the start of the stream of a seed."""
        return cls(state=(int(seed), 0))

    @classmethod
    def from_state(cls, state: Any, alg: Any = None) -> Generator:
        """Return a generator that continues from the state of another."""
        return cls(state=state)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """Return a generator with a seed from the operating system."""
        return cls.from_seed(int.from_bytes(os.urandom(8), "little"))

    @property
    def key(self) -> int:
        """The seed."""
        return int(self.state.numpy()[0])

    def reset(self, state: Any) -> None:
        """Set the state."""
        self.state.assign(_pair(state), read_value=False)

    def reset_from_seed(self, seed: int) -> None:
        """Set the state to the start of the stream of a seed."""
        self.reset((int(seed), 0))

    def skip(self, delta: int) -> None:
        """Skip `delta` draws."""
        self.state.assign_add(np.array([0, int(delta) % _WORD], np.uint64), read_value=False)

    def take(self) -> Tensor:
        """Return the state for one draw, on the current device, and advance it."""
        array = self.state.array
        self.state.assign_add(self._step, read_value=False)
        skips = _skips.get()
        if skips is not None:
            self._skip_after_draw(skips)
        return wrap(host.move(array, current_device()))

    def _skip_after_draw(self, skips: Skips) -> None:
        left = skips.get(self.state.number)
        if left:
            self.skip(left.pop(0))

    def normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Any:
        """Draw from normal distributions."""
        return random_primitives.draw_normal(self, shape, mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: Any,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Any:
        """Draw from normal distributions truncated at two standard deviations."""
        return random_primitives.draw_truncated_normal(self, shape, mean, stddev, dtype)

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = "float32",
        name: str | None = None,
    ) -> Any:
        """Draw uniformly from [minval, maxval); integer dtypes need a maxval."""
        return random_primitives.draw_uniform(self, shape, minval, maxval, dtype)

    def integers(
        self, shape: Any, minval: int = 0, maxval: Any = None, dtype: Any = "int64"
    ) -> Any:
        """Draw integers uniformly from [minval, maxval)."""
        if maxval is None:
            minval, maxval = 0, minval
        return random_primitives.draw_integers(self, shape, minval, maxval, dtype)

    def uniform_full_int(self, shape: Any, dtype: Any = "uint64", name: str | None = None) -> Any:
        """Draw uniformly from all values of an integer dtype."""
        return random_primitives.draw_full_int(self, shape, dtype)

    def make_seeds(self, count: int = 1) -> Any:
        """Draw `[2, count]` numbers; each column is a seed for the stateless functions."""
        return random_primitives.draw_full_int(self, (2, count), "int64")

    def split(self, count: int = 1) -> list[Generator]:
        """Return `count` generators with independent streams."""
        seeds = host.fetch(
            random_primitives.draw_full_int(self, (count,), "uint64").array, None, "split"
        )
        return [Generator.from_seed(int(seed)) for seed in seeds]

    def __repr__(self) -> str:
        seed, offset = self.state.numpy()
        return f"<tapegrad.random.Generator: seed={seed}, offset={offset}>"


def _pair(state: Any) -> Any:
    """Return a state as a uint64 host array, with numbers modulo 2**64."""
    if isinstance(state, Variable | Tensor):
        state = state.numpy()
    numbers = [int(n) % _WORD for n in np.asarray(state, dtype=object).reshape(-1)]
    if len(numbers) != 2:
        raise ArgumentError(f"A generator state must be a pair (seed, offset). Got {state!r}.")
    return np.array(numbers, np.uint64)


class _Globals:
    """The global generator, the global seed, and one stream per operation-level seed."""

    def __init__(self) -> None:
        self.seed = _DEFAULT_SEED
        self.own: Generator | None = None
        self.generator: Generator | None = None
        self.streams: dict[int, Generator] = {}


_globals = _Globals()


def set_seed(seed: float) -> None:
    """Restart the global generator and the streams of all `seed=` arguments from this seed.

    Functions recorded earlier continue to draw from these streams.

    >>> set_seed(7)
    >>> a = get_global_generator().normal([])
    >>> set_seed(7)
    >>> float(get_global_generator().normal([])) == float(a)
    True
    """
    if seed != int(seed):
        refuse("set_seed", "seed", seed, "a whole number")
    _globals.seed = int(seed)
    _globals.generator = _globals.own = _restart(_globals.own, _globals.seed)
    for number, stream in _globals.streams.items():
        _globals.streams[number] = _restart(stream, _seed_of_stream(number))


def _restart(generator: Generator | None, seed: int) -> Generator:
    """Return a generator at the start of a stream; reuse the given one on the current device."""
    if generator is None or generator.state.device != current_device():
        return Generator.from_seed(seed)
    generator.reset_from_seed(seed)
    return generator


def get_global_generator() -> Generator:
    """Return the generator of the functions that do not take one.

    >>> get_global_generator() is get_global_generator()
    True
    """
    if _globals.generator is None:
        _globals.generator = _globals.own = Generator.from_non_deterministic_state()
    return _globals.generator


def seed_if_unused(seed: int) -> None:
    """Seed the global generator unless a program has seeded or used it.

    >>> seed_if_unused(3)
    """
    if _globals.generator is None:
        set_global_generator(Generator.from_seed(seed))


def set_global_generator(generator: Generator) -> None:
    """Set the generator of the functions that do not take one.

    >>> set_global_generator(Generator.from_seed(3))
    >>> get_global_generator().key
    3
    """
    if not isinstance(generator, Generator):
        refuse("set_global_generator", "generator", generator, "a tapegrad.random.Generator")
    _globals.generator = generator


def source_for(seed: int | None) -> Generator:
    """Return the global generator, or the stream of a seed, which continues between calls.

    A stream depends on the global and the operation-level seed, as in TensorFlow.
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
    """Hash a number to 64 bits (the finalizer of SplitMix64)."""
    n = (n + 0x9E3779B97F4A7C15) % _WORD
    n = (n ^ (n >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    n = (n ^ (n >> 27)) * 0x94D049BB133111EB % _WORD
    return n ^ (n >> 31)
