"""Regression, hinge, divergence and correlation metrics."""

from __future__ import annotations

from typing import Any

from tapegrad.keras import losses
from tapegrad.keras.configured import computing, with_defaults
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics import functions
from tapegrad.keras.metrics.reduction import Average, MeanMetricWrapper, PlainMean
from tapegrad.ops.elementwise.powers import sqrt, squared_difference


@computing(losses.mean_squared_error)
class MeanSquaredError(PlainMean):
    """The mean of squared differences.

    >>> float(MeanSquaredError()([[0.0, 1.0]], [[1.0, 1.0]]))
    0.5
    """


@computing(losses.mean_absolute_error)
class MeanAbsoluteError(PlainMean):
    """The mean of absolute differences.

    >>> float(MeanAbsoluteError()([[0.0, 1.0]], [[1.0, 1.0]]))
    0.5
    """


@computing(losses.mean_absolute_percentage_error)
class MeanAbsolutePercentageError(PlainMean):
    """The mean difference relative to the labels, in percent.

    >>> float(MeanAbsolutePercentageError()([[2.0, 4.0]], [[1.0, 4.0]]))
    25.0
    """


@computing(losses.mean_squared_logarithmic_error)
class MeanSquaredLogarithmicError(PlainMean):
    """The mean of squared differences of log(1 + y).

    >>> float(MeanSquaredLogarithmicError()([[3.0]], [[3.0]]))
    0.0
    """


@computing(losses.log_cosh, "logcosh")
class LogCoshError(PlainMean):
    """The mean of log(cosh(difference)).

    >>> float(LogCoshError()([[2.0]], [[2.0]]))
    0.0
    """


@computing(losses.hinge)
class Hinge(PlainMean):
    """The mean of max(1 - y_true * y_pred, 0).

    >>> float(Hinge()([[-1.0, 1.0]], [[0.5, 0.5]]))
    1.0
    """


@computing(losses.squared_hinge)
class SquaredHinge(PlainMean):
    """The mean of max(1 - y_true * y_pred, 0) ** 2.

    >>> float(SquaredHinge()([[-1.0, 1.0]], [[0.5, 0.5]]))
    1.25
    """


@computing(losses.categorical_hinge)
class CategoricalHinge(PlainMean):
    """The amount by which the score of the right class fails to exceed all others by 1.

    >>> float(CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]]))
    1.0
    """


@computing(losses.kl_divergence)
class KLDivergence(PlainMean):
    """The sum of y_true * log(y_true / y_pred).

    >>> float(KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """


@computing(losses.poisson)
class Poisson(PlainMean):
    """The mean of y_pred - y_true * log(y_pred).

    >>> float(Poisson()([[0.0, 0.0]], [[1.0, 3.0]]))
    2.0
    """


class AlongAxis(MeanMetricWrapper):
    """Base class of means of a function along an axis."""

    def __init__(self, name: str | None = None, dtype: Any = None, axis: Any = -1) -> None:
        super().__init__(self._function, name, dtype, axis=axis)


@computing(functions.cosine_similarity)
class CosineSimilarity(AlongAxis):
    """The cosine of the angle between labels and predictions.

    >>> float(CosineSimilarity()([[0.0, 1.0]], [[0.0, 2.0]]))
    1.0
    """


@computing(functions.pearson_correlation)
class PearsonCorrelation(AlongAxis):
    """The Pearson correlation of labels and predictions.

    >>> f"{float(PearsonCorrelation()([[0.0, 1.0, 2.0]], [[7.0, 5.0, 3.0]])):.4f}"
    '-1.0000'
    """


@computing(functions.concordance_correlation)
class ConcordanceCorrelation(AlongAxis):
    """The concordance correlation of labels and predictions.

    >>> f"{float(ConcordanceCorrelation()([[0.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]])):.4f}"
    '0.5714'
    """


@with_defaults(name="root_mean_squared_error")
class RootMeanSquaredError(Average):
    """The square root of the mean of squared differences.

    >>> float(RootMeanSquaredError()([[0.0, 0.0]], [[1.0, 7.0]]))
    5.0
    """

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true, predicted = as_dtype_of(y_true, self.dtype), as_dtype_of(y_pred, self.dtype)
        self.add_samples(squared_difference(*match_ranks(true, predicted)), sample_weight)

    def result(self) -> Any:
        return sqrt(self.average())
