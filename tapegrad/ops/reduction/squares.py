"""Sum of squares and Euclidean norm; for complex values both sum |x|^2 and are real."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axes
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.casting.cast import cast_like
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.no_nan import divide_no_nan, guard
from tapegrad.ops.reduction.axes import Axes, batch_over_axes, spread_times
from tapegrad.ops.shape.primitives import sum_p


def _sum_of_squares(xp: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    if xp.isdtype(x.dtype, "complex floating"):
        squares = xp.real(x) ** 2 + xp.imag(x) ** 2
    else:
        squares = x * x
    return xp.sum(squares, axis=axis, keepdims=keepdims, dtype=squares.dtype)


def _real_inner(t: Any, x: Any, y: Any, axis: Axes, keepdims: bool) -> Any:
    """Return the sum of Re(conj(x) t), with the real dtype of `y`."""
    if x.dtype == y.dtype:
        return sum_p(x * t, axis=axis, keepdims=keepdims)
    return cast_like(sum_p(conj(x) * t, axis=axis, keepdims=keepdims), y.dtype)


sum_of_squares_p = Primitive("sum_of_squares", _sum_of_squares)
sum_of_squares_p.vjps(lambda t, x, *, axis, keepdims: spread_times(2 * t, x, axis, keepdims))
sum_of_squares_p.jvps(lambda t, x, y, *, axis, keepdims: 2 * _real_inner(t, x, y, axis, keepdims))
sum_of_squares_p.batch(batch_over_axes(sum_of_squares_p))


euclidean_norm_p = Primitive(
    "euclidean_norm",
    lambda xp, x, *, axis, keepdims: xp.sqrt(_sum_of_squares(xp, x, axis=axis, keepdims=keepdims)),
)
euclidean_norm_p.vjps(
    lambda t, x, y, *, axis, keepdims: spread_times(
        guard(divide_no_nan(t, y), t), x, axis, keepdims
    )
)
euclidean_norm_p.jvps(
    lambda t, x, y, *, axis, keepdims: divide_no_nan(_real_inner(t, x, y, axis, keepdims), y)
)
euclidean_norm_p.batch(batch_over_axes(euclidean_norm_p))


def sum_of_squares(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the sum of |x|^2 over `axis`.

    >>> float(sum_of_squares([3.0, 4.0]))
    25.0
    """
    x = as_operand(x)
    axes = normalize_axes(axis, x.ndim, "sum_of_squares")
    return sum_of_squares_p(x, axis=axes, keepdims=bool(keepdims))


def euclidean_norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the square root of the sum of |x|^2 over `axis`; its derivative at 0 is 0.

    >>> float(euclidean_norm([3.0, 4.0]))
    5.0
    """
    x = as_operand(x)
    axes = normalize_axes(axis, x.ndim, "euclidean_norm")
    return euclidean_norm_p(x, axis=axes, keepdims=bool(keepdims))
