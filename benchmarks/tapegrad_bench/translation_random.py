"""Random primitives for translated programs: the numbers that the backends document, bit by bit.

Words of Philox4x32-10 are computed in int64, which every library has: a product modulo 2**64 has
the same bits as one of unsigned numbers. Draws by rejection (gamma, Poisson) have no translation,
because their number of attempts depends on the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Shape = tuple[int, ...]

_LOW = 0xFFFFFFFF
_ROUNDS = 10
_INT, _DOUBLE, _SINGLE = np.dtype("int64"), np.dtype("float64"), np.dtype("float32")
_SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8}


def random_kernels(xp: Any, ndtri: Callable[[Array], Array]) -> dict[str, Callable[..., Any]]:
    """Return the kernels of the primitives that draw from a state `[seed, offset]`."""
    draws = _Draws(xp, ndtri)
    return {
        "random_uniform": draws.uniform,
        "random_normal": draws.normal,
        "random_truncated_normal": draws.truncated_normal,
        "random_integers": draws.integers,
        "random_permutation": draws.permutation,
        "random_bernoulli": draws.bernoulli,
        "random_categorical": draws.categorical,
        "random_categoricals": draws.categorical,
    }


class _Draws:
    """The draws in terms of one namespace."""

    def __init__(self, xp: Any, ndtri: Callable[[Array], Array]) -> None:
        self.xp = xp
        self._ndtri = ndtri

    def uniform(self, state: Array, *, shape: Shape, dtype: Any) -> Array:
        size, name = math.prod(shape), _name(dtype)
        if name == "float64":
            return self._shaped(self._unit(*self._pairs(state, size)), shape, dtype)
        words = self._words(state, size) >> 8
        if name != "float32":
            words = self._shortened(words, _SIGNIFICANT_BITS[name])
        return self._shaped(self._cast(words, _SINGLE) * 2.0**-24, shape, dtype)

    def normal(self, state: Array, *, shape: Shape, dtype: Any) -> Array:
        xp, size = self.xp, math.prod(shape)
        halves = (size + 1) // 2
        if _name(dtype) == "float64":
            uniform = xp.reshape(self._unit(*self._pairs(state, 2 * halves)), (halves, 2))
            u, v = uniform[:, 0] + 2.0**-53, uniform[:, 1]
        else:
            words = xp.reshape(self._words(state, 2 * halves), (halves, 2))
            u = self._cast(words[:, 0], _SINGLE) * 2.0**-32 + 2.0**-33
            v = self._cast(words[:, 1] >> 8, _SINGLE) * 2.0**-24
        radius, angle = xp.sqrt(-2.0 * xp.log(u)), 2 * math.pi * v
        both = xp.stack([radius * xp.cos(angle), radius * xp.sin(angle)], axis=1)
        return self._shaped(xp.reshape(both, (-1,))[:size], shape, dtype)

    def truncated_normal(self, state: Array, *, shape: Shape, dtype: Any) -> Array:
        size = math.prod(shape)
        if _name(dtype) == "float64":
            u = self._unit(*self._pairs(state, size)) + 2.0**-54
        else:
            u = (self._cast(self._words(state, size), _DOUBLE) + 0.5) * 2.0**-32
        tail = 0.5 * math.erfc(math.sqrt(2.0))
        y = self.xp.clip(self._ndtri(tail + (1.0 - 2.0 * tail) * u), -2.0, 2.0)
        return self._shaped(y, shape, dtype)

    def integers(self, state: Array, *, shape: Shape, dtype: Any, low: int, high: int) -> Array:
        lower, upper = self._pairs(state, math.prod(shape))
        span = high - low
        y = (upper << 32) | lower if span == 1 << 64 else _upper_product(lower, upper, span)
        return self._shaped(y + _signed(low), shape, dtype)

    def permutation(self, state: Array, *, n: int) -> Array:
        lower, upper = self._pairs(state, n)
        # The flipped sign makes the order of signed numbers that of unsigned ones.
        keys = ((upper ^ (1 << 31)) << 32) | lower
        return self._cast(self.xp.argsort(keys, stable=True), _INT)

    def bernoulli(self, state: Array, *, shape: Shape, rate: float) -> Array:
        threshold = math.ceil(float(np.float32(rate)) * 2**24) << 8
        return self.xp.reshape(self._words(state, math.prod(shape)) >= threshold, shape)

    def categorical(
        self, state: Array, logits: Array, *, num_samples: int, dtype: Any = _INT
    ) -> Array:
        xp = self.xp
        *lead, classes = logits.shape
        table = self._cast(xp.reshape(logits, (math.prod(lead), 1, classes)), _DOUBLE)
        handicap = -xp.exp(xp.max(table, axis=-1, keepdims=True) - table)
        count = math.prod(lead) * num_samples * classes
        u = (self._cast(self._words(state, count), _DOUBLE) + 0.5) * 2.0**-32
        race = xp.reshape(xp.log(u), (math.prod(lead), num_samples, classes)) * handicap
        return self._shaped(xp.argmin(race, axis=-1), (*lead, num_samples), dtype)

    def _words(self, state: Array, count: int) -> Array:
        """Return the first 32-bit words of a draw as int64."""
        xp = self.xp
        state = self._cast(state, _INT)
        counters = xp.arange((count + 3) // 4, dtype=_INT, device=state.device)
        k0, k1 = state[0] & _LOW, _upper(state[0])
        c0, c1 = counters & _LOW, _upper(counters)
        c2, c3 = counters * 0 + (state[1] & _LOW), counters * 0 + _upper(state[1])
        for _ in range(_ROUNDS):
            p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
            c0, c1, c2, c3 = _upper(p1) ^ c1 ^ k0, p1 & _LOW, _upper(p0) ^ c3 ^ k1, p0 & _LOW
            k0, k1 = (k0 + 0x9E3779B9) & _LOW, (k1 + 0xBB67AE85) & _LOW
        return xp.reshape(xp.stack([c0, c1, c2, c3], axis=1), (-1,))[:count]

    def _pairs(self, state: Array, count: int) -> tuple[Array, Array]:
        """Return the lower and the upper words of the first 64-bit numbers of a draw."""
        words = self.xp.reshape(self._words(state, 2 * count), (count, 2))
        return words[:, 0], words[:, 1]

    def _unit(self, lower: Array, upper: Array) -> Array:
        return self._cast((upper << 21) | (lower >> 11), _DOUBLE) * 2.0**-53

    def _shortened(self, words: Array, bits: int) -> Array:
        """Round 24-bit numbers towards 0 to so many significant bits."""
        xp = self.xp
        exact = self._cast(xp.where(words == 0, words + 1, words), _DOUBLE)
        length = self._cast(xp.floor(xp.log2(exact)), _INT) + 1
        dropped = xp.where(length > bits, length - bits, length * 0)
        return (words >> dropped) << dropped

    def _cast(self, x: Array, dtype: Any) -> Array:
        return self.xp.astype(x, dtype)

    def _shaped(self, x: Array, shape: Shape, dtype: Any) -> Array:
        return self._cast(self.xp.reshape(x, shape), dtype)


def _name(dtype: Any) -> str:
    """Return NumPy's name of a dtype of any library."""
    return getattr(dtype, "name", "") or str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]


def _upper(x: Array) -> Array:
    """Return the upper half of 64 bits, which a shift of signed numbers fills with the sign."""
    return (x >> 32) & _LOW


def _signed(number: int) -> int:
    """Return the int64 that has the bits of a number modulo 2**64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _upper_product(lower: Array, upper: Array, factor: int) -> Array:
    """Return the upper 64 of the 128 bits of a product with a number below 2**64."""
    first, second = factor & _LOW, factor >> 32
    middle = _upper(lower * first) + upper * first
    if not second:
        return _upper(middle)
    carry = _upper(lower * second + (middle & _LOW))
    return upper * second + _upper(middle) + carry
