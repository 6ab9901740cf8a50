"""The logarithm of a sum of exponentials, and the weights that are its derivative."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.families import elementwise
from tapegrad.core.operand import as_operand, normalize_axes
from tapegrad.core.primitive import Primitive
from tapegrad.ops.axes import Axes, batch_over_axes, spread
from tapegrad.ops.basic import sum_p
from tapegrad.ops.half import in_single


def _exp_difference(xp: Any, x: Any, y: Any) -> Any:
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    same = x == y
    difference = xp.where(same, zero, x) - xp.where(same, zero, y)
    return xp.where(x == -math.inf, zero, xp.exp(difference))


# exp(x1 - x2), with exp(-inf) = 0 before all else and inf - inf = 0.
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
    """Return log(sum(exp(x))) over `axis`, computed so that nothing overflows.

    Elements at -inf have the derivative 0, in rows of nothing else too.

    >>> float(logsumexp([1000.0, -float("inf")]))
    1000.0
    """
    x = as_operand(x)
    axes = normalize_axes(axis, x.ndim, "logsumexp")
    return logsumexp_p(x, axis=axes, keepdims=bool(keepdims))
