"""Random kernels that draw the numbers of tapegrad_numpy.kernels.philox on the device.

They read the same words and use the same formulas as the NumPy kernels. None of them waits for the
device, so every kernel can be captured in a graph.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy as xp
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.elementwise.pointwise import Pointwise
from tapegrad_cupy.kernels.random.philox_rejection import random_gamma, random_poisson
from tapegrad_cupy.kernels.random.philox_words import Array, draw_pairs, draw_words, unit
from tapegrad_cupy.kernels.special.special import KERNELS as SPECIAL
from tapegrad_cupy.launch.cuda_source import Source

Shape = tuple[int, ...]

# Masks that round a float32 towards 0 to fewer bits.
_KEPT_BITS = {"float16": 0xFFFFE000, "bfloat16": 0xFFFF0000}
# Candidates of a categorical draw that are processed at a time: 512 MiB of float64.
_CANDIDATES = 1 << 26


def random_uniform(state: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from [0, 1)."""
    dtype, size = np.dtype(dtype), math.prod(shape)
    if dtype == np.float64:
        return unit(draw_pairs(state, size)).reshape(shape)
    y = (draw_words(state, size) >> np.uint32(8)).astype(np.float32)
    y *= 2.0**-24
    if dtype != np.float32:
        # Clear the bits that the shorter significand lacks, so that the cast is exact.
        bits = y.view(np.uint32)
        bits &= np.uint32(_KEPT_BITS[dtype.name])
    return y.reshape(shape).astype(dtype, copy=False)


def random_normal(state: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from the standard normal distribution by the Box-Muller formula."""
    dtype, size = np.dtype(dtype), math.prod(shape)
    halves = (size + 1) // 2
    if dtype == np.float64:
        uniforms = unit(draw_pairs(state, 2 * halves)).reshape(halves, 2)
        u, v = uniforms[:, 0] + 2.0**-53, uniforms[:, 1]
    else:
        words = draw_words(state, 2 * halves).reshape(halves, 2)
        u = words[:, 0].astype(np.float32) * 2.0**-32 + 2.0**-33
        v = (words[:, 1] >> np.uint32(8)).astype(np.float32) * 2.0**-24
    radius = xp.sqrt(-2.0 * xp.log(u))
    angle = 2.0 * math.pi * v
    y = xp.empty((halves, 2), dtype=u.dtype)
    xp.multiply(radius, xp.cos(angle), out=y[:, 0])
    xp.multiply(radius, xp.sin(angle), out=y[:, 1])
    return y.reshape(-1)[:size].reshape(shape).astype(dtype, copy=False)


def random_truncated_normal(state: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from the standard normal distribution truncated at two standard deviations."""
    dtype, size = np.dtype(dtype), math.prod(shape)
    if dtype == np.float64:
        u = unit(draw_pairs(state, size)) + 2.0**-54
    else:
        u = (draw_words(state, size).astype(np.float64) + 0.5) * 2.0**-32
    tail = 0.5 * math.erfc(math.sqrt(2.0))
    y = xp.clip(SPECIAL["ndtri"](tail + (1.0 - 2.0 * tail) * u), -2.0, 2.0)
    return y.reshape(shape).astype(dtype, copy=False)


def random_integers(state: Array, *, shape: Shape, dtype: Any, low: int, high: int) -> Array:
    """Draw integers from `low` to `high - 1`: `low + (pair e * (high - low) >> 64)`."""
    dtype, size, span = np.dtype(dtype), math.prod(shape), high - low
    limits = np.iinfo(dtype)
    if not limits.min <= low < high <= limits.max + 1:
        raise ValueError(
            f"random_integers needs {limits.min} <= low < high <= {limits.max + 1} for {dtype}. "
            f"Got low={low}, high={high}."
        )
    y = draw_pairs(state, size)
    if span < 1 << 64:
        y = _upper_product_kernel()(y, np.uint64(span))
    y += np.uint64(low % (1 << 64))
    return y.astype(dtype, copy=False).reshape(shape)


# The upper 64 of the 128 bits of a product.
_UPPER_PRODUCT = Pointwise(
    "uint64 a, uint64 b", "uint64 y", "y = __umul64hi(a, b)", "tapegrad_upper_product"
)


@functools.cache
def _upper_product_kernel() -> Any:
    return _UPPER_PRODUCT.kernel()


def variants() -> Iterator[Source]:
    """Yield the only source of this module; that of the words is in philox_words.py."""
    yield _UPPER_PRODUCT.source()


def random_permutation(state: Array, *, n: int) -> Array:
    """Draw a permutation of 0 to n - 1: the stable order of the first n pairs."""
    return xp.argsort(draw_pairs(state, n), kind="stable").astype(np.int64, copy=False)


def random_bernoulli(state: Array, *, shape: Shape, rate: float) -> Array:
    """Draw a mask that is False with probability `rate`: where the float32 uniform is below it."""
    threshold = math.ceil(float(np.float32(rate)) * 2**24)
    numerators = draw_words(state, math.prod(shape)) >> np.uint32(8)
    keep = numerators >= np.uint32(min(max(threshold, 0), 1 << 24))
    return keep.reshape(shape)


def random_categorical(
    state: Array, logits: Array, *, num_samples: int, dtype: Any = np.int64
) -> Array:
    """Draw `[..., num_samples]` classes with the probabilities `softmax(logits[..., classes])`."""
    *lead, classes = logits.shape
    table = logits.reshape(math.prod(lead), classes).astype(np.float64)
    rows = len(table) * num_samples
    y = xp.empty(rows, dtype=dtype)
    if not rows:
        return y.reshape(*lead, num_samples)
    handicap = -xp.exp(table.max(axis=-1, keepdims=True) - table)
    # With NaN (from an infinite logit), NumPy's argmin returns the first one, CuPy's any of them.
    handicap = xp.where(xp.isnan(handicap), xp.inf, handicap)
    step = 4 * max(1, _CANDIDATES // 4 // max(1, classes))  # each start is a whole counter
    for start in range(0, rows, step):
        row = xp.arange(start, min(start + step, rows))
        words = draw_words(state, row.size * classes, start=start * classes // 4)
        race = xp.log((words.astype(np.float64) + 0.5) * 2.0**-32).reshape(row.size, classes)
        race *= handicap[row // num_samples]
        y[start : start + step] = race.argmin(axis=-1)
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
