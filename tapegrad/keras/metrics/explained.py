"""R2Score: the coefficient of determination."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.metric import Metric, add_to
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.comparison import equal, greater
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.powers import squared_difference
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction.primitives import mean, sum as sum_of
from tapegrad.ops.shape.functions import broadcast_to, expand_dims


class R2Score(Metric):
    """The coefficient of determination; 1 means perfect predictions.

    With `num_regressors` the score is adjusted for the number of inputs of the model, if there
    are enough samples.

    >>> round(float(R2Score()([[1.0], [4.0], [3.0]], [[2.0], [4.0], [4.0]])), 4)
    0.5714
    """

    def __init__(
        self,
        class_aggregation: str | None = "uniform_average",
        num_regressors: int = 0,
        name: str | None = "r2_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        if class_aggregation not in (None, "uniform_average", "variance_weighted_average"):
            raise ArgumentError(
                "The class_aggregation of R2Score must be None, 'uniform_average' or "
                f"'variance_weighted_average'. Got {class_aggregation!r}."
            )
        if num_regressors < 0:
            raise ArgumentError(f"R2Score takes num_regressors of 0 or more. Got {num_regressors}.")
        self.class_aggregation = class_aggregation
        self.num_regressors = num_regressors
        self.num_samples = self.add_variable(name="num_samples")
        self._sums: dict[str, Variable] = {}

    def _state(self, y_true: Any, y_pred: Any) -> dict[str, Variable]:
        """Return the sums over samples, which are created when the number of outputs is known."""
        if len(y_pred.shape) != 2 or y_true.shape != y_pred.shape:
            raise ShapeError(
                "R2Score takes labels and predictions of the same shape (samples, outputs). "
                f"Got {y_true.shape} and {y_pred.shape}."
            )
        if not self._sums:
            for name in ("sum", "squared_sum", "residual", "count"):
                self._sums[name] = self.add_variable((y_pred.shape[-1],), name=name)
        return self._sums

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true, predicted = match_ranks(
            as_dtype_of(y_true, self.dtype), as_dtype_of(y_pred, self.dtype)
        )
        state = self._state(true, predicted)
        weight = ones_like(true) if sample_weight is None else self._spread(sample_weight, true)
        weighted = true * weight
        residual = squared_difference(true, predicted) * weight
        for total, term in zip(
            state.values(), (weighted, true * weighted, residual, weight), strict=True
        ):
            add_to(total, sum_of(term, axis=0))
        add_to(self.num_samples, float(prod(true.shape)))

    def _spread(self, sample_weight: Any, true: Any) -> Any:
        weight = as_dtype_of(sample_weight, self.dtype)
        if len(weight.shape) == 1:
            weight = expand_dims(weight, -1)
        return broadcast_to(weight, true.shape)

    def result(self) -> Any:
        if not self._sums:
            raise ArgumentError("R2Score has no result before its first update_state.")
        total, squares, residual, count = [value.read_value() for value in self._sums.values()]
        variance = squares - divide_no_nan(total * total, count)
        # A constant output has no variance to explain.
        scores = where(equal(variance, 0.0), 0.0, 1.0 - divide_no_nan(residual, variance))
        score = scores
        if self.class_aggregation == "uniform_average":
            score = mean(scores)
        elif self.class_aggregation == "variance_weighted_average":
            score = divide_no_nan(sum_of(variance * scores), sum_of(variance))
        return self._adjusted(score) if self.num_regressors else score

    def _adjusted(self, score: Any) -> Any:
        samples = self.num_samples.read_value()
        freedom = samples - (self.num_regressors + 1.0)
        adjusted = 1.0 - divide_no_nan((1.0 - score) * (samples - 1.0), freedom)
        return where(greater(freedom, 0.0), adjusted, score)
