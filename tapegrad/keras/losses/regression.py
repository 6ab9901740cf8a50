"""Regression, hinge, divergence, overlap and embedding losses: the classes."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.configured import arguments_in, computing
from tapegrad.keras.losses import regression_functions as functions
from tapegrad.keras.losses.loss import LossFunctionWrapper, PlainLoss


@computing(functions.mean_squared_error)
class MeanSquaredError(PlainLoss):
    """The mean of squared differences.

    >>> float(MeanSquaredError()([[0.0, 1.0]], [[1.0, 1.0]]))
    0.5
    """


@computing(functions.mean_absolute_error)
class MeanAbsoluteError(PlainLoss):
    """The mean of absolute differences.

    >>> float(MeanAbsoluteError()([[0.0, 1.0]], [[1.0, 1.0]]))
    0.5
    """


@computing(functions.mean_absolute_percentage_error)
class MeanAbsolutePercentageError(PlainLoss):
    """The mean difference relative to the labels, in percent.

    >>> float(MeanAbsolutePercentageError()([[2.0, 4.0]], [[1.0, 4.0]]))
    25.0
    """


@computing(functions.mean_squared_logarithmic_error)
class MeanSquaredLogarithmicError(PlainLoss):
    """The mean of squared differences of log(1 + y).

    >>> float(MeanSquaredLogarithmicError()([[3.0]], [[3.0]]))
    0.0
    """


@computing(functions.log_cosh)
class LogCosh(PlainLoss):
    """The mean of log(cosh(difference)): nearly quadratic near 0, linear far away.

    >>> float(LogCosh()([[2.0]], [[2.0]]))
    0.0
    """


@computing(functions.hinge)
class Hinge(PlainLoss):
    """The mean of max(1 - y_true * y_pred, 0) for labels -1 and 1, or 0 and 1.

    >>> float(Hinge()([[-1.0, 1.0]], [[0.5, 0.5]]))
    1.0
    """


@computing(functions.squared_hinge)
class SquaredHinge(PlainLoss):
    """The mean of max(1 - y_true * y_pred, 0) ** 2.

    >>> float(SquaredHinge()([[-1.0, 1.0]], [[0.5, 0.5]]))
    1.25
    """


@computing(functions.categorical_hinge)
class CategoricalHinge(PlainLoss):
    """The amount by which the score of the right class fails to exceed all others by 1.

    >>> float(CategoricalHinge()([[0.0, 1.0]], [[0.5, 0.5]]))
    1.0
    """


@computing(functions.kl_divergence)
class KLDivergence(PlainLoss):
    """The sum of y_true * log(y_true / y_pred).

    >>> float(KLDivergence()([[0.5, 0.5]], [[0.5, 0.5]]))
    0.0
    """


@computing(functions.poisson)
class Poisson(PlainLoss):
    """The mean of y_pred - y_true * log(y_pred).

    >>> float(Poisson()([[0.0, 0.0]], [[1.0, 3.0]]))
    2.0
    """


class Huber(LossFunctionWrapper):
    """The mean of a loss that is quadratic up to `delta` and linear beyond.

    >>> float(Huber()([[0.0, 0.0]], [[1.0, 3.0]]))
    1.5
    """

    def __init__(
        self,
        delta: float = 1.0,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "huber_loss",
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.huber, reduction, name, dtype, delta=delta)


class CosineSimilarity(LossFunctionWrapper):
    """Minus the cosine of the angle between labels and predictions.

    >>> float(CosineSimilarity()([[0.0, 1.0]], [[0.0, 2.0]]))
    -1.0
    """

    def __init__(
        self,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "cosine_similarity",
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.cosine_similarity, reduction, name, dtype, axis=axis)


class Dice(LossFunctionWrapper):
    """One minus the Dice coefficient of labels and predictions.

    >>> float(Dice()([[1.0, 1.0]], [[0.0, 0.0]]))
    1.0
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "dice",
        axis: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.dice, reduction, name, dtype, axis=axis)


class Tversky(LossFunctionWrapper):
    """One minus the Tversky index: `alpha` weights false negatives, `beta` false positives.

    >>> f"{float(Tversky(alpha=1.0)([[1.0, 1.0]], [[1.0, 0.0]])):.4f}"
    '0.5000'
    """

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "tversky",
        axis: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.tversky, **arguments_in(locals()))


class Circle(LossFunctionWrapper):
    """The circle loss; its mean is over the samples with a nonzero loss. See `circle`.

    >>> f"{float(Circle(1.0)([0, 0, 1], [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])):.4f}"
    '0.6484'
    """

    _casts_labels = False

    def __init__(
        self,
        gamma: float = 80.0,
        margin: float = 0.4,
        remove_diagonal: bool = True,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "circle",
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.circle, **arguments_in(locals()))
