"""Cross entropies of probabilities and of logits as functions with one value per sample."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ShapeError
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import one_hot
from tapegrad.ops.elementwise.comparison import not_equal
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.powers import power
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.elementwise.sigmoids import sigmoid
from tapegrad.ops.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from tapegrad.ops.nn.softmax import log_softmax, softmax
from tapegrad.ops.reduction.primitives import mean, sum as sum_of
from tapegrad.ops.shape.functions import expand_dims, moveaxis, squeeze

EPSILON = 1e-7


def _predictions(y_pred: Any) -> Any:
    """Cast half precision to float32, because it cannot represent 1 - 1e-7."""
    predicted = as_operand(y_pred)
    is_half = as_dtype(predicted.dtype).name in ("float16", "bfloat16")
    return cast(predicted, "float32") if is_half else predicted


def _clipped(probabilities: Any) -> Any:
    return clip(probabilities, EPSILON, 1.0 - EPSILON)


def _binary_pair(y_true: Any, y_pred: Any, label_smoothing: float) -> tuple[Any, Any]:
    predicted = _predictions(y_pred)
    true, predicted = match_ranks(as_dtype_of(y_true, predicted.dtype), predicted)
    if label_smoothing:
        true = true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return true, predicted


def _binary_terms(true: Any, predicted: Any, from_logits: bool) -> Any:
    if from_logits:
        return sigmoid_cross_entropy_with_logits(labels=true, logits=predicted)
    predicted = _clipped(predicted)
    return -(true * log(predicted) + (1.0 - true) * log(1.0 - predicted))


def binary_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the mean cross entropy of independent binary labels.

    >>> loss = binary_crossentropy([[0, 1]], [[0.5, 0.5]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.6931'
    """
    true, predicted = _binary_pair(y_true, y_pred, label_smoothing)
    return mean(_binary_terms(true, predicted, from_logits), axis=axis)


