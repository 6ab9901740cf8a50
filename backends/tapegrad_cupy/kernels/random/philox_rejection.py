"""Random kernels by rejection sampling: gamma and Poisson.

Each thread draws candidates until it accepts one, with the counters and formulas of
tapegrad_numpy.kernels.philox_rejection, so that both backends accept the same candidates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy as xp
import numpy as np

from tapegrad_cupy.kernels.elementwise.pointwise import Pointwise
from tapegrad_cupy.kernels.random.philox_words import PHILOX, Array
from tapegrad_cupy.kernels.special.special_source import c_array
from tapegrad_cupy.launch.cuda_source import Source

Shape = tuple[int, ...]

_SMALLEST_NORMAL = {
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
}
# NumPy rounds each product before the addition; a fused operation could decide differently.
_OPTIONS = ("--fmad=false",)

# An attempt is rejected with a probability below 0.3, so 64 in a row never are.
_UNIFORMS = (
    PHILOX
    + r"""
#define ATTEMPTS 64
#define EPSILON 1.1102230246251565e-16  // 2**-53, the spacing of the uniforms
__device__ __forceinline__ double unit(u32 low, u32 high) {
    return (double)((((u64)high << 32) | low) >> 11) * EPSILON;
}
"""
)

_GAMMA = (
    _UNIFORMS
    + r"""
__device__ double draw_gamma(double alpha, u64 element, u64 seed, u64 offset) {
    double d = (alpha < 1.0 ? alpha + 1.0 : alpha) - 1.0 / 3.0, y = d;
    for (u64 attempt = 0; attempt < ATTEMPTS; ++attempt) {
        u64 counter = (attempt << 48) + 2 * element;
        uint4 w = philox(counter, seed, offset), v = philox(counter + 1, seed, offset);
        double u0 = unit(w.x, w.y), u1 = unit(w.z, w.w), u2 = unit(v.x, v.y), u3 = unit(v.z, v.w);
        double normal = sqrt(-2.0 * log(u0 + EPSILON)) * cos(2.0 * 3.141592653589793 * u1);
        double z = normal / sqrt(9.0 * d);
        // d * (1 - v + log(v)) for v = (1 + z)**3; NaN, and so rejected, if v is negative.
        double bound = d * (3.0 * log1p(z) - z * (3.0 + z * (3.0 + z)));
        y = d * ((1.0 + z) * (1.0 + z) * (1.0 + z));
        if (alpha < 1.0) y *= pow(u3 + EPSILON, 1.0 / alpha);
        if (log(u2) < 0.5 * (normal * normal) + bound) break;
    }
    return y;
}
"""
)

_POISSON = r"""
__device__ double invert_poisson(double rate, double u) {
    double term = exp(-rate), cumulative = term, k = 0.0;
    for (int i = 1; i < 64 && u >= cumulative; ++i) {
        k += 1.0;
        term *= rate / i;
        cumulative += term;
    }
    return k;
}

__device__ double log_poisson(double k, double rate) {
    if (!(k > 0.0)) return -rate;
    double difference = k - rate, square = k * k;
    double error = k < 16.0 ? STIRLING_ERROR[(int)k]
        : (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * square)) / square) / k;
    return difference - k * log1p(difference / rate)
        - 0.5 * log(2.0 * 3.141592653589793 * k) - error;
}

__device__ double draw_poisson(double rate, u64 element, u64 seed, u64 offset) {
    double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), k = 0.0;
    for (u64 attempt = 0; attempt < ATTEMPTS; ++attempt) {
        uint4 w = philox((attempt << 48) + element, seed, offset);
        double u = unit(w.x, w.y), v = unit(w.z, w.w);
        if (rate < 10.0) return invert_poisson(rate, u);
        u -= 0.5;
        double us = 0.5 - fabs(u);
        k = floor((2.0 * a / us + b) * u + rate + 0.43);
        double chance = log(v * inverse_alpha / (a / (us * us) + b));
        if (k >= 0.0 && chance <= log_poisson(k, rate)) break;
    }
    return k;
}
"""


def random_gamma(state: Array, alpha: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from gamma distributions of scale 1 and shape parameters `alpha`, broadcast to `shape`.

    No result is below the dtype's smallest normal number. A negative alpha gives NaN.
    """
    dtype = np.dtype(dtype)
    y = _gamma_kernel()(state, _flat(alpha, shape))
    return xp.maximum(y, _SMALLEST_NORMAL[dtype.name]).astype(dtype, copy=False).reshape(shape)


def random_poisson(state: Array, rate: Array, *, shape: Shape, dtype: Any) -> Array:
    """Draw from Poisson distributions of mean `rate`, broadcast to `shape`.

    A negative rate gives NaN, or 0 for an integer dtype. Integers are limited to the maximum of
    the dtype.
    """
    dtype = np.dtype(dtype)
    y = _poisson_kernel()(state, _flat(rate, shape))
    if dtype.kind in "iu":
        y = xp.where(xp.isnan(y), 0.0, xp.minimum(y, _largest(dtype)))
    return y.astype(dtype, copy=False).reshape(shape)


@functools.cache
def _gamma_kernel() -> Any:
    return _gamma().kernel()


def _gamma() -> Pointwise:
    return Pointwise(
        "raw uint64 state, float64 alpha",
        "float64 y",
        """
        y = alpha >= 0.0 ? alpha : nan("");
        if (alpha > 0.0 && isfinite(alpha)) y = draw_gamma(alpha, i, state[0], state[1]);
        """,
        "tapegrad_random_gamma",
        preamble=_GAMMA,
        options=_OPTIONS,
    )


@functools.cache
def _poisson_kernel() -> Any:
    return _poisson().kernel()


def _poisson() -> Pointwise:
    return Pointwise(
        "raw uint64 state, float64 rate",
        "float64 y",
        """
        y = rate >= 0.0 ? rate : nan("");
        if (rate >= 0.0 && isfinite(rate)) y = draw_poisson(rate, i, state[0], state[1]);
        """,
        "tapegrad_random_poisson",
        preamble=_UNIFORMS + c_array("STIRLING_ERROR", _stirling_errors()) + _POISSON,
        options=_OPTIONS,
    )


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    yield _gamma().source()
    yield _poisson().source()


def _stirling_errors() -> list[float]:
    """Return the error of Stirling's formula for log(n!), for n from 0 to 15 (0 is not used)."""
    half_log = 0.5 * math.log(2 * math.pi)
    return [0.0] + [
        math.lgamma(n + 1) - ((n + 0.5) * math.log(n) - n + half_log) for n in range(1, 16)
    ]


def _flat(parameter: Array, shape: Shape) -> Array:
    """Return one contiguous float64 parameter for each element, in row-major order."""
    if not isinstance(parameter, xp.ndarray):
        return xp.full(math.prod(shape), parameter, dtype=np.float64)
    flat = xp.broadcast_to(parameter, shape).reshape(-1)
    return xp.ascontiguousarray(flat.astype(np.float64, copy=False))


def _largest(dtype: np.dtype[Any]) -> float:
    largest = np.iinfo(dtype).max
    limit = float(largest)
    return limit if limit <= largest else math.nextafter(limit, 0.0)
