"""Attention as one primitive with a fused backward pass: softmax(query key' * scale) value.

Queries are `[..., heads, n, d]`, keys and values `[..., kv_heads, m, d or width]`. Leading axes are
equal, and `heads / kv_heads` consecutive query heads share one key head. With `causal`, query i
attends to the keys up to i + m - n, which may be none.

The second output is auxiliary: the backward pass uses it. The kernels here return the weights; the
kernels of a backend may return the logsumexp of the scores and recompute the weights. Rules treat
it and `y` as functions of the inputs.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.elementwise.selection import where_p
from tapegrad.ops.half import widened
from tapegrad.ops.nn.softmax import softmax_gradient_p, softmax_p
from tapegrad.ops.products.primitives import matmul_p
from tapegrad.ops.shape.primitives import broadcast_p, lift_unbatched, reshape_p, sum_p

Shape = tuple[int, ...]


def queries_per_head(q: Any, k: Any) -> int:
    """Return how many query heads share one key head."""
    return int(q.shape[-3] // k.shape[-3]) if len(q.shape) > 2 and k.shape[-3] else 1


def _folded(shape: Shape, groups: int) -> Shape:
    """Return the shape in which query heads that share keys are merged into larger matrices."""
    if groups == 1:
        return shape
    *lead, heads, n, width = shape
    return (*lead, heads // groups, groups * n, width)


# Generic kernels. Half precision is computed in single precision.


def _causal_mask(xp: Any, x: Any) -> Any:
    """Return the causal mask [queries, keys]: true for keys that are not later than the query."""
    n, m = x.shape[-2:]
    rows = xp.arange(m - n, m, device=x.device)
    return rows[:, None] >= xp.arange(m, device=x.device)


def _scores(xp: Any, q: Any, k: Any, scale: float, causal: bool) -> Any:
    queries = xp.reshape(q * scale, _folded(q.shape, queries_per_head(q, k)))
    scores = xp.matmul(queries, xp.matrix_transpose(k))
    scores = xp.reshape(scores, (*q.shape[:-1], k.shape[-2]))
    if not causal:
        return scores
    masked = xp.full((), -inf, dtype=scores.dtype, device=scores.device)
    return xp.where(_causal_mask(xp, scores), scores, masked)


def _attention(xp: Any, q: Any, k: Any, v: Any, *, scale: float, causal: bool) -> tuple[Any, Any]:
    dtype, shape = q.dtype, (*q.shape[:-1], v.shape[-1])
    q, k, v = widened(xp, q, k, v)
    weights = _softmax(xp, _scores(xp, q, k, scale, causal))
    rows = xp.reshape(weights, _folded(weights.shape, queries_per_head(q, k)))
    y = xp.reshape(xp.matmul(rows, v), shape)
    return xp.astype(y, dtype, copy=False), weights


def _softmax(xp: Any, scores: Any) -> Any:
    """Return the softmax along the last axis; a row of -inf only gives zeros."""
    if not scores.shape[-1]:
        return scores
    top = xp.max(scores, axis=-1, keepdims=True)
    weights = xp.exp(scores - xp.where(top == -inf, xp.zeros_like(top), top))
    total = xp.sum(weights, axis=-1, keepdims=True)
    return weights / xp.where(total == 0, xp.ones_like(total), total)


def _attention_gradient(
    xp: Any, t: Any, q: Any, k: Any, v: Any, y: Any, weights: Any, *, scale: float, causal: bool
) -> tuple[Any, Any, Any]:
    dtype, shape, groups = q.dtype, q.shape, queries_per_head(q, k)
    t, q, k, v, y = (
        xp.reshape(x, _folded(x.shape, queries_per_head(x, k))) for x in widened(xp, t, q, k, v, y)
    )
    weights = xp.reshape(weights, _folded(weights.shape, groups))
    for_weights = xp.matmul(t, xp.matrix_transpose(v))
    # sum(weights * for_weights) over the keys is sum(t * y) over the features.
    scores = weights * (for_weights - xp.sum(t * y, axis=-1, keepdims=True)) * scale
    for_q = xp.matmul(scores, k)
    for_q = xp.reshape(for_q, shape)
    for_k = xp.matmul(xp.matrix_transpose(scores), q)
    for_v = xp.matmul(xp.matrix_transpose(weights), t)
    for_q, for_k, for_v = (xp.astype(g, dtype, copy=False) for g in (for_q, for_k, for_v))
    return for_q, for_k, for_v


attention_p = Primitive("attention", _attention, many=True)
attention_p.real_only = True
attention_gradient_p = Primitive("attention_gradient", _attention_gradient, many=True)
causal_mask_p = nondifferentiable("causal_mask", _causal_mask)


@causal_mask_p.batch
def _batch_causal_mask(size: int, batched: tuple[bool, ...], x: Any) -> Any:
    return broadcast_p(causal_mask_p(x), shape=(size, *x.shape[-2:]))


def hide_future(scores: Any) -> Any:
    """Set the scores [..., queries, keys] of keys that are later than the query to -inf."""
    return where_p(causal_mask_p(scores), scores, -inf)


# Products in the rules, where query heads may share keys


def _fold(x: Any, groups: int) -> Any:
    return x if groups == 1 else reshape_p(x, shape=_folded(tuple(x.shape), groups))


def _query_key_product(x: Any, keys: Any) -> Any:
    """Return `x keys'`: from one vector per query and one per key, a number for each pair."""
    groups = queries_per_head(x, keys)
    product = matmul_p(_fold(x, groups), keys, transpose_a=False, transpose_b=True)
    return reshape_p(product, shape=(*x.shape[:-1], keys.shape[-2])) if groups > 1 else product


def _weighted_sum(weights: Any, keys: Any) -> Any:
    """Return `weights keys`: one vector per query, the weighted sum over the keys."""
    groups = queries_per_head(weights, keys)
    product = matmul_p(_fold(weights, groups), keys, transpose_a=False, transpose_b=False)
    if groups == 1:
        return product
    return reshape_p(product, shape=(*weights.shape[:-1], keys.shape[-1]))


def _sum_over_queries(weights: Any, x: Any, keys: Any) -> Any:
    """Return `weights' x`: one vector per key, the weighted sum over the queries."""
    groups = queries_per_head(weights, keys)
    return matmul_p(_fold(weights, groups), _fold(x, groups), transpose_a=True, transpose_b=False)


def _weights(q: Any, k: Any, scale: float, causal: bool) -> Any:
    scores = _query_key_product(q * scale, k)
    scores = hide_future(scores) if causal else scores
    return softmax_p(scores, axis=len(scores.shape) - 1)


def _softmax_product(t: Any, weights: Any) -> Any:
    """Multiply `t` by the Jacobian of softmax, which is symmetric."""
    return softmax_gradient_p(t, weights, axis=len(weights.shape) - 1)


def _row_sum(x: Any) -> Any:
    return sum_p(x, axis=(len(x.shape) - 1,), keepdims=True)


def _plus(first: Any, second: Any) -> Any:
    return second if first is None else first + second


attention_p.takes_none = True  # the auxiliary output has no cotangent


@attention_p.vjp
def _attention_vjp(
    t: Any, x1: Any, x2: Any, x3: Any, y1: Any, y2: Any, *, scale: float, causal: bool
) -> Any:
    if t[0] is None:
        return None, None, None
    return attention_gradient_p(t[0], x1, x2, x3, y1, y2, scale=scale, causal=causal)


@attention_p.jvp
def _attention_jvp(
    ts: Any, x1: Any, x2: Any, x3: Any, *, scale: float, causal: bool
) -> tuple[Any, None]:
    for_q, for_k, for_v = ts
    weights = _weights(x1, x2, scale, causal)
    scores: Any = None
    if for_q is not None:
        scores = _query_key_product(for_q * scale, x2)
    if for_k is not None:
        scores = _plus(scores, _query_key_product(x1 * scale, for_k))
    total: Any = None
    if scores is not None:
        total = _weighted_sum(_softmax_product(scores, weights), x3)
    if for_v is not None:
        total = _plus(total, _weighted_sum(weights, for_v))
    return total, None


@attention_gradient_p.vjp
def _attention_gradient_vjp(
    u: Any, x1: Any, x2: Any, x3: Any, x4: Any, *, scale: float, causal: bool
) -> Any:
    """Transpose the backward pass.

    With weights P = softmax(S) and their Jacobian J, the backward pass is A = t v', B = J A,
    dq = scale B k, dk = scale B' q and dv = P' t.
    """
    t, q, k, v = x1, x2, x3, x4
    for_q, for_k, for_v = u
    weights = _weights(q, k, scale, causal)
    inner = _query_key_product(t, v)
    scores = _softmax_product(inner, weights) * scale
    for_scores = _query_key_product(for_q * scale, k) + _query_key_product(q * scale, for_k)
    for_inner = _softmax_product(for_scores, weights)
    # The weights get a cotangent through dv and through the Jacobian, where they appear twice.
    twice = for_scores * (inner - _row_sum(inner * weights)) - inner * _row_sum(
        for_scores * weights
    )
    back = _softmax_product(_query_key_product(t, for_v) + twice, weights) * scale
    return (
        _weighted_sum(weights, for_v) + _weighted_sum(for_inner, v),
        _weighted_sum(scores, for_k) + _weighted_sum(back, k),
        _sum_over_queries(scores, for_q, k) + _sum_over_queries(back, q, k),
        _sum_over_queries(for_inner, t, v),
        None,
        None,
    )


def _batch(primitive: Primitive) -> Any:
    """Return a batching rule: the batch is one more leading axis of every operand."""

    def batch(size: int, batched: Any, *args: Any, **params: Any) -> Any:
        return primitive(*lift_unbatched(size, batched, *args), **params)

    return batch


for _primitive in (attention_p, attention_gradient_p):
    _primitive.batch(_batch(_primitive))
