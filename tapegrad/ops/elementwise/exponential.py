"""Exponentials, logarithms and log-space addition."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import Function, binary, elementwise, unary
from tapegrad.core.values.convert import NUMBERS
from tapegrad.ops.elementwise.no_nan import multiply_no_nan, xdivy
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.kinds import as_arrays, is_complex

_LN2 = math.log(2)
_LN10 = math.log(10)


def _exp2(xp: Any, x: Any) -> Any:
    if is_complex(x):
        return xp.exp(x * _LN2)
    # Not exp(x * log 2), whose error grows with the rounding of large exponents.
    return xp.exp2(x) if hasattr(xp, "exp2") else xp.pow(xp.full_like(x, 2), x)


def _logaddexp2(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    if hasattr(xp, "logaddexp2"):
        return xp.logaddexp2(x, y)
    gap = x - y
    far = xp.maximum(x, y) + xp.log1p(_exp2(xp, -xp.abs(gap))) / _LN2
    return xp.where(x == y, x + 1, xp.where(xp.isnan(gap), gap, far))


exp: Function = unary("exp", lambda t, y: t * y, doc="Return e to the power x.")
exp2: Function = unary(
    "exp2",
    lambda t, y: t * y * _LN2,
    forward=_exp2,
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
    lambda t, x1, x2, y: t * _share(exp, x1, x2, y),
    lambda t, x1, x2, y: t * _share(exp, x2, x1, y),
    doc="Return log(exp(x) + exp(y)) without overflow.",
)
logaddexp2: Function = binary(
    "logaddexp2",
    lambda t, x1, x2, y: t * _share(exp2, x1, x2, y),
    lambda t, x1, x2, y: t * _share(exp2, x2, x1, y),
    forward=_logaddexp2,
    doc="Return log2(2**x + 2**y) without overflow.",
)


def _share(power: Function, a: Any, b: Any, y: Any) -> Any:
    """Return power(a) / (power(a) + power(b)) for y = log(power(a) + power(b)), and 0 for 0 / 0.

    The two terms are relative to y, so that none overflows. The division removes the rounding
    error of y, which is large if y is.
    """
    is_empty = y == -math.inf
    safe = where(is_empty, 0.0, y)
    term, other = (power(where(x == y, 0.0, x - safe)) for x in (a, b))
    return where(is_empty, 0.0, term / (term + other))


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


def _exp_difference(xp: Any, x: Any, y: Any) -> Any:
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    same = x == y
    difference = xp.where(same, zero, x) - xp.where(same, zero, y)
    return xp.where(x == -math.inf, zero, xp.exp(difference))


# exp(x1 - x2) with two conventions: the result is 0 where x1 is -inf, and inf - inf is 0.
exp_difference = elementwise(
    "exp_difference", lambda t, y: t * y, lambda t, y: -t * y, forward=_exp_difference
)
