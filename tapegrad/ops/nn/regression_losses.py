"""Losses between predictions and targets under Keras's names; most are means over the last axis."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.ops.elementwise.comparison import equal, logical_or
from tapegrad.ops.elementwise.exponential import log, log1p
from tapegrad.ops.elementwise.magnitude import abs as absolute
from tapegrad.ops.elementwise.powers import rsqrt, square, squared_difference
from tapegrad.ops.elementwise.selection import clip, maximum, where
from tapegrad.ops.elementwise.sigmoids import softplus
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.nn.losses import like, real_pair
from tapegrad.ops.reduction.primitives import all as all_of, max as maximum_of, mean
from tapegrad.ops.shape.primitives import sum_p

_EPSILON = 1e-7


def _pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Return targets in the dtype of the predictions; complex targets stay complex."""
    true, predicted = as_operand(y_true), as_operand(y_pred)
    return true if is_complex(true) else like(true, predicted), predicted


def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of squared differences along the last axis.

    >>> float(mean_squared_error([0.0, 0.0], [1.0, 3.0]))
    5.0
    """
    return mean(squared_difference(*_pair(y_true, y_pred)), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of absolute differences along the last axis.

    >>> float(mean_absolute_error([0.0, 0.0], [1.0, -3.0]))
    2.0
    """
    true, predicted = _pair(y_true, y_pred)
    return mean(absolute(predicted - true), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """Return 100 times the mean of |y_true - y_pred| / |y_true| along the last axis.

    >>> float(mean_absolute_percentage_error([2.0, 4.0], [1.0, 4.0]))
    25.0
    """
    true, predicted = _pair(y_true, y_pred)
    return 100.0 * mean(absolute((true - predicted) / maximum(absolute(true), _EPSILON)), axis=-1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of squared differences of log(1 + y).

    >>> float(mean_squared_logarithmic_error([0.0], [0.0]))
    0.0
    """
    true, predicted = real_pair("mean_squared_logarithmic_error", y_true, y_pred)
    first = log1p(maximum(predicted, _EPSILON))
    second = log1p(maximum(true, _EPSILON))
    return mean(square(first - second), axis=-1)


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Return the mean of a loss that is quadratic up to `delta` and linear beyond.

    >>> float(huber([0.0, 0.0], [1.0, 3.0]))
    1.5
    """
    true, predicted = real_pair("huber", y_true, y_pred)
    error = predicted - true
    inner = clip(error, -delta, delta)
    # inner * (error - inner / 2) is e * e / 2 inside and delta * (|e| - delta / 2) outside.
    return mean(inner * (error - 0.5 * inner), axis=-1)


def log_cosh(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of log(cosh(difference)), computed without overflow.

    >>> float(log_cosh([0.0], [0.0]))
    0.0
    """
    true, predicted = real_pair("log_cosh", y_true, y_pred)
    error = predicted - true
    return mean(error + softplus(-2.0 * error) - math.log(2.0), axis=-1)


def _signs(true: Any) -> Any:
    """Convert labels 0 and 1 to -1 and 1; return labels unchanged if they have other values."""
    binary = all_of(logical_or(equal(true, 0), equal(true, 1)))
    return where(binary, 2 * true - 1, true)


def hinge(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of max(1 - y_true * y_pred, 0) for targets -1 and 1, or 0 and 1.

    >>> float(hinge([-1.0, 1.0], [0.5, 0.5]))
    1.0
    """
    true, predicted = real_pair("hinge", y_true, y_pred)
    return mean(maximum(1.0 - _signs(true) * predicted, 0.0), axis=-1)


def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of max(1 - y_true * y_pred, 0) ** 2.

    >>> float(squared_hinge([-1.0, 1.0], [0.5, 0.5]))
    1.25
    """
    true, predicted = real_pair("squared_hinge", y_true, y_pred)
    return mean(square(maximum(1.0 - _signs(true) * predicted, 0.0)), axis=-1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """Return max(0, 1 + highest score of a wrong class - score of the right class).

    >>> float(categorical_hinge([0.0, 1.0], [0.5, 0.5]))
    1.0
    """
    true, predicted = real_pair("categorical_hinge", y_true, y_pred)
    right = sum_p(true * predicted, axis=(len(predicted.shape) - 1,), keepdims=False)
    wrong = maximum_of((1.0 - true) * predicted, axis=-1)
    return maximum(wrong - right + 1.0, 0.0)


def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    """Return the sum of y_true * log(y_true / y_pred), both clipped to [1e-7, 1].

    >>> float(kl_divergence([0.5, 0.5], [0.5, 0.5]))
    0.0
    """
    true, predicted = real_pair("kl_divergence", y_true, y_pred)
    true, predicted = clip(true, _EPSILON, 1.0), clip(predicted, _EPSILON, 1.0)
    terms = true * log(true / predicted)
    return sum_p(terms, axis=(len(terms.shape) - 1,), keepdims=False)


def poisson(y_true: Any, y_pred: Any) -> Any:
    """Return the mean of y_pred - y_true * log(y_pred).

    >>> f"{float(poisson([1.0], [1.0])):.4f}"
    '1.0000'
    """
    true, predicted = real_pair("poisson", y_true, y_pred)
    return mean(predicted - true * log(predicted + _EPSILON), axis=-1)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Return the negative cosine of the angle between targets and predictions.

    The sign is Keras's: the loss has its minimum, -1, where both have the same direction.

    >>> f"{float(cosine_similarity([1.0, 1.0], [2.0, 2.0])):.4f}"
    '-1.0000'
    """
    true, predicted = real_pair("cosine_similarity", y_true, y_pred)
    at = normalize_axis(axis, len(predicted.shape), "cosine_similarity")
    return -sum_p(_unit(true, at) * _unit(predicted, at), axis=(at,), keepdims=False)


def _unit(x: Any, axis: int) -> Any:
    squares = sum_p(x * x, axis=(axis,), keepdims=True)
    return x * rsqrt(maximum(squares, 1e-12))
