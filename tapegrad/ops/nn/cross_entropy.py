"""Primitives for the cross entropy of logits, with class indices or with class probabilities.

With class indices, the second output is the softmax, the only array of the size of the logits that
the tape keeps. With class probabilities, the tape keeps both inputs and the logsumexp of each row,
an auxiliary output for the backward pass.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.nn.softmax import log_softmax_p, softmax_gradient_p, softmax_p
from tapegrad.ops.shape.primitives import lift_unbatched, reshape_p, sum_p


def _log_totals(xp: Any, x: Any) -> Any:
    """Return the logsumexp of each row, and 0 for a row of -inf only."""
    top = xp.max(x, axis=-1, keepdims=True)
    top = xp.where(top == -math.inf, xp.zeros_like(top), top)
    total = xp.sum(xp.exp(x - top), axis=-1, keepdims=True)
    return xp.log(xp.where(total == 0, xp.ones_like(total), total)) + top


def _hits(xp: Any, labels: Any, classes: int) -> Any:
    numbers = xp.arange(classes, dtype=labels.dtype, device=labels.device)
    return labels[..., None] == numbers


def _sparse_forward(xp: Any, x: Any, labels: Any) -> tuple[Any, Any]:
    log_total = _log_totals(xp, x)
    hits = _hits(xp, labels, x.shape[-1])
    picked = xp.sum(xp.where(hits, x, xp.zeros_like(x)), axis=-1, keepdims=True)
    # A label out of range makes its row NaN: raising an error would require a synchronization.
    nan = xp.full((), math.nan, dtype=x.dtype, device=x.device)
    log_total = xp.where(xp.any(hits, axis=-1, keepdims=True), log_total, nan)
    return (log_total - picked)[..., 0], xp.exp(x - log_total)


def _sparse_backward(xp: Any, t: Any, weights: Any, labels: Any) -> Any:
    hits = _hits(xp, labels, weights.shape[-1])
    return t[..., None] * xp.where(hits, weights - 1, weights)


def _dense_forward(xp: Any, x: Any, labels: Any) -> tuple[Any, Any]:
    log_total = _log_totals(xp, x)
    cost = xp.where(labels == 0, xp.zeros_like(x), labels * (log_total - x))
    return xp.sum(cost, axis=-1), log_total[..., 0]


def _dense_backward(xp: Any, t: Any, x: Any, labels: Any, log_total: Any) -> Any:
    weights = xp.exp(x - log_total[..., None])
    # The sum of the weights is close to 1; dividing by it removes the rounding error of log_total.
    total = xp.sum(weights, axis=-1, keepdims=True)
    total = xp.where(total == 0, xp.ones_like(total), total)
    scale = xp.sum(labels, axis=-1, keepdims=True) / total
    return t[..., None] * (weights * scale - labels)


def _with_gradient(loss: Primitive, gradient: Primitive, keeps_input: bool) -> Any:
    """Return a kernel for a loss and its gradient; the cotangent is the last operand.

    It calls the kernels of both primitives, so that fusing them does not change the result.
    """

    def forward(xp: Any, x: Any, labels: Any, t: Any) -> tuple[Any, Any]:
        value, kept = loss.kernel(type(x))(x, labels)
        given = (t, x, labels, kept) if keeps_input else (t, kept, labels)
        return value, gradient.kernel(type(x))(*given)

    return forward


sparse_cross_entropy_p = Primitive("sparse_cross_entropy", _sparse_forward, many=True)
sparse_cross_entropy_gradient_p = Primitive("sparse_cross_entropy_gradient", _sparse_backward)
cross_entropy_p = Primitive("cross_entropy", _dense_forward, many=True)
cross_entropy_gradient_p = Primitive("cross_entropy_gradient", _dense_backward)
sparse_cross_entropy_p.real_only = cross_entropy_p.real_only = True
# The loss and its gradient together, for programs that know the cotangent before the loss.
sparse_cross_entropy_and_gradient_p = nondifferentiable(
    "sparse_cross_entropy_and_gradient",
    _with_gradient(sparse_cross_entropy_p, sparse_cross_entropy_gradient_p, keeps_input=False),
    many=True,
)
cross_entropy_and_gradient_p = nondifferentiable(
    "cross_entropy_and_gradient",
    _with_gradient(cross_entropy_p, cross_entropy_gradient_p, keeps_input=True),
    many=True,
)
label_mask_p = nondifferentiable(
    "label_mask", lambda xp, x, labels: xp.astype(_hits(xp, labels, x.shape[-1]), x.dtype)
)


def _row(t: Any) -> Any:
    """Append a unit axis, so that one number per row broadcasts over the classes."""
    return reshape_p(t, shape=(*t.shape, 1))


def _row_sum(x: Any) -> Any:
    return sum_p(x, axis=(len(x.shape) - 1,), keepdims=False)


def _softmax(x: Any) -> Any:
    return softmax_p(x, axis=len(x.shape) - 1)


def _softmax_product(t: Any, x: Any) -> Any:
    """Multiply `t` by the Jacobian of softmax at `x`."""
    return softmax_gradient_p(t, _softmax(x), axis=len(x.shape) - 1)


sparse_cross_entropy_p.takes_none = True


@sparse_cross_entropy_p.vjp
def _sparse_vjp(t: Any, x2: Any, y2: Any) -> tuple[Any, None]:
    for_loss, for_weights = t
    cotangent: Any = None
    if for_loss is not None:
        cotangent = sparse_cross_entropy_gradient_p(for_loss, y2, x2)
    if for_weights is not None:
        other = softmax_gradient_p(for_weights, y2, axis=len(y2.shape) - 1)
        cotangent = other if cotangent is None else cotangent + other
    return cotangent, None


@sparse_cross_entropy_p.jvp
def _sparse_jvp(ts: Any, x2: Any, y2: Any) -> tuple[Any, Any]:
    loss = _row_sum(ts[0] * (y2 - label_mask_p(y2, x2)))
    return loss, softmax_gradient_p(ts[0], y2, axis=len(y2.shape) - 1)


# Bilinear in the cotangent and the weights minus the label mask
sparse_cross_entropy_gradient_p.vjps(
    lambda t, x2, x3: _row_sum(t * (x2 - label_mask_p(x2, x3))), lambda t, x1: t * _row(x1), None
)
sparse_cross_entropy_gradient_p.jvps(
    lambda t, x2, x3: sparse_cross_entropy_gradient_p(t, x2, x3), lambda t, x1: t * _row(x1), None
)


@cross_entropy_p.vjp
def _dense_vjp(t: Any, x1: Any, x2: Any, y2: Any, *, needs: tuple[bool, ...]) -> Any:
    for_logits = cross_entropy_gradient_p(t[0], x1, x2, y2) if needs[0] else None
    for_labels = -_row(t[0]) * log_softmax_p(x1, axis=len(x1.shape) - 1) if needs[1] else None
    return for_logits, for_labels


@cross_entropy_p.jvp
def _dense_jvp(ts: Any, x1: Any, x2: Any) -> tuple[Any, None]:
    total: Any = None
    if ts[0] is not None:
        total = _row_sum(ts[0] * (_softmax(x1) * _row(_row_sum(x2)) - x2))
    if ts[1] is not None:
        for_labels = -_row_sum(ts[1] * log_softmax_p(x1, axis=len(x1.shape) - 1))
        total = for_labels if total is None else total + for_labels
    return total, None


# The same for class probabilities: the softmax is multiplied by the sum of the labels.
cross_entropy_gradient_p.vjps(
    lambda t, x2, x3: _row_sum(t * (_softmax(x2) * _row(_row_sum(x3)) - x3)),
    lambda t, x1, x2, x3: _softmax_product(t * _row(x1 * _row_sum(x3)), x2),
    lambda t, x1, x2: _row(x1) * (_row(_row_sum(t * _softmax(x2))) - t),
    None,
)
cross_entropy_gradient_p.jvps(
    lambda t, x2, x3, x4: cross_entropy_gradient_p(t, x2, x3, x4),
    lambda t, x1, x2, x3: _row(x1 * _row_sum(x3)) * _softmax_product(t, x2),
    lambda t, x1, x2: _row(x1) * (_softmax(x2) * _row(_row_sum(t)) - t),
    None,
)


def _batch_lead(primitive: Primitive) -> Any:
    """Return a batching rule for primitives that work on the last axis only."""

    def batch(size: int, batched: Any, *args: Any) -> Any:
        return primitive(*lift_unbatched(size, batched, *args))

    return batch


for _primitive in (
    sparse_cross_entropy_p,
    sparse_cross_entropy_gradient_p,
    cross_entropy_p,
    cross_entropy_gradient_p,
    sparse_cross_entropy_and_gradient_p,
    cross_entropy_and_gradient_p,
    label_mask_p,
):
    _primitive.batch(_batch_lead(_primitive))
