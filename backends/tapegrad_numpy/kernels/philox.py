"""Random kernels: the same numbers on every device, eager or compiled, for the same state.

A kernel takes `state`, a uint64 array `[seed, offset]`, and makes one draw. A draw has 2**64
counters, more than any draw needs, so the next draw uses `offset + 1`.

Each kernel documents the words that it reads and its formula, so that another device can implement
it. The results then agree up to the last bits of the maths library, and exactly if no elementary
function is involved. "word e" is word e of the draw and "pair e" the 64-bit number with word 2e in
its lower and word 2e + 1 in its upper half (see philox_words.py). Element e of a result, counted in
row-major order, depends only on the state, e and its parameters, never on the size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.philox_rejection import random_gamma, random_poisson
from tapegrad_numpy.kernels.philox_words import (
    Array,
    compiled_draw,
    draw_pairs,
    draw_words,
    random_bits,
    unit,
)
from tapegrad_numpy.kernels.special import KERNELS as SPECIAL

__all__ = ["KERNELS", "random_bits"]

Shape = tuple[int, ...]

# Elements for which the arrays of the Box-Muller formula stay in the second-level cache.
_BLOCK = 1 << 14

# Masks that round a float32 towards 0 to fewer bits.
_KEPT_BITS = {"float16": 0xFFFFE000, "bfloat16": 0xFFFF0000}


def random_uniform(state: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from [0, 1).

    float32: the upper 24 bits of word e, times 2**-24. float64: the upper 53 bits of pair e, times
    2**-53. The 16-bit floats: the float32 rounded towards 0, so that 1 is never reached.
    """
    dtype, size = np.dtype(dtype), math.prod(shape)
    wide = "float64" if dtype == np.float64 else "float32"
    found = compiled_draw(f"uniform_{wide}", state, size)
    if wide == "float64":
        y = unit(draw_pairs(state, size)) if found is None else found[0]
        return y.reshape(shape)
    if found is None:
        words = draw_words(state, size)
        words >>= 8
        y = words.astype(np.float32)
        y *= np.float32(2.0**-24)
    else:
        (y,) = found
    if dtype != np.float32:
        # Clear the bits beyond the shorter significand, so that the cast is exact.
        y.view(np.uint32)[...] &= np.uint32(_KEPT_BITS[dtype.name])
    return y.reshape(shape).astype(dtype, copy=False)


