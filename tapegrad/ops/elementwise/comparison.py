"""Comparisons, logical operations and tests for NaN and infinity. None has a derivative."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import binary, nondifferentiable, unary
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import NUMBERS
from tapegrad.ops.kinds import is_integer

equal = binary("equal", None, None, doc="Return whether x == y, element by element.")
not_equal = binary("not_equal", None, None, doc="Return whether x != y, element by element.")
less = binary("less", None, None, doc="Return whether x < y, element by element.")
less_equal = binary("less_equal", None, None, doc="Return whether x <= y, element by element.")
greater = binary("greater", None, None, doc="Return whether x > y, element by element.")
greater_equal = binary(
    "greater_equal", None, None, doc="Return whether x >= y, element by element."
)

logical_and = binary("logical_and", None, None, doc="Return x and y, element by element.")
logical_or = binary("logical_or", None, None, doc="Return x or y, element by element.")
logical_xor = binary(
    "logical_xor", None, None, doc="Return whether exactly one of x and y is true."
)
logical_not = unary("logical_not", None, doc="Return not x, element by element.")

isnan = unary("isnan", None, doc="Return whether each element is NaN.")
isinf = unary("isinf", None, doc="Return whether each element is infinite.")
isfinite = unary("isfinite", None, doc="Return whether each element is a finite number.")


def approximate_equal(x: Any, y: Any, tolerance: float = 1e-5, name: str | None = None) -> Any:
    """Return whether |x - y| < tolerance, element by element.

    >>> approximate_equal([1.0, 2.0], 1.000001).tolist()
    [True, False]
    """
    return less(abs(as_operand(x) - y), tolerance)


def _isclose(xp: Any, x: Any, y: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    if is_integer(x) and is_integer(y):  # differences of integers can overflow
        x, y = xp.astype(x, xp.float64), xp.astype(y, xp.float64)
    # Equal infinities are close, although their difference is NaN.
    same = x == y
    gap = xp.abs(xp.where(same, xp.zeros_like(x), x) - xp.where(same, xp.zeros_like(y), y))
    near = same | (xp.isfinite(y) & (gap <= atol + rtol * xp.abs(y)))
    return near | (xp.isnan(x) & xp.isnan(y)) if equal_nan else near


isclose_p = nondifferentiable("isclose", _isclose, broadcasts=True)
# Tolerances that are tensors or arrays are operands: a kernel cannot take tensors as parameters.
isclose_within_p = nondifferentiable(
    "isclose_within",
    lambda xp, x, y, rtol, atol, *, equal_nan: _isclose(
        xp, x, y, rtol=rtol, atol=atol, equal_nan=equal_nan
    ),
    broadcasts=True,
)


def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether |x - y| <= atol + rtol * |y|, element by element.

    >>> isclose([1.0, 2.0], 1.000001).tolist()
    [True, False]
    """
    x, y = as_operand(x), as_operand(y)
    if type(rtol) in NUMBERS and type(atol) in NUMBERS:
        return isclose_p(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return isclose_within_p(x, y, as_operand(rtol), as_operand(atol), equal_nan=equal_nan)
