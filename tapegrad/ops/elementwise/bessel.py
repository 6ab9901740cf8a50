"""Bessel functions of order 0 and 1, plain, modified and exponentially scaled."""

from __future__ import annotations

from functools import partial
from typing import Any

from tapegrad.core.primitive import families
from tapegrad.core.primitive.families import Function
from tapegrad.ops.elementwise.magnitude import sign
from tapegrad.ops.elementwise.selection import where

# The kernels are those of real functions, of which some have a pole at 0.
unary = partial(families.unary, real_only=True, poles=True)


def _divide_by_x(y: Any, x: Any) -> Any:
    """Return I₁(x) / x or J₁(x) / x; the limit at 0 is 1/2."""
    at_zero = x == 0
    return where(at_zero, 0.5, y / where(at_zero, 1.0, x))


bessel_i0: Function = unary(
    "bessel_i0", lambda t, x: t * bessel_i1(x), doc="Return the modified Bessel function I₀."
)
bessel_i1: Function = unary(
    "bessel_i1",
    lambda t, x, y: t * (bessel_i0(x) - _divide_by_x(y, x)),
    doc="Return the modified Bessel function I₁.",
)
bessel_i0e: Function = unary(
    "bessel_i0e", lambda t, x, y: t * (bessel_i1e(x) - sign(x) * y), doc="Return exp(-|x|) I₀(x)."
)
bessel_i1e: Function = unary(
    "bessel_i1e",
    lambda t, x, y: t * (bessel_i0e(x) - _divide_by_x(y, x) - sign(x) * y),
    doc="Return exp(-|x|) I₁(x).",
)
bessel_j0: Function = unary(
    "bessel_j0", lambda t, x: -t * bessel_j1(x), doc="Return the Bessel function J₀."
)
bessel_j1: Function = unary(
    "bessel_j1",
    lambda t, x, y: t * (bessel_j0(x) - _divide_by_x(y, x)),
    doc="Return the Bessel function J₁.",
)
bessel_y0: Function = unary(
    "bessel_y0", lambda t, x: -t * bessel_y1(x), doc="Return the Bessel function Y₀."
)
bessel_y1: Function = unary(
    "bessel_y1", lambda t, x, y: t * (bessel_y0(x) - y / x), doc="Return the Bessel function Y₁."
)
bessel_k0: Function = unary(
    "bessel_k0", lambda t, x: -t * bessel_k1(x), doc="Return the modified Bessel function K₀."
)
bessel_k1: Function = unary(
    "bessel_k1",
    lambda t, x, y: -t * (bessel_k0(x) + y / x),
    doc="Return the modified Bessel function K₁.",
)
bessel_k0e: Function = unary(
    "bessel_k0e", lambda t, x, y: t * (y - bessel_k1e(x)), doc="Return exp(x) K₀(x)."
)
bessel_k1e: Function = unary(
    "bessel_k1e", lambda t, x, y: t * (y - y / x - bessel_k0e(x)), doc="Return exp(x) K₁(x)."
)
