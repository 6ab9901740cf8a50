"""Regression, hinge, divergence, overlap and embedding losses as functions.

They return one value per sample and call `tapegrad.losses` after labels and predictions of shapes
(batch,) and (batch, 1) are brought to the same shape.
"""

from __future__ import annotations

from math import inf
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ShapeError
from tapegrad.keras.losses.crossentropy_functions import class_numbers
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.ops.elementwise.selection import maximum, where
from tapegrad.ops.elementwise.sigmoids import softplus
from tapegrad.ops.nn import regression_losses as plain
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.logsumexp import logsumexp
from tapegrad.ops.reduction.primitives import sum as sum_of
from tapegrad.ops.shape.diagonal import band_part

EPSILON = 1e-7


def _pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    y_pred = as_operand(y_pred)
    return match_ranks(as_dtype_of(y_true, y_pred.dtype), y_pred)


def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of squared differences along the last axis.

    >>> mean_squared_error([[0.0, 0.0]], [[1.0, 3.0]]).tolist()
    [5.0]
    """
    return plain.mean_squared_error(*_pair(y_true, y_pred))


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of absolute differences along the last axis.

    >>> mean_absolute_error([[0.0, 0.0]], [[1.0, -3.0]]).tolist()
    [2.0]
    """
    return plain.mean_absolute_error(*_pair(y_true, y_pred))


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """Return 100 times the mean of differences relative to the labels.

    >>> mean_absolute_percentage_error([[2.0, 4.0]], [[1.0, 4.0]]).tolist()
    [25.0]
    """
    return plain.mean_absolute_percentage_error(*_pair(y_true, y_pred))


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of squared differences of log(1 + y).

    >>> mean_squared_logarithmic_error([[3.0]], [[3.0]]).tolist()
    [0.0]
    """
    return plain.mean_squared_logarithmic_error(*_pair(y_true, y_pred))


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Return the mean of a loss that is quadratic up to `delta` and linear beyond.

    >>> huber([[0.0, 0.0]], [[1.0, 3.0]]).tolist()
    [1.5]
    """
    return plain.huber(*_pair(y_true, y_pred), delta=delta)


def log_cosh(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of log(cosh(difference)).

    >>> log_cosh([[2.0]], [[2.0]]).tolist()
    [0.0]
    """
    return plain.log_cosh(*_pair(y_true, y_pred))


def hinge(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of max(1 - y_true * y_pred, 0) for labels -1 and 1, or 0 and 1.

    >>> hinge([[-1.0, 1.0]], [[0.5, 0.5]]).tolist()
    [1.0]
    """
    return plain.hinge(*_pair(y_true, y_pred))


def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of max(1 - y_true * y_pred, 0) ** 2.

    >>> squared_hinge([[-1.0, 1.0]], [[0.5, 0.5]]).tolist()
    [1.25]
    """
    return plain.squared_hinge(*_pair(y_true, y_pred))


def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """Return the amount by which the score of the right class fails to exceed all others by 1.

    >>> categorical_hinge([[0.0, 1.0]], [[0.5, 0.5]]).tolist()
    [1.0]
    """
    return plain.categorical_hinge(*_pair(y_true, y_pred))


def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    """Return the sum of y_true * log(y_true / y_pred) along the last axis.

    >>> kl_divergence([[0.5, 0.5]], [[0.5, 0.5]]).tolist()
    [0.0]
    """
    return plain.kl_divergence(*_pair(y_true, y_pred))


def poisson(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of y_pred - y_true * log(y_pred).

    >>> poisson([[0.0, 0.0]], [[1.0, 3.0]]).tolist()
    [2.0]
    """
    return plain.poisson(*_pair(y_true, y_pred))


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Return minus the cosine of the angle between labels and predictions.

    >>> cosine_similarity([[0.0, 1.0]], [[0.0, 2.0]]).tolist()
    [-1.0]
    """
    return plain.cosine_similarity(*_pair(y_true, y_pred), axis=axis)


def dice(y_true: Any, y_pred: Any, axis: Any = None) -> Any:
    """Return 1 minus the Dice coefficient of labels and predictions.

    >>> float(dice([[1.0, 1.0]], [[0.0, 0.0]]))
    1.0
    """
    true, predicted = _pair(y_true, y_pred)
    both = sum_of(true * predicted, axis)
    return 1.0 - 2.0 * both / (sum_of(true, axis) + sum_of(predicted, axis) + EPSILON)


def tversky(
    y_true: Any, y_pred: Any, alpha: float = 0.5, beta: float = 0.5, axis: Any = None
) -> Any:
    """Return 1 minus the Tversky index: `alpha` weights false negatives, `beta` false positives.

    >>> f"{float(tversky([[1.0, 1.0]], [[1.0, 0.0]], alpha=1.0)):.4f}"
    '0.5000'
    """
    true, predicted = _pair(y_true, y_pred)
    both = sum_of(true * predicted, axis)
    missed = sum_of((1.0 - predicted) * true, axis)
    alarms = sum_of(predicted * (1.0 - true), axis)
    return 1.0 - both / (both + alpha * missed + beta * alarms + EPSILON)


def circle(
    y_true: Any,
    y_pred: Any,
    ref_labels: Any = None,
    ref_embeddings: Any = None,
    remove_diagonal: bool = True,
    gamma: float = 80.0,
    margin: float = 0.4,
) -> Any:
    """Return the circle loss of unit-norm embeddings: near in a class, far between classes.

    With `remove_diagonal`, no sample is compared with itself. The loss of a sample without any
    pair is 0.

    >>> circle([0, 0, 1], [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], gamma=1.0).numpy().round(4)
    array([0.5629, 0.7339, 0.    ], dtype=float32)
    """
    points = others = as_operand(y_pred)
    labels = names = class_numbers(y_true, points)
    if ref_embeddings is not None:
        others = as_dtype_of(ref_embeddings, points.dtype)
    if ref_labels is not None:
        names = as_dtype_of(class_numbers(ref_labels, others), labels.dtype)
    for x, y in ((labels, points), (names, others)):
        if len(y.shape) != 2 or x.shape != y.shape[:1]:
            raise ShapeError(
                "circle takes embeddings of shape (samples, features) and one label for each. "
                f"Got {y.shape} and {x.shape}."
            )
    is_same = labels[:, None] == names
    # Sun et al. (2020), with distances 1 - cosine. As in Keras, gradients flow through the weights.
    distance = maximum(1.0 - matmul(points, others, transpose_b=True), 0.0)
    push = gamma * maximum(1.0 + margin - distance, 0.0) * (1.0 - margin - distance)
    apart = logsumexp(where(is_same, -inf, push), axis=1)
    if remove_diagonal:
        is_same = is_same != band_part(is_same, 0, 0)
    pull = gamma * maximum(margin + distance, 0.0) * (distance - margin)
    return softplus(apart + logsumexp(where(is_same, pull, -inf), axis=1))


def _costs(y_true: Any, values: Any) -> Any:
    return values > 0.0


# Means are over the samples with a nonzero loss.
vars(circle)["mask_of"] = _costs
