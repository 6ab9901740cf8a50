"""A stream of random numbers with NumPy's ways to seed it, to save it and to say sizes."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numpy.values import floating, is_array
from tapegrad.ops import random_draws as draws
from tapegrad.ops.random_generator import Generator as Stream
from tapegrad.ops.selection import where

_SMALLEST = 2.0**-54


def shape_of(size: Any, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of a draw: `size`, or what the parameters broadcast to.

    >>> shape_of(None, [1.0, 2.0], 3.0), shape_of(4)
    ((2,), (4,))
    """
    if size is None:
        return np.broadcast_shapes(*[tuple(np.shape(p)) for p in parameters])
    return tuple(int(n) for n in np.atleast_1d(np.asarray(size)))


def size_for(size: Any, out: Any) -> Any:
    """Return the size of a draw that is written into `out`, if that is given.

    >>> size_for(None, None), size_for(3, None)
    ((), 3)
    """
    if size is not None:
        return size
    return () if out is None else tuple(out.shape)


def check(name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> Any:
    """Return a parameter; one that is not on a device yet has to lie within its bounds.

    >>> check("scale", 2.0, 0)
    2.0
    """
    if is_array(value):
        return value
    values = np.asarray(value)
    is_low = values <= low if above else values < low
    if np.any(is_low | (values > high) | (values != values)):
        bounds = f"{'above' if above else 'at least'} {low:g}"
        bounds += "" if high == math.inf else f" and at most {high:g}"
        raise ArgumentError(f"{name} must be {bounds}. Got {value}.")
    return value


def positive(name: str, value: Any) -> Any:
    """Return a parameter above 0 as floating numbers.

    >>> float(positive("df", 2))
    2.0
    """
    return floating(check(name, value, 0, above=True))


class BitGenerator:
    """The state of a stream of random numbers, to save it and to go on from it.

    Whatever name of NumPy's it goes by, the numbers are those of tapegrad's own generator.

    >>> saved = BitGenerator(3).state
    >>> saved["state"]
    {'seed': 3, 'offset': 0}
    """

    def __init__(self, seed: Any = None) -> None:
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        self.stream = Stream.from_seed(word_of(seed))

    @property
    def state(self) -> dict[str, Any]:
        """The seed and how many draws were made."""
        seed, offset = (int(word) for word in self.stream.state.numpy())
        return {"bit_generator": "Philox", "state": {"seed": seed, "offset": offset}}

    @state.setter
    def state(self, value: Any) -> None:
        try:
            pair = value["state"]["seed"], value["state"]["offset"]
        except (KeyError, TypeError, IndexError) as error:
            raise ArgumentError(
                "A state is what `bit_generator.state` gave: "
                "{'bit_generator': 'Philox', 'state': {'seed': ..., 'offset': ...}}. "
                f"Got {value!r}."
            ) from error
        self.stream.reset(pair)

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """Draw whole words of 64 bits."""
        words = draws.draw_full_int(self.stream, shape_of(size, 0), "uint64")
        return words if output else None

    def spawn(self, n_children: int) -> list[BitGenerator]:
        """Return states of independent streams."""
        return [BitGenerator(stream.key) for stream in self.stream.split(n_children)]

    def jumped(self, jumps: int = 1) -> BitGenerator:
        """Return a state far ahead in the same stream."""
        far = BitGenerator(0)
        seed, offset = (int(word) for word in self.stream.state.numpy())
        far.stream.reset((seed, offset + (int(jumps) << 48)))
        return far

    def __getstate__(self) -> dict[str, Any]:
        return self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.stream = Stream.from_seed(0)
        self.state = state


class Numbers:
    """What all draws are made of: numbers between 0 and 1."""

    def __init__(self, seed: Any = None) -> None:
        self.bit_generator = seed if isinstance(seed, BitGenerator) else BitGenerator(seed)

    @property
    def stream(self) -> Stream:
        """Where the numbers come from."""
        return self.bit_generator.stream

    def _uniform(self, shape: tuple[int, ...], dtype: Any = "float64") -> Any:
        return draws.draw_uniform(self.stream, shape, 0, None, dtype)

    def _inside(self, shape: tuple[int, ...]) -> Any:
        """Numbers between 0 and 1 that are neither, for logarithms of both sides."""
        u = self._uniform(shape)
        return where(u == 0, _SMALLEST, u)


def word_of(seed: Any) -> int:
    """Return a seed as one number: sequences of numbers are mixed into one.

    >>> word_of(7), word_of([1, 2]) == word_of((1, 2))
    (7, True)
    """
    if isinstance(seed, int | np.integer):
        return int(seed)
    if isinstance(seed, Numbers | BitGenerator):
        return seed.stream.key
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(np.asarray(seed).tolist())
    return int(seed.generate_state(1, np.uint64)[0])
