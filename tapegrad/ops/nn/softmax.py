"""Softmax and log-softmax: fused forward and backward primitives.

Elements that are -inf are masked: their softmax is 0, and a row of -inf only gives zeros.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.elementwise.exponential import exp, log
from tapegrad.ops.kinds import is_complex, require_floating
from tapegrad.ops.reduction.logsumexp import largest_finite
from tapegrad.ops.shape.primitives import lift_unbatched, sum_p


def _shifted(xp: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """Return x - max(x) and the sum of its exponentials, with 1 in place of a sum of 0."""
    top = xp.max(x, axis=axis, keepdims=True)
    shifted = x - xp.where(top == -inf, xp.zeros_like(top), top)
    total = xp.sum(xp.exp(shifted), axis=axis, keepdims=True)
    return shifted, xp.where(total == 0, xp.ones_like(total), total)


def _softmax(xp: Any, x: Any, *, axis: int) -> Any:
    if not x.shape[axis]:
        return xp.zeros_like(x)  # an empty axis has no maximum
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
softmax_p.real_only = log_softmax_p.real_only = True
log_softmax_gradient_p = Primitive("log_softmax_gradient", _log_softmax_gradient)


def _row_sum(x: Any, axis: int) -> Any:
    return sum_p(x, axis=(axis,), keepdims=True)


# The Jacobian of softmax, diag(y) - y y', is symmetric, so the VJP and the JVP are the same.
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

# For log-probabilities y, exp(y) = softmax(y); the latter is also correct for a masked row.
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
    """Return a batching rule for operands of equal shape: the axis shifts by one."""

    def batch(size: int, batched: Any, *args: Any, axis: int) -> Any:
        return primitive(*lift_unbatched(size, batched, *args), axis=axis + 1)

    return batch


for _primitive in (softmax_p, softmax_gradient_p, log_softmax_p, log_softmax_gradient_p):
    _primitive.batch(_batch_rows(_primitive))


def _prepare(logits: Any, axis: int | None, name: str) -> tuple[Any, int]:
    x = as_operand(logits)
    if not x.shape:
        raise ShapeError(f"{name} takes tensors of at least one dimension. Got a scalar.")
    require_floating(name, x)
    return x, normalize_axis(-1 if axis is None else axis, len(x.shape), name)


def _complex_shifted(x: Any, axis: int) -> Any:
    """Return x minus the number with the largest real part; the primitives are real."""
    return x - largest_finite(x, (axis,)) if x.shape[axis] else x


def softmax(logits: Any, axis: int | None = -1, name: str | None = None) -> Any:
    """Return exp(logits) divided by its sum along `axis`; -inf masks an element.

    >>> softmax([1.0, 1.0, -float("inf")]).tolist()
    [0.5, 0.5, 0.0]
    """
    x, axis = _prepare(logits, axis, "softmax")
    if is_complex(x):
        terms = exp(_complex_shifted(x, axis))
        return terms / _row_sum(terms, axis)
    return softmax_p(x, axis=axis)


def log_softmax(logits: Any, axis: int | None = -1, name: str | None = None) -> Any:
    """Return the logarithm of softmax, without underflow.

    >>> log_softmax([0.0, 1000.0]).tolist()
    [-1000.0, 0.0]
    """
    x, axis = _prepare(logits, axis, "log_softmax")
    if is_complex(x):
        shifted = _complex_shifted(x, axis)
        return shifted - log(_row_sum(exp(shifted), axis))
    return log_softmax_p(x, axis=axis)
