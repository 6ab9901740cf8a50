"""Metric functions of labels and predictions with one value per sample."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.keras import losses
from tapegrad.keras.configured import Table
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.thresholds import EPSILON
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import equal, greater
from tapegrad.ops.indexing.sorting import in_top_k
from tapegrad.ops.reduction.primitives import any as any_of, argmax, mean
from tapegrad.ops.reduction.statistics import std
from tapegrad.ops.shape.functions import expand_dims, reshape, squeeze


def _hits(x: Any, y: Any) -> Any:
    return cast(equal(x, y), "float32")


def accuracy(y_true: Any, y_pred: Any) -> Any:
    """Return 1 where labels and predictions are equal and 0 elsewhere.

    >>> accuracy([1, 2, 3], [1, 2, 4]).tolist()
    [1.0, 1.0, 0.0]
    """
    y_pred = as_operand(y_pred)
    return _hits(*match_ranks(as_dtype_of(y_true, y_pred.dtype), y_pred))


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """Return 1 where predictions are on the label's side of the threshold.

    >>> binary_accuracy([[1], [0]], [[0.9], [0.8]]).tolist()
    [[1.0], [0.0]]
    """
    true, predicted = match_ranks(y_true, y_pred)
    return _hits(true, cast(greater(predicted, threshold), true.dtype))


def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Return 1 where the largest prediction and the largest label have the same class.

    >>> categorical_accuracy([[0, 1], [1, 0]], [[0.1, 0.9], [0.2, 0.8]]).tolist()
    [1.0, 0.0]
    """
    return _hits(argmax(y_true, axis=-1), argmax(y_pred, axis=-1))


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Return 1 where the largest prediction belongs to the label's class.

    >>> sparse_categorical_accuracy([1, 0], [[0.1, 0.9], [0.2, 0.8]]).tolist()
    [1.0, 0.0]
    """
    true, predicted = as_operand(y_true), as_operand(y_pred)
    if len(true.shape) == len(predicted.shape) and true.shape[-1] == 1:
        true = squeeze(true, -1)
    hits = _hits(true, as_dtype_of(argmax(predicted, axis=-1), true.dtype))
    return squeeze(hits, -1) if len(hits.shape) > 1 and hits.shape[-1] == 1 else hits


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """Return 1 where the class of the largest label is among the `k` largest predictions.

    >>> top_k_categorical_accuracy([[0, 0, 1]], [[0.1, 0.5, 0.4]], k=2).tolist()
    [1.0]
    """
    return sparse_top_k_categorical_accuracy(argmax(y_true, axis=-1), y_pred, k)


def sparse_top_k_categorical_accuracy(
    y_true: Any, y_pred: Any, k: int = 5, from_sorted_ids: bool = False
) -> Any:
    """Return 1 where the label's class is among the `k` largest predictions.

    With `from_sorted_ids`, predictions are class numbers, sorted by decreasing probability.

    >>> sparse_top_k_categorical_accuracy([2], [[0.1, 0.5, 0.4]], k=2).tolist()
    [1.0]
    """
    true, predicted = as_operand(y_true), as_operand(y_pred)
    shape = tuple(true.shape)
    labels = reshape(true, (prod(shape),))
    rows = reshape(predicted, (prod(predicted.shape[:-1]), predicted.shape[-1]))
    if from_sorted_ids:
        labels = expand_dims(as_dtype_of(labels, rows.dtype), 1)
        hits = any_of(equal(labels, rows[:, :k]), axis=1)
    else:
        hits = in_top_k(as_dtype_of(labels, "int32"), rows, k)
    return reshape(cast(hits, "float32"), shape)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Return the cosine of the angle between labels and predictions, not negated as in losses.

    >>> cosine_similarity([[0.0, 1.0]], [[0.0, 2.0]]).tolist()
    [1.0]
    """
    return -losses.cosine_similarity(y_true, y_pred, axis=axis)


def _parts(y_true: Any, y_pred: Any, axis: Any) -> list[Any]:
    """Return the means of labels and predictions along `axis`, and the deviations from them."""
    predicted = as_operand(y_pred)
    if predicted.dtype.name not in ("float32", "float64"):
        predicted = cast(predicted, "float32")
    pair = match_ranks(as_dtype_of(y_true, predicted.dtype), predicted)
    means = [mean(x, axis=axis, keepdims=True) for x in pair]
    return [*means, pair[0] - means[0], pair[1] - means[1]]


def pearson_correlation(y_true: Any, y_pred: Any, axis: Any = -1) -> Any:
    """Return the Pearson correlation of labels and predictions; NaN where either is constant.

    >>> f"{pearson_correlation([[0.0, 1.0, 2.0]], [[3.0, 5.0, 7.0]]).numpy()[0]:.4f}"
    '1.0000'
    """
    _, _, *parts = _parts(y_true, y_pred, axis)
    true, predicted = (x / std(x, axis, keepdims=True) for x in parts)
    return mean(true * predicted, axis=axis)


def concordance_correlation(y_true: Any, y_pred: Any, axis: Any = -1) -> Any:
    """Return the concordance correlation, which is lower if predictions are shifted or scaled.

    >>> f"{concordance_correlation([[0.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]]).numpy()[0]:.4f}"
    '0.5714'
    """
    centre, guess, true, predicted = _parts(y_true, y_pred, axis)
    spread = mean(true**2 + predicted**2, axis=axis, keepdims=True) + (centre - guess) ** 2
    return mean(2.0 * true * predicted / (spread + EPSILON), axis=axis)


_OWN = (
    accuracy,
    binary_accuracy,
    categorical_accuracy,
    sparse_categorical_accuracy,
    top_k_categorical_accuracy,
    sparse_top_k_categorical_accuracy,
    cosine_similarity,
    pearson_correlation,
    concordance_correlation,
)
FUNCTIONS = Table("function of a metric", {**losses.FUNCTIONS, **{f.__name__: f for f in _OWN}})
