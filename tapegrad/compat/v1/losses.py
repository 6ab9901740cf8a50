"""`tf.compat.v1.losses`: losses with weights, divided by the number of weights that are not 0."""

from __future__ import annotations

from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.comparison import not_equal
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.nn import losses
from tapegrad.ops.reduction.functions import reduce_mean, reduce_sum

__all__ = [
    "Reduction", "absolute_difference", "huber_loss", "log_loss", "mean_squared_error",
    "sigmoid_cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy",
]  # fmt: skip


class Reduction:
    """How losses are reduced to one number.

    >>> Reduction.SUM
    'weighted_sum'
    """

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS


_BY_WEIGHTS = Reduction.SUM_BY_NONZERO_WEIGHTS


def _reduced(values: Any, weights: Any, reduction: str) -> Any:
    spread = cast(as_operand(weights), values.dtype) * ones_like(values)
    weighted = values * spread
    if reduction == Reduction.NONE:
        return weighted
    total = reduce_sum(weighted)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return reduce_mean(weighted)
    if reduction == Reduction.MEAN:
        parts = reduce_sum(spread)
    elif reduction == _BY_WEIGHTS:
        parts = reduce_sum(cast(not_equal(spread, 0.0), values.dtype))
    else:
        raise ArgumentError(f"reduction must be one of those in Reduction. Got {reduction!r}.")
    return where(not_equal(parts, 0.0), total / where(not_equal(parts, 0.0), parts, 1.0), 0.0)


def _pair(labels: Any, predictions: Any) -> tuple[Any, Any]:
    values = as_operand(predictions)
    return cast(as_operand(labels), values.dtype), values


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the mean of squared differences.

    >>> float(mean_squared_error([1.0, 2.0], [2.0, 4.0], weights=[1.0, 0.0]))
    1.0
    """
    wanted, values = _pair(labels, predictions)
    return _reduced((values - wanted) ** 2, weights, reduction)


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the mean of absolute differences.

    >>> float(absolute_difference([1.0, 2.0], [2.0, 4.0]))
    1.5
    """
    wanted, values = _pair(labels, predictions)
    return _reduced(magnitude(values - wanted), weights, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the mean of Huber's loss, which is linear beyond `delta`.

    >>> float(huber_loss([0.0], [3.0]))
    2.5
    """
    wanted, values = _pair(labels, predictions)
    size = magnitude(values - wanted)
    inner = minimum(size, delta)
    return _reduced(0.5 * inner * inner + delta * maximum(size - delta, 0.0), weights, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the cross entropy of two classes, for probabilities.

    >>> f"{float(log_loss([1.0], [0.5])):.4f}"
    '0.6931'
    """
    wanted, values = _pair(labels, predictions)
    each = -wanted * log(values + epsilon) - (1.0 - wanted) * log(1.0 - values + epsilon)
    return _reduced(each, weights, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the cross entropy of two classes, for logits.

    >>> f"{float(sigmoid_cross_entropy([1.0], [0.0])):.4f}"
    '0.6931'
    """
    wanted, values = _pair(multi_class_labels, logits)
    wanted = wanted * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return _reduced(losses.sigmoid_cross_entropy_with_logits(wanted, values), weights, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the cross entropy of labels of one 1 each, for logits.

    >>> f"{float(softmax_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])):.4f}"
    '0.6931'
    """
    wanted, values = _pair(onehot_labels, logits)
    wanted = wanted * (1.0 - label_smoothing) + label_smoothing / values.shape[-1]
    return _reduced(losses.softmax_cross_entropy_with_logits(wanted, values), weights, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = None,
    reduction: str = _BY_WEIGHTS,
) -> Any:
    """Return the cross entropy of numbers of classes, for logits.

    >>> f"{float(sparse_softmax_cross_entropy([1], [[0.0, 0.0]])):.4f}"
    '0.6931'
    """
    each = losses.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return _reduced(each, weights, reduction)


_check_calls(globals(), [name for name in __all__ if name != "Reduction"])
