"""The Lambert W function, the inverse of w exp(w), on all branches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.complex_numbers import complex as complex_of, imag, real
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import where
from tapegrad.special_functions.derivatives import in_double

_STEPS = 12


def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """Return branch `k` of the inverse of w exp(w); the result is complex, as in SciPy.

    `tol` is accepted but ignored. The number of iterations is fixed and reaches full precision,
    except near -1/e on the branches 0 and -1, where half of the digits are lost.

    >>> lambertw(1.0).numpy().round(6)
    np.complex128(0.567143+0j)
    """
    if not isinstance(k, int):
        raise ArgumentError(f"lambertw needs an integer branch k. Got {k!r}.")
    z = operand(z)
    if numpy_dtype_of(z).kind != "c":
        z = cast(z, np.result_type(numpy_dtype_of(z), np.complex64))
    return in_double(lambda z: _branch(z, k), z)


def _branch(z: Any, k: int) -> Any:
    @custom_gradient
    def call(z: Any) -> Any:
        def slope(g: Any) -> Any:
            w = _branch(z, k)
            return g * conj(exp(-w) / (1 + w))

        return _solved(stop_gradient(z), k), slope

    return call(z)


def _solved(z: Any, k: int) -> Any:
    size = abs(z)
    is_zero, is_infinite = size == 0, size == math.inf
    inside = where(is_zero | is_infinite, 1.0, z)
    w = _start(inside, k)
    for _ in range(_STEPS):
        # Halley's step for w - z exp(-w), which does not overflow.
        residue = w - inside * exp(-w)
        above = w + 1
        is_edge = abs(above) < 1e-10
        above = where(is_edge, 1.0, above)
        step = residue / (above - (w + 2) * residue / (2 * above))
        w = where(is_edge, w, w - step)
    at_zero = 0.0 if k == 0 else -math.inf
    w = where(is_zero, at_zero, w)
    zero = 0.0 * real(inside)
    at_infinity = log(where(is_infinite, z, 1.0)) + complex_of(zero, zero + 2 * math.pi * k)
    return where(is_infinite, at_infinity, w)


def _start(z: Any, k: int) -> Any:
    """Return the initial guess: logarithms, or a series near the branch point and near 0."""
    reflected = log(z) + complex_of(0.0 * real(z), 0.0 * real(z) + 2 * math.pi * k)
    is_one = abs(reflected) < 1e-3
    far = reflected - log(where(is_one, 1.0, reflected))
    if k not in (-1, 0, 1):
        return far
    # At -1/e branch 0 meets branch -1 from above and branch 1 from below.
    root = sqrt(2 * (math.e * z + 1))
    sign = 1.0 if k == 0 else -1.0
    series = -1 + sign * root - root * root / 3 + sign * 11 / 72 * root * root * root
    distance = abs(z + math.exp(-1))
    if k == 0:
        small = z * (1 + 4 / 3 * z) / (1 + z * (7 / 3 + 5 / 6 * z))
        is_small = (real(z) > -0.2) & (real(z) < 1.5) & (abs(imag(z)) < 1)
        return where(distance < 0.55, series, where(is_small, small, far))
    is_side = imag(z) >= 0 if k == -1 else imag(z) < 0
    return where((distance < 0.3) & is_side, series, far)
