"""Softmax, cross entropy and their derivatives, with few passes and one temporary each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapegrad_numpy.convolution import accumulator

Array = NDArray[Any]


def _wide(x: Array) -> Array:
    return x.astype(accumulator(x.dtype), copy=False)


def _shift(x: Array, axis: int) -> tuple[Array, Array]:
    """Return x less its row maximum in a buffer of its own, and the maximum (0 for -inf)."""
    if not x.size:
        return x.copy(), np.asarray(x.sum(axis=axis, keepdims=True))
    top = x.max(axis=axis, keepdims=True)
    if np.isneginf(top).any():
        top[top == -math.inf] = 0
    return np.subtract(x, top, order="C"), top


def _total(weights: Array, axis: int) -> Array:
    """Return the row sums, 1 where a whole row is masked."""
    total: Array = weights.sum(axis=axis, keepdims=True)
    total[total == 0] = 1
    return total


def _row_products(a: Array, b: Array, axis: int) -> Array:
    """Return sum(a * b) along the axis, which is kept."""
    if axis == a.ndim - 1:
        return np.asarray(np.vecdot(a, b))[..., None]
    return np.asarray((a * b).sum(axis=axis, keepdims=True))


def softmax(x: Array, *, axis: int) -> Array:
    """Return exp(x) over its sum along the axis."""
    weights, _ = _shift(_wide(x), axis)
    np.exp(weights, out=weights)
    weights /= _total(weights, axis)
    return weights.astype(x.dtype, copy=False)


def log_softmax(x: Array, *, axis: int) -> Array:
    """Return x less its log-sum-exp along the axis."""
    shifted, _ = _shift(_wide(x), axis)
    shifted -= np.log(_total(np.exp(shifted), axis))
    return shifted.astype(x.dtype, copy=False)


def softmax_gradient(t: Array, y: Array, *, axis: int) -> Array:
    """Return y * (t - sum(t * y))."""
    g = np.subtract(t, _row_products(t, y, axis))
    g *= y
    return g


def log_softmax_gradient(t: Array, y: Array, *, axis: int) -> Array:
    """Return t - exp(y) * sum(t)."""
    g = np.exp(y)
    g *= t.sum(axis=axis, keepdims=True)
    return np.subtract(t, g, out=g)


def sparse_cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return the loss of each row and, for the backward pass, the softmax."""
    _check_labels(labels, logits.shape[-1])
    weights, _ = _shift(_wide(logits), logits.ndim - 1)
    picked = weights.reshape(-1)[_places(labels, logits.shape[-1])].reshape(labels.shape)
    np.exp(weights, out=weights)
    total = _total(weights, logits.ndim - 1)
    weights /= total
    loss: Array = np.log(total)[..., 0] - picked
    return loss.astype(logits.dtype, copy=False), weights.astype(logits.dtype, copy=False)


def _check_labels(labels: Array, classes: int) -> None:
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        wrong = (labels < 0) | (labels >= classes)
        raise ValueError(
            f"labels must be from 0 to {classes - 1}, as the logits have {classes} classes. "
            f"Got the label {int(labels[wrong].flat[0])}."
        )


def sparse_cross_entropy_gradient(t: Array, weights: Array, labels: Array) -> Array:
    """Return t * (weights - one_hot(labels)) in one buffer."""
    g: Array = np.multiply(weights, t[..., None], order="C")
    g.reshape(-1)[_places(labels, weights.shape[-1])] -= t.reshape(-1)
    return g


def _places(labels: Array, classes: int) -> Array:
    """Return the flat position of each row's label."""
    places = np.arange(0, labels.size * classes, classes)
    places += labels.reshape(-1).astype(np.intp, copy=False)
    return places


def _weights(logits: Array, log_total: Array) -> Array:
    weights = np.subtract(logits, log_total[..., None])
    return np.exp(weights, out=weights)


def cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return -sum(labels * log_softmax(logits)) for each row, and the log-sum-exp."""
    cost, top = _shift(_wide(logits), logits.ndim - 1)
    log_total = np.log(_total(np.exp(cost), logits.ndim - 1))
    np.subtract(log_total, cost, out=cost)
    if np.isposinf(cost).any():
        cost[labels == 0] = 0  # an impossible class that is not asked for costs nothing
    loss = np.vecdot(labels, cost)
    log_total += top
    return loss.astype(logits.dtype, copy=False), log_total[..., 0]


def cross_entropy_gradient(t: Array, logits: Array, labels: Array, log_total: Array) -> Array:
    """Return t * (softmax(logits) * sum(labels) - labels)."""
    g = _weights(logits, log_total)
    g *= labels.sum(axis=-1, keepdims=True)
    g -= labels
    g *= t[..., None]
    return g.astype(logits.dtype, copy=False)


KERNELS: dict[str, Callable[..., Any]] = {
    "softmax": softmax,
    "softmax_gradient": softmax_gradient,
    "log_softmax": log_softmax,
    "log_softmax_gradient": log_softmax_gradient,
    "sparse_cross_entropy": sparse_cross_entropy,
    "sparse_cross_entropy_gradient": sparse_cross_entropy_gradient,
    "cross_entropy": cross_entropy,
    "cross_entropy_gradient": cross_entropy_gradient,
}
