"""Comparisons, logical operations and tests for NaN and infinity. None has a derivative."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import binary, nondifferentiable, unary
from tapegrad.core.primitive.operand import as_operand

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
    # Equal infinities are close, although their difference is NaN.
    same = x == y
    gap = xp.abs(xp.where(same, xp.zeros_like(x), x) - xp.where(same, xp.zeros_like(y), y))
    near = same | (xp.isfinite(y) & (gap <= atol + rtol * xp.abs(y)))
    return near | (xp.isnan(x) & xp.isnan(y)) if equal_nan else near


isclose_p = nondifferentiable("isclose", _isclose, broadcasts=True)


def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether |x - y| <= atol + rtol * |y|, element by element.

    >>> isclose([1.0, 2.0], 1.000001).tolist()
    [True, False]
    """
    return isclose_p(as_operand(x), as_operand(y), rtol=rtol, atol=atol, equal_nan=equal_nan)
