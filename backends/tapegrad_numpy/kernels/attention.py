"""Attention and its gradient; the weights, the only large array, are computed in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.half import refuse_complex, widened

Array = NDArray[Any]

# Called with positional arguments (x, axis, dtype, out, keepdims): half the cost of the methods.
_add: Callable[..., Any] = np.add.reduce
_maximum: Callable[..., Any] = np.maximum.reduce


def _fold(x: Array, keys: Array) -> Array:
    """Stack heads that share keys along the rows, so that matrix products stay large."""
    if x.ndim == 2 or x.shape[-3] == keys.shape[-3]:
        return x
    return x.reshape(*keys.shape[:-2], -1, x.shape[-1])


def _weigh(scores: Array, causal: bool) -> None:
    """Replace scores by their softmax; fully masked queries get zeros."""
    if causal:
        n, m = scores.shape[-2:]
        np.copyto(scores, -math.inf, where=np.arange(m) > np.arange(m - n, m)[:, None])
    if not scores.size:
        return
    top = _maximum(scores, -1, None, None, True)
    if causal:
        top[top == -math.inf] = 0
    scores -= top
    np.exp(scores, out=scores)
    total = _add(scores, -1, None, None, True)
    if causal:
        total[total == 0] = 1
    scores /= total


def attention(q: Array, k: Array, v: Array, *, scale: float, causal: bool) -> tuple[Array, Array]:
    """Return the weighted values, and the weights for the backward pass."""
    refuse_complex(q)
    queries, keys = widened(q), widened(k)
    scores = np.matmul(_fold(queries * scale, k), keys.swapaxes(-1, -2))
    weights = scores.reshape(*q.shape[:-1], k.shape[-2])
    _weigh(weights, causal)
    y = np.matmul(_fold(weights, k), widened(v)).astype(q.dtype, copy=False)
    return y.reshape(*q.shape[:-1], v.shape[-1]), weights


def attention_gradient(
    t: Array, q: Array, k: Array, v: Array, y: Array, weights: Array, *, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    """Return the cotangents of queries, keys and values from that of the result, `t`."""
    cotangents, shares = _fold(widened(t), k), _fold(weights, k)
    scores = np.matmul(cotangents, widened(v).swapaxes(-1, -2))
    # sum(weights * scores) over the keys is sum(t * y) over the features.
    scores -= np.vecdot(cotangents, _fold(widened(y), k))[..., None]
    scores *= shares
    for_q = np.matmul(scores, widened(k))
    for_q *= scale
    for_k = np.matmul(scores.swapaxes(-1, -2), _fold(widened(q) * scale, k))
    for_v = np.matmul(shares.swapaxes(-1, -2), cotangents)
    dtype = q.dtype
    return (
        for_q.astype(dtype, copy=False).reshape(q.shape),
        for_k.astype(dtype, copy=False),
        for_v.astype(dtype, copy=False),
    )


KERNELS = by_name(attention, attention_gradient)
