"""Means of losses as metrics: distances, hinges, and divergences."""

from __future__ import annotations

from typing import Any

from tapegrad.keras import losses
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics import functions
from tapegrad.keras.metrics.reduction import Average, MeanMetricWrapper
from tapegrad.ops.powers import sqrt, squared_difference


class MeanSquaredError(MeanMetricWrapper):
    """The mean of squared differences.

    >>> float(MeanSquaredError()([[0.0, 1.0]], [[1.0, 1.0]]))
    0.5
    """

    def __init__(self, name: str | None = "mean_squared_error", dtype: Any = None) -> None:
        super().__init__(losses.mean_squared_error, name, dtype)


class MeanAbsoluteError(MeanMetricWrapper):
    """The mean of absolute differences.

    >>> float(MeanAbsoluteError()([[0.0, 1.0]], [[1.0, 1.0]]))
    0.5
    """

    def __init__(self, name: str | None = "mean_absolute_error", dtype: Any = None) -> None:
        super().__init__(losses.mean_absolute_error, name, dtype)


class MeanAbsolutePercentageError(MeanMetricWrapper):
    """The mean difference relative to the labels, in percent.

    >>> float(MeanAbsolutePercentageError()([[2.0, 4.0]], [[1.0, 4.0]]))
    25.0
    """

    def __init__(
        self, name: str | None = "mean_absolute_percentage_error", dtype: Any = None
    ) -> None:
        super().__init__(losses.mean_absolute_percentage_error, name, dtype)


class MeanSquaredLogarithmicError(MeanMetricWrapper):
    """The mean of squared differences of log(1 + y).

    >>> float(MeanSquaredLogarithmicError()([[3.0]], [[3.0]]))
    0.0
    """

    def __init__(
        self, name: str | None = "mean_squared_logarithmic_error", dtype: Any = None
    ) -> None:
        super().__init__(losses.mean_squared_logarithmic_error, name, dtype)


class LogCoshError(MeanMetricWrapper):
    """The mean of log(cosh(difference)).

    >>> float(LogCoshError()([[2.0]], [[2.0]]))
    0.0
    """

    def __init__(self, name: str | None = "logcosh", dtype: Any = None) -> None:
        super().__init__(losses.log_cosh, name, dtype)


class Hinge(MeanMetricWrapper):
    """The mean of max(1 - y_true * y_pred, 0).

    >>> float(Hinge()([[-1.0, 1.0]], [[0.5, 0.5]]))
    1.0
    """

    def __init__(self, name: str | None = "hinge", dtype: Any = None) -> None:
        super().__init__(losses.hinge, name, dtype)


class SquaredHinge(MeanMetricWrapper):
    """The mean of max(1 - y_true * y_pred, 0) ** 2.

    >>> float(SquaredHinge()([[-1.0, 1.0]], [[0.5, 0.5]]))
    1.25
    """

    def __init__(self, name: str | None = "squared_hinge", dtype: Any = None) -> None:
        super().__init__(losses.squared_hinge, name, dtype)


class CategoricalHinge(MeanMetricWrapper):
    """How much the score of the right class fails to be 1 above all others.

    >>> float(CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]]))
    1.0
    """

    def __init__(self, name: str | None = "categorical_hinge", dtype: Any = None) -> None:
        super().__init__(losses.categorical_hinge, name, dtype)


class KLDivergence(MeanMetricWrapper):
    """The sum of y_true * log(y_true / y_pred).

    >>> float(KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """

    def __init__(self, name: str | None = "kl_divergence", dtype: Any = None) -> None:
        super().__init__(losses.kl_divergence, name, dtype)


class Poisson(MeanMetricWrapper):
    """The mean of y_pred - y_true * log(y_pred).

    >>> float(Poisson()([[0.0, 0.0]], [[1.0, 3.0]]))
    2.0
    """

    def __init__(self, name: str | None = "poisson", dtype: Any = None) -> None:
        super().__init__(losses.poisson, name, dtype)


class CosineSimilarity(MeanMetricWrapper):
    """The cosine of the angle between labels and predictions.

    >>> float(CosineSimilarity()([[0.0, 1.0]], [[0.0, 2.0]]))
    1.0
    """

    def __init__(
        self, name: str | None = "cosine_similarity", dtype: Any = None, axis: int = -1
    ) -> None:
        super().__init__(functions.cosine_similarity, name, dtype, axis=axis)


class RootMeanSquaredError(Average):
    """The square root of the mean of squared differences.

    >>> float(RootMeanSquaredError()([[0.0, 0.0]], [[1.0, 7.0]]))
    5.0
    """

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true, predicted = as_dtype_of(y_true, self.dtype), as_dtype_of(y_pred, self.dtype)
        self.add_samples(squared_difference(*match_ranks(true, predicted)), sample_weight)

    def result(self) -> Any:
        return sqrt(self.average())
