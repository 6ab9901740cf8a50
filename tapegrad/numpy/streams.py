"""Random streams with NumPy's seeding, states and `size` arguments."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.errors import ArgumentError
from tapegrad.numpy.values import floating, is_array
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.random import primitives as draws
from tapegrad.ops.random.generator import Generator as Stream

_SMALLEST = 2.0**-54


def shape_of(size: Any, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of a result: `size`, or the broadcast shape of the parameters.

    >>> shape_of(None, [1.0, 2.0], 3.0), shape_of(4)
    ((2,), (4,))
    """
    if size is None:
        return np.broadcast_shapes(*[tuple(np.shape(p)) for p in parameters])
    return check_wholes("size", size)


def size_for(size: Any, out: Any) -> Any:
    """Return the size of a result, which is that of `out` if it is given.

    >>> size_for(None, None), size_for(3, None)
    ((), 3)
    """
    if size is not None:
        return size
    return () if out is None else tuple(out.shape)


def check(name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False) -> Any:
    """Return a parameter; raise if it is out of bounds, unless it is on a device.

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
    """Return a positive parameter in floating point.

    >>> float(positive("df", 2))
    2.0
    """
    return floating(check(name, value, 0, above=True))


class BitGenerator:
    """The state of a random stream, which can be saved and restored.

    Under every NumPy generator name, the numbers are those of tapegrad's generator.

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
        """The seed and the number of draws."""
        seed, offset = (int(word) for word in self.stream.state.numpy())
        return {"bit_generator": "Philox", "state": {"seed": seed, "offset": offset}}

    @state.setter
    def state(self, value: Any) -> None:
        try:
            pair = value["state"]["seed"], value["state"]["offset"]
        except (KeyError, TypeError, IndexError) as error:
            raise ArgumentError(
                "state must be a value that `bit_generator.state` returned: "
                "{'bit_generator': 'Philox', 'state': {'seed': ..., 'offset': ...}}. "
                f"Got {value!r}."
            ) from error
        self.stream.reset(pair)

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """Draw 64-bit integers."""
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
    """The basis of all distributions: numbers in [0, 1)."""

    def __init__(self, seed: Any = None) -> None:
        self.bit_generator = seed if isinstance(seed, BitGenerator) else BitGenerator(seed)

    @property
    def stream(self) -> Stream:
        """The generator of the stream."""
        return self.bit_generator.stream

    def _uniform(self, shape: tuple[int, ...], dtype: Any = "float64") -> Any:
        return draws.draw_uniform(self.stream, shape, 0, None, dtype)

    def _inside(self, shape: tuple[int, ...]) -> Any:
        """Numbers in the open interval (0, 1), for logarithms of both x and 1 - x."""
        u = self._uniform(shape)
        return where(u == 0, _SMALLEST, u)


def word_of(seed: Any) -> int:
    """Return a seed as one integer; a sequence of integers is hashed.

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
