"""Softmax, cross entropy and their derivatives, with few passes and one temporary each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.extremes import extreme
from tapegrad_numpy.kernels.half import refuse_complex, widened

Array = NDArray[Any]

# Called with positional arguments (x, axis, dtype, out, keepdims): half the cost of the methods,
# which matters for small batches.
_add: Callable[..., Any] = np.add.reduce
_maximum: Callable[..., Any] = np.maximum.reduce
_lowest: Callable[..., Any] = np.fmin.reduce


def _shift(x: Array, axis: int) -> tuple[Array, Array, bool]:
    """Return x - max(x), the maximum (0 for -inf), and whether a row is all -inf."""
    if not x.size:
        return x.copy(), np.asarray(x.sum(axis=axis, keepdims=True)), True
    top = extreme(np.maximum, x, (axis,), True)
    masked: bool = _lowest(top, None) == -math.inf
    if masked:
        top[top == -math.inf] = 0
    return np.subtract(x, top, order="C"), top, masked


def _total(weights: Array, axis: int, masked: bool) -> Array:
    """Return the row sums, 1 for fully masked rows."""
    total: Array = _add(weights, axis, None, None, True)
    if masked:
        total[total == 0] = 1
    return total


def _row_products(a: Array, b: Array, axis: int) -> Array:
    """Return sum(a * b) along the axis, which is kept."""
    if axis == a.ndim - 1:
        return np.asarray(np.vecdot(a, b))[..., None]
    return np.asarray(_add(a * b, axis, None, None, True))


def softmax(x: Array, *, axis: int) -> Array:
    """Return exp(x) over its sum along the axis."""
    weights, _, masked = _shift(widened(x), axis)
    np.exp(weights, out=weights)
    weights /= _total(weights, axis, masked)
    return weights.astype(x.dtype, copy=False)


def log_softmax(x: Array, *, axis: int) -> Array:
    """Return x - logsumexp(x) along the axis."""
    shifted, _, masked = _shift(widened(x), axis)
    shifted -= np.log(_total(np.exp(shifted), axis, masked))
    return shifted.astype(x.dtype, copy=False)


def softmax_gradient(t: Array, y: Array, *, axis: int) -> Array:
    """Return y * (t - sum(t * y))."""
    g = np.subtract(t, _row_products(t, y, axis))
    g *= y
    return g if y.itemsize > 2 else g.astype(y.dtype, copy=False)


def log_softmax_gradient(t: Array, y: Array, *, axis: int) -> Array:
    """Return t - exp(y) * sum(t)."""
    t = widened(t)
    g = np.exp(widened(y))
    g *= _add(t, axis, None, None, True)
    return np.subtract(t, g, out=g).astype(y.dtype, copy=False)


def sparse_cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return the loss of each row and, for the backward pass, the softmax."""
    refuse_complex(logits)
    check_labels(labels, logits.shape[-1])
    weights, _, masked = _shift(widened(logits), logits.ndim - 1)
    picked = weights.reshape(-1)[places_of_labels(labels, logits.shape[-1])].reshape(labels.shape)
    np.exp(weights, out=weights)
    total = _total(weights, logits.ndim - 1, masked)
    weights /= total
    loss: Array = np.log(total)[..., 0] - picked
    return loss.astype(logits.dtype, copy=False), weights.astype(logits.dtype, copy=False)


def check_labels(labels: Array, classes: int) -> None:
    """Raise if a label is no class."""
    # As unsigned integers, negative numbers are the largest, so one test finds both errors.
    if labels.size and _maximum(labels.view(f"u{labels.itemsize}"), None) >= classes:
        wrong = (labels < 0) | (labels >= classes)
        raise ValueError(
            f"labels must be from 0 to {classes - 1}, as the logits have {classes} classes. "
            f"Got the label {int(labels[wrong].flat[0])}."
        )


def sparse_cross_entropy_gradient(t: Array, weights: Array, labels: Array) -> Array:
    """Return t * (weights - one_hot(labels)) in one buffer."""
    g: Array = np.multiply(weights, t[..., None], order="C")
    g.reshape(-1)[places_of_labels(labels, weights.shape[-1])] -= t.reshape(-1)
    return g


def places_of_labels(labels: Array, classes: int) -> Array:
    """Return the flat position of each row's label."""
    places = np.arange(0, labels.size * classes, classes)
    places += labels.reshape(-1).astype(np.intp, copy=False)
    return places


def _weights(logits: Array, log_total: Array) -> Array:
    weights = np.subtract(logits, log_total[..., None])
    return np.exp(weights, out=weights)


def cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return -sum(labels * log_softmax(logits)) for each row, and the log-sum-exp."""
    refuse_complex(logits)
    cost, top, masked = _shift(widened(logits), logits.ndim - 1)
    log_total = np.log(_total(np.exp(cost), logits.ndim - 1, masked))
    np.subtract(log_total, cost, out=cost)
    if cost.size and not _maximum(cost, None) < math.inf:
        # A label of 0 times an infinite cost must be 0, although 0 * inf is NaN.
        cost[(labels == 0) & (cost == math.inf)] = 0
    loss = np.vecdot(labels, cost)
    log_total += top
    return loss.astype(logits.dtype, copy=False), log_total[..., 0]


def cross_entropy_gradient(t: Array, logits: Array, labels: Array, log_total: Array) -> Array:
    """Return t * (softmax(logits) * sum(labels) - labels)."""
    g = _weights(logits, log_total)
    # The sum of the weights is close to 1; dividing by it removes the rounding error of log_total.
    total = _add(g, -1, None, None, True)
    total[total == 0] = 1
    g *= _add(widened(labels), -1, None, None, True) / total
    g -= labels
    g *= t[..., None]
    return g.astype(logits.dtype, copy=False)


KERNELS = by_name(
    softmax,
    softmax_gradient,
    log_softmax,
    log_softmax_gradient,
    sparse_cross_entropy,
    sparse_cross_entropy_gradient,
    cross_entropy,
    cross_entropy_gradient,
)
