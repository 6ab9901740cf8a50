"""Size and sign: abs, sign, copysign and their kin."""

from __future__ import annotations

from typing import Any

from tapegrad.core.families import Function, binary, unary
from tapegrad.ops.arithmetic import conj
from tapegrad.ops.complex_numbers import real
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.kinds import as_arrays, is_complex
from tapegrad.ops.no_nan import xdivy
from tapegrad.ops.selection import keep, where


def _abs_jvp(t: Any, x: Any) -> Any:
    return real(conj(sign(x)) * t) if is_complex(x) else t * sign(x)


abs: Function = unary(  # the maths word
    "abs",
    lambda t, x: t * sign(x),
    jvp=_abs_jvp,
    conjugates=False,
    doc="Return the absolute value; its gradient at 0 is 0, for complex numbers too.",
)


def _sign_rule(t: Any, x: Any, y: Any) -> Any:
    """Zero for real x. Complex signs move along the unit circle: the rest of t is projected out."""
    if not is_complex(x):
        return zeros_like(t)
    return xdivy(t - y * real(conj(y) * t), abs(x))


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
    "signbit", None, doc="Return whether the sign is negative, that of -0.0 included."
)
copysign: Function = binary(
    "copysign",
    lambda t, x1, x2: where(signbit(x1) == signbit(x2), t, -t),
    None,
    doc="Return the magnitude of x with the sign of y.",
)


def _heaviside(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    return xp.where(x == 0, y, xp.astype(x > 0, y.dtype))


heaviside: Function = binary(
    "heaviside",
    lambda t: zeros_like(t),
    lambda t, x1: keep(t, x1 == 0),
    forward=_heaviside,
    doc="Return 0 for negative x, 1 for positive x, and y where x is 0.",
)
