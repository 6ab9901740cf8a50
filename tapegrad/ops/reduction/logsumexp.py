"""logsumexp and `exp_difference`, the softmax weights that are its derivative."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import elementwise
from tapegrad.core.primitive.operand import as_operand, normalize_axes
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.half import in_single
from tapegrad.ops.reduction.axes import Axes, batch_over_axes, spread
from tapegrad.ops.shape.primitives import sum_p


def _exp_difference(xp: Any, x: Any, y: Any) -> Any:
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    same = x == y
    difference = xp.where(same, zero, x) - xp.where(same, zero, y)
    return xp.where(x == -math.inf, zero, xp.exp(difference))


# exp(x1 - x2) with two conventions: the result is 0 where x1 is -inf, and inf - inf is 0.
exp_difference = elementwise(
    "exp_difference", lambda t, y: t * y, lambda t, y: -t * y, forward=_exp_difference
)


@in_single
def _logsumexp(xp: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    result = xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True)) + top
    return result if keepdims else xp.squeeze(result, axis=axis)


logsumexp_p = Primitive("logsumexp", _logsumexp)
logsumexp_p.vjps(
    lambda t, x, y, *, axis, keepdims: (
        spread(t, x.shape, axis, keepdims) * exp_difference(x, spread(y, x.shape, axis, keepdims))
    )
)
logsumexp_p.jvps(
    lambda t, x, y, *, axis, keepdims: sum_p(
        t * exp_difference(x, spread(y, x.shape, axis, keepdims)), axis=axis, keepdims=keepdims
    )
)
logsumexp_p.batch(batch_over_axes(logsumexp_p))


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(x))) over `axis` without overflow.

    Elements that are -inf have derivative 0, even if all elements of the row are -inf.

    >>> float(logsumexp([1000.0, -float("inf")]))
    1000.0
    """
    x = as_operand(x)
    axes = normalize_axes(axis, x.ndim, "logsumexp")
    return logsumexp_p(x, axis=axes, keepdims=bool(keepdims))
