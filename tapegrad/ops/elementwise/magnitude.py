"""Absolute value and sign: abs, sign, fabs, signbit, copysign, heaviside."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, binary, unary
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.selection import keep, where
from tapegrad.ops.kinds import as_arrays, is_complex, is_integer


def _abs_jvp(t: Any, x: Any) -> Any:
    return real(conj(sign(x)) * t) if is_complex(x) else t * sign(x)


abs: Function = unary(
    "abs",
    lambda t, x: t * sign(x),
    jvp=_abs_jvp,
    conjugates=False,
    doc="Return the absolute value; the gradient at 0 is 0, also for complex numbers.",
)


def _sign_rule(t: Any, x: Any, y: Any) -> Any:
    """Return 0 for real x and at 0; remove the radial part of t for other complex x."""
    if not is_complex(x):
        return zeros_like(t)
    return divide_no_nan(t - y * real(conj(y) * t), abs(x))


sign: Function = unary(
    "sign",
    _sign_rule,
    conjugates=False,
    doc="Return -1, 0 or 1, or x / |x| for complex x; the gradient of real signs is zero.",
)
fabs: Function = unary(
    "fabs",
    lambda t, x: t * sign(x),
    forward=lambda xp, x: xp.abs(x),
    doc="Return the absolute value of real numbers.",
)
signbit: Function = unary(
    "signbit", None, doc="Return whether the sign bit is set; it is set for -0.0."
)
copysign: Function = binary(
    "copysign",
    lambda t, x1, x2: where(signbit(x1) == signbit(x2), t, -t),
    None,
    doc="Return the magnitude of x with the sign of y.",
)


def _heaviside(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    step = xp.astype(x > 0, y.dtype)
    # A NaN in x gives NaN; it has no sign.
    return xp.where(x == 0, y, step if is_integer(x) else xp.where(xp.isnan(x), x, step))


heaviside: Function = binary(
    "heaviside",
    lambda t: zeros_like(t),
    lambda t, x1: keep(t, x1 == 0),
    forward=_heaviside,
    selects=True,
    doc="Return 0 for negative x, 1 for positive x, and y where x is 0.",
)
