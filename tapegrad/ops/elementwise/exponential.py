"""Exponentials, logarithms and log-space addition."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import Function, binary, unary
from tapegrad.core.values.convert import NUMBERS
from tapegrad.ops.elementwise.no_nan import multiply_no_nan, xdivy
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.kinds import as_arrays

_LN2 = math.log(2)
_LN10 = math.log(10)

exp: Function = unary("exp", lambda t, y: t * y, doc="Return e to the power x.")
exp2: Function = unary(
    "exp2",
    lambda t, y: t * y * _LN2,
    forward=lambda xp, x: xp.exp(x * _LN2),
    doc="Return 2 to the power x.",
)
expm1: Function = unary(
    "expm1", lambda t, y: t * (y + 1), doc="Return exp(x) - 1, accurate near 0."
)

log: Function = unary("log", lambda t, x: xdivy(t, x), doc="Return the natural logarithm.")
log2: Function = unary(
    "log2", lambda t, x: xdivy(t, x * _LN2), doc="Return the logarithm to base 2."
)
log10: Function = unary(
    "log10", lambda t, x: xdivy(t, x * _LN10), doc="Return the logarithm to base 10."
)
log1p: Function = unary(
    "log1p", lambda t, x: xdivy(t, x + 1), doc="Return log(1 + x), accurate near 0."
)

logaddexp: Function = binary(
    "logaddexp",
    lambda t, x1, y: t * exp(x1 - _replace_minus_infinity(y)),
    lambda t, x2, y: t * exp(x2 - _replace_minus_infinity(y)),
    doc="Return log(exp(x) + exp(y)) without overflow.",
)
logaddexp2: Function = binary(
    "logaddexp2",
    lambda t, x1, y: t * exp2(x1 - _replace_minus_infinity(y)),
    lambda t, x2, y: t * exp2(x2 - _replace_minus_infinity(y)),
    forward=lambda xp, x, y: xp.logaddexp(x * _LN2, y * _LN2) / _LN2,
    doc="Return log2(2**x + 2**y) without overflow.",
)


def _replace_minus_infinity(y: Any) -> Any:
    """Replace -inf by 0, so that the gradient of log(0 + 0) is 0 and not NaN."""
    return where(y == -math.inf, 0.0, y)


def _log_shifted(x: Any, shift: int) -> Any:
    """Return log(x + shift) for shift 0 or 1.

    The result for a Python number is a Python number, so that it does not promote the cotangent.
    """
    if type(x) not in NUMBERS:
        return log1p(x) if shift else log(x)
    if x + shift > 0:
        return math.log(x + shift)
    return -math.inf if x + shift == 0 else math.nan


def _xlogy(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    zero = x == 0
    return xp.where(zero, xp.zeros_like(x), x * xp.log(xp.where(zero, xp.ones_like(y), y)))


def _xlog1py(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    zero = x == 0
    return xp.where(zero, xp.zeros_like(x), x * xp.log1p(xp.where(zero, xp.zeros_like(y), y)))


xlogy: Function = binary(
    "xlogy",
    lambda t, x2: multiply_no_nan(_log_shifted(x2, 0), t),
    lambda t, x1, x2: xdivy(t * x1, x2),
    forward=_xlogy,
    doc="Return x * log(y), and 0 where x is 0.",
)
xlog1py: Function = binary(
    "xlog1py",
    lambda t, x2: multiply_no_nan(_log_shifted(x2, 1), t),
    lambda t, x1, x2: xdivy(t * x1, x2 + 1),
    forward=_xlog1py,
    doc="Return x * log(1 + y), and 0 where x is 0.",
)
