"""Softmax and its logarithm: fused forward and backward primitives.

Elements at -inf are masked out: they get weight 0, and a row of nothing else gets zeros.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tapegrad.core.operand import as_operand, normalize_axis
from tapegrad.core.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.basic import lift_unbatched, sum_p


def _shifted(xp: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """Return x less its maximum, and the sum of the exponentials of that (1 where it is 0)."""
    top = xp.max(x, axis=axis, keepdims=True)
    shifted = x - xp.where(top == -inf, xp.zeros_like(top), top)
    total = xp.sum(xp.exp(shifted), axis=axis, keepdims=True)
    return shifted, xp.where(total == 0, xp.ones_like(total), total)


def _softmax(xp: Any, x: Any, *, axis: int) -> Any:
    if not x.shape[axis]:
        return xp.zeros_like(x)  # nothing has no maximum
    shifted, total = _shifted(xp, x, axis)
    return xp.exp(shifted) / total


def _log_softmax(xp: Any, x: Any, *, axis: int) -> Any:
    if not x.shape[axis]:
        return xp.zeros_like(x)
    shifted, total = _shifted(xp, x, axis)
    return shifted - xp.log(total)


def _softmax_gradient(xp: Any, t: Any, y: Any, *, axis: int) -> Any:
    return y * (t - xp.sum(t * y, axis=axis, keepdims=True))


def _log_softmax_gradient(xp: Any, t: Any, y: Any, *, axis: int) -> Any:
    return t - xp.exp(y) * xp.sum(t, axis=axis, keepdims=True)


softmax_p = Primitive("softmax", _softmax)
softmax_gradient_p = Primitive("softmax_gradient", _softmax_gradient)
log_softmax_p = Primitive("log_softmax", _log_softmax)
log_softmax_gradient_p = Primitive("log_softmax_gradient", _log_softmax_gradient)


def _row_sum(x: Any, axis: int) -> Any:
    return sum_p(x, axis=(axis,), keepdims=True)


# The Jacobian of softmax, diag(y) - y y', is symmetric: one function is its VJP and its JVP.
softmax_p.vjps(lambda t, y, *, axis: softmax_gradient_p(t, y, axis=axis))
softmax_p.jvps(lambda t, y, *, axis: softmax_gradient_p(t, y, axis=axis))
softmax_gradient_p.vjps(
    lambda t, x2, *, axis: softmax_gradient_p(t, x2, axis=axis),
    lambda t, x1, x2, *, axis: t * (x1 - _row_sum(x1 * x2, axis)) - x1 * _row_sum(t * x2, axis),
)
softmax_gradient_p.jvps(
    lambda t, x2, *, axis: softmax_gradient_p(t, x2, axis=axis),
    lambda t, x1, x2, *, axis: t * (x1 - _row_sum(x1 * x2, axis)) - x2 * _row_sum(t * x1, axis),
)

# exp(y) of log-probabilities y is softmax(y), which is also right where a whole row is masked.
log_softmax_p.vjps(lambda t, y, *, axis: log_softmax_gradient_p(t, y, axis=axis))
log_softmax_p.jvps(lambda t, y, *, axis: t - _row_sum(t * softmax_p(y, axis=axis), axis))
log_softmax_gradient_p.vjps(
    lambda t, x2, *, axis: t - _row_sum(t * softmax_p(x2, axis=axis), axis),
    lambda t, x1, x2, *, axis: -t * _row_sum(x1, axis) * softmax_p(x2, axis=axis),
)
log_softmax_gradient_p.jvps(
    lambda t, x2, *, axis: log_softmax_gradient_p(t, x2, axis=axis),
    lambda t, x1, x2, *, axis: -t * _row_sum(x1, axis) * softmax_p(x2, axis=axis),
)


def _batch_rows(primitive: Primitive) -> Any:
    """A batching rule for operands of one shape and a counted axis: all move by one."""

    def batch(size: int, batched: Any, *args: Any, axis: int) -> Any:
        return primitive(*lift_unbatched(size, batched, *args), axis=axis + 1)

    return batch


for _primitive in (softmax_p, softmax_gradient_p, log_softmax_p, log_softmax_gradient_p):
    _primitive.batch(_batch_rows(_primitive))


def _prepare(logits: Any, axis: int | None, name: str) -> tuple[Any, int]:
    x = as_operand(logits)
    if not x.shape:
        raise ShapeError(f"{name} takes tensors of at least one dimension. Got a number.")
    return x, normalize_axis(-1 if axis is None else axis, len(x.shape), name)


def softmax(logits: Any, axis: int | None = -1, name: str | None = None) -> Any:
    """Return exp(logits) divided by its sum along `axis`; -inf masks an element out.

    >>> softmax([1.0, 1.0, -float("inf")]).tolist()
    [0.5, 0.5, 0.0]
    """
    x, axis = _prepare(logits, axis, "softmax")
    return softmax_p(x, axis=axis)


def log_softmax(logits: Any, axis: int | None = -1, name: str | None = None) -> Any:
    """Return the logarithm of softmax, computed without forming it.

    >>> log_softmax([0.0, 1000.0]).tolist()
    [-1000.0, 0.0]
    """
    x, axis = _prepare(logits, axis, "log_softmax")
    return log_softmax_p(x, axis=axis)