def random_normal(state: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from the standard normal distribution, by the Box-Muller formula on two elements.

    Elements 2p and 2p + 1 are `r * cos(a)` and `r * sin(a)` with `r = sqrt(-2 * log(u))` and
    `a = 2 * pi * v`. For float64, `u = (b + 1) * 2**-53` with the upper 53 bits b of pair 2p, and v
    is the float64 uniform of pair 2p + 1. For float32, `u = word 2p * 2**-32 + 2**-33` and
    `v = (word 2p + 1 >> 8) * 2**-24`, every step rounded to float32. u is never 0. The 16-bit
    floats are the float32 rounded.
    """
    dtype, size = np.dtype(dtype), math.prod(shape)
    halves = (size + 1) // 2
    u, v = _normal_inputs(state, halves, dtype)
    y = np.empty((halves, 2), u.dtype)
    for start in range(0, halves, _BLOCK):
        block = slice(start, start + _BLOCK)
        _box_muller(u[block], v[block], y[block])
    return y.reshape(-1)[:size].reshape(shape).astype(dtype, copy=False)


def _normal_inputs(state: Array, halves: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    if dtype == np.float64:
        u, v = unit(draw_pairs(state, 2 * halves)).reshape(halves, 2).T
        return u + 2.0**-53, v
    found = compiled_draw("normal_inputs", state, halves)
    if found is not None:
        return found[0], found[1]
    words = draw_words(state, 2 * halves).reshape(halves, 2)
    u = words[:, 0].astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return u, (words[:, 1] >> 8).astype(np.float32) * np.float32(2.0**-24)


def _box_muller(u: Array, v: Array, out: Array) -> None:
    radius = np.sqrt(u.dtype.type(-2) * np.log(u))
    angle = u.dtype.type(2 * math.pi) * v
    np.multiply(radius, np.cos(angle), out=out[:, 0])
    np.multiply(radius, np.sin(angle), out=out[:, 1])


def random_truncated_normal(state: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from the standard normal distribution cut off at two standard deviations.

    `ndtri(c + (1 - 2 * c) * u)` in float64, with `c = ndtr(-2)` and, for float64,
    `u = (b + 1/2) * 2**-53` with the upper 53 bits b of pair e, else `u = (word e + 1/2) * 2**-32`.
    """
    dtype, size = np.dtype(dtype), math.prod(shape)
    if dtype == np.float64:
        u = unit(draw_pairs(state, size)) + 2.0**-54
    else:
        u = (draw_words(state, size) + 0.5) * 2.0**-32
    tail = 0.5 * math.erfc(math.sqrt(2.0))
    y: Array = np.clip(SPECIAL["ndtri"](tail + (1.0 - 2.0 * tail) * u), -2.0, 2.0)
    return y.reshape(shape).astype(dtype)


def random_integers(state: Array, *, shape: Shape, dtype: Any, low: int, high: int) -> Array:
    """Draw integers from `low` to `high - 1`: `low + (pair e * (high - low) >> 64)`.

    The probabilities differ by less than 2**-64. `high` may be one past the dtype's maximum.
    """
    dtype, size, span = np.dtype(dtype), math.prod(shape), high - low
    limits = np.iinfo(dtype)
    if not limits.min <= low < high <= limits.max + 1:
        raise ValueError(
            f"random_integers needs {limits.min} <= low < high <= {limits.max + 1} for {dtype}. "
            f"Got low={low}, high={high}."
        )
    y = draw_pairs(state, size)
    if span < 1 << 64:
        y = _upper_product(y, span)
    y += np.uint64(low % (1 << 64))
    return y.astype(dtype).reshape(shape)


def _upper_product(a: Array, b: int) -> Array:
    """Return the upper 64 of the 128 bits of `a * b`."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    b_low, b_high = np.uint64(b & 0xFFFFFFFF), np.uint64(b >> 32)
    a_low, a_high = a & low, a >> half
    middle = a_low * b_low
    middle >>= half
    middle += a_high * b_low
    if not b_high:
        middle >>= half
        return middle
    a_low *= b_high
    a_low += middle & low
    a_low >>= half
    a_high *= b_high
    a_high += middle >> half
    a_high += a_low
    return a_high


def random_permutation(state: Array, *, n: int) -> Array:
    """Draw a permutation of 0 to n - 1: the stable sorting order of the first n pairs."""
    return np.argsort(draw_pairs(state, n), kind="stable").astype(np.int64, copy=False)


def random_bernoulli(state: Array, *, shape: Shape, rate: float) -> Array:
    """Draw a mask that is False with probability `rate`: if the float32 uniform is below it."""
    threshold = math.ceil(float(np.float32(rate)) * 2**24) << 8
    size = math.prod(shape)
    found = compiled_draw("bernoulli", state, size, number=threshold)
    keep: Array = draw_words(state, size) >= threshold if found is None else found[0]
    return keep.reshape(shape)


def random_categorical(
    state: Array, logits: Array, *, num_samples: int, dtype: Any = np.int64
) -> Array:
    """Draw `[..., num_samples]` classes with the probabilities `softmax(logits[..., classes])`.

    The class with the largest `logit + gumbel` wins. As `gumbel = -log(-log(u))`, it is the class
    with the smallest `-log(u) * exp(max(logits) - logit)`, which takes one logarithm less. In
    float64, with `u = (word e + 1/2) * 2**-32` for candidate e of `[..., sample, class]`.
    """
    *lead, classes = logits.shape
    table = logits.reshape(math.prod(lead), classes).astype(np.float64)
    rows = len(table) * num_samples
    y = np.empty(rows, dtype)
    # An infinite handicap never wins, and a NaN (of an infinite logit) always does, as intended.
    with np.errstate(over="ignore", invalid="ignore"):
        handicap = -np.exp(table.max(axis=-1, keepdims=True) - table)
        step = 4 * max(1, 16384 // max(1, classes))  # so that each start is a whole counter
        for start in range(0, rows, step):
            row = np.arange(start, min(start + step, rows))
            words = draw_words(state, row.size * classes, start=start * classes // 4)
            race = np.log((words + 0.5) * 2.0**-32).reshape(row.size, classes)
            race *= handicap[row // num_samples]
            y[row] = race.argmin(axis=-1)
    return y.reshape(*lead, num_samples)


KERNELS = by_name(
    random_uniform,
    random_normal,
    random_truncated_normal,
    random_integers,
    random_permutation,
    random_bernoulli,
    random_categorical,
    random_gamma,
    random_poisson,
)