def binary_focal_crossentropy(
    y_true: Any,
    y_pred: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the binary focal cross entropy.

    Each term is multiplied by (1 - probability of the label) ** gamma, and with
    `apply_class_balancing` also by `alpha` for label 1 and by 1 - `alpha` for label 0.

    >>> loss = binary_focal_crossentropy([[0, 1]], [[0.5, 0.5]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.1733'
    """
    true, predicted = _binary_pair(y_true, y_pred, label_smoothing)
    terms = _binary_terms(true, predicted, from_logits)
    chance = sigmoid(predicted) if from_logits else predicted
    right = true * chance + (1.0 - true) * (1.0 - chance)
    terms = power(1.0 - right, gamma) * terms
    if apply_class_balancing:
        terms = (true * alpha + (1.0 - true) * (1.0 - alpha)) * terms
    return mean(terms, axis=axis)


def _categorical_pair(
    y_true: Any, y_pred: Any, label_smoothing: float, axis: int
) -> tuple[Any, Any]:
    predicted = _predictions(y_pred)
    true = as_dtype_of(y_true, predicted.dtype)
    _check_classes(true, predicted, axis)
    if label_smoothing:
        true = true * (1.0 - label_smoothing) + label_smoothing / predicted.shape[axis]
    return true, predicted


def _check_classes(true: Any, predicted: Any, axis: int) -> None:
    """Raise an error if labels do not hold one value for each class."""
    needed = predicted.shape[axis]
    if len(true.shape) != len(predicted.shape) or true.shape[axis] != needed:
        raise ShapeError(
            f"Categorical cross entropy needs one label per class, which are {needed} here. Got "
            f"labels of shape {tuple(true.shape)} for predictions of shape "
            f"{tuple(predicted.shape)}. Use sparse_categorical_crossentropy for class indices."
        )


def _normalized(predicted: Any, axis: int) -> Any:
    """Scale probabilities to sum 1, and clip them away from 0 and 1."""
    return _clipped(predicted / sum_of(predicted, axis=axis, keepdims=True))


def categorical_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the cross entropy of class probabilities, such as one-hot labels.

    >>> loss = categorical_crossentropy([[0.0, 1.0]], [[0.5, 0.5]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.6931'
    """
    true, predicted = _categorical_pair(y_true, y_pred, label_smoothing, axis)
    if from_logits:
        return softmax_cross_entropy_with_logits(labels=true, logits=predicted, axis=axis)
    return -sum_of(true * log(_normalized(predicted, axis)), axis=axis)


def categorical_focal_crossentropy(
    y_true: Any,
    y_pred: Any,
    alpha: float = 0.25,
    gamma: float = 2.0,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Return the cross entropy times alpha * (1 - probability of the class) ** gamma.

    >>> loss = categorical_focal_crossentropy([[0.0, 1.0]], [[0.5, 0.5]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.0433'
    """
    true, predicted = _categorical_pair(y_true, y_pred, label_smoothing, axis)
    if from_logits:
        chance = _clipped(softmax(predicted, axis=axis))
        logarithm = log_softmax(predicted, axis=axis)
    else:
        chance = _normalized(predicted, axis)
        logarithm = log(chance)
    return -sum_of(alpha * power(1.0 - chance, gamma) * true * logarithm, axis=axis)


def class_numbers(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Return labels as integers, in the shape of the predictions without the class axis.

    >>> class_numbers([[1.0], [0.0]], [[0.1, 0.9], [0.5, 0.5]]).tolist()
    [1, 0]
    """
    true, predicted = as_operand(y_true), as_operand(y_pred)
    if true.ndim == predicted.ndim and true.shape[axis] == 1:
        true = squeeze(true, axis)
    # Narrow or unsigned integers may not hold the number of classes or an ignored class of -1.
    return true if true.dtype.name in ("int32", "int64") else cast(true, "int32")


def sparse_categorical_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    ignore_class: int | None = None,
    axis: int = -1,
) -> Any:
    """Return the cross entropy of class numbers; it is 0 where a label is `ignore_class`.

    >>> loss = sparse_categorical_crossentropy([1], [[0.5, 0.5]])
    >>> f"{loss.numpy()[0]:.4f}"
    '0.6931'
    """
    predicted = _predictions(y_pred)
    place = normalize_axis(axis, predicted.ndim, "sparse_categorical_crossentropy")
    labels = class_numbers(y_true, predicted, axis)
    if place != predicted.ndim - 1:
        predicted = moveaxis(predicted, place, -1)
    if ignore_class is None:
        return _sparse_terms(labels, predicted, from_logits)
    counted = not_equal(labels, ignore_class)
    # Replace before and after: a NaN in an ignored sample must not reach the loss or a gradient.
    predicted = where(expand_dims(counted, -1), predicted, 0.0)
    terms = _sparse_terms(where(counted, labels, 0), predicted, from_logits)
    return where(counted, terms, 0.0)


def _sparse_terms(labels: Any, predicted: Any, from_logits: bool) -> Any:
    # The softmax of log probabilities gives the probabilities again.
    logits = predicted if from_logits else log(_clipped(predicted))
    return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def categorical_generalized_cross_entropy(y_true: Any, y_pred: Any, q: float) -> Any:
    """Return (1 - p ** q) / q for the probability p of the label's class.

    It approaches the cross entropy for `q` near 0, and 1 - p for `q` near 1.

    >>> categorical_generalized_cross_entropy([1], [[0.75, 0.25]], q=0.5).tolist()
    [1.0]
    """
    predicted = _predictions(y_pred)
    labels = class_numbers(y_true, predicted)
    if labels.shape != predicted.shape[:-1]:
        raise ShapeError(
            "categorical_generalized_cross_entropy takes one class number per row of "
            "probabilities. "
            f"Got {labels.shape} and {predicted.shape}."
        )
    chosen = one_hot(labels, predicted.shape[-1], dtype=predicted.dtype)
    chance = sum_of(predicted * chosen, axis=-1)
    # The gradient at 0 is infinite, and a softmax would turn it into NaN: block it.
    is_zero = chance == 0.0
    return where(is_zero, 1.0, 1.0 - power(where(is_zero, 1.0, chance), q)) / q
