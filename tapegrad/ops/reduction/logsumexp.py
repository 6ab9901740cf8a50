"""logsumexp, whose derivative is the softmax."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axes
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.comparison import isfinite
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.elementwise.exponential import exp, exp_difference, log
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.half import in_single
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.reduction.axes import Axes, batch_over_axes, spread, spread_times
from tapegrad.ops.reduction.primitives import max_p
from tapegrad.ops.shape.primitives import sum_p


@in_single
def _logsumexp(xp: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    result = xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True)) + top
    return result if keepdims else xp.squeeze(result, axis=axis)


def _weights(x: Any, y: Any, axis: Axes, keepdims: bool) -> Any:
    """Return the softmax of x over the axes, from x and y = logsumexp(x).

    y is rounded to the precision of its own size, which would scale all of exp(x - y): by 3e-5 for
    1000 in single precision. Dividing by the sum removes that factor.
    """
    terms = exp_difference(x, spread(y, x.shape, axis, keepdims))
    return divide_no_nan(terms, sum_p(terms, axis=axis, keepdims=True))


logsumexp_p = Primitive("logsumexp", _logsumexp)
logsumexp_p.real_only = True
logsumexp_p.vjps(
    lambda t, x, y, *, axis, keepdims: spread_times(
        t, _weights(x, y, axis, keepdims), axis, keepdims
    )
)
logsumexp_p.jvps(
    lambda t, x, y, *, axis, keepdims: sum_p(
        t * _weights(x, y, axis, keepdims), axis=axis, keepdims=keepdims
    )
)
logsumexp_p.batch(batch_over_axes(logsumexp_p))


def largest_finite(x: Any, axis: Axes) -> Any:
    """Return the largest finite number along the axes, 0 if the largest one is infinite.

    It is a constant for derivatives: a shift by it cancels.
    """
    top = stop_gradient(max_p(x, axis=axis, keepdims=True))
    return where(isfinite(top), top, 0)


def _complex_logsumexp(x: Any, axis: Axes, keepdims: bool) -> Any:
    top = largest_finite(real(x), axis)
    terms = exp(x - top)
    result = log(sum_p(terms, axis=axis, keepdims=True)) + top
    return result if keepdims else sum_p(result, axis=axis, keepdims=False)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(x))) over `axis` without overflow.

    Elements that are -inf have derivative 0, even if all elements of the row are -inf.

    >>> float(logsumexp([1000.0, -float("inf")]))
    1000.0
    """
    x = as_operand(x)
    axes = normalize_axes(axis, x.ndim, "logsumexp")
    if is_complex(x):
        return _complex_logsumexp(x, axes, bool(keepdims))
    return logsumexp_p(x, axis=axes, keepdims=bool(keepdims))
