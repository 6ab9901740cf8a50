"""Metrics of all samples taken together: intersection over union, and explained variance."""

from __future__ import annotations

import warnings
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.operand import as_operand
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.metric import Metric, add_to
from tapegrad.keras.metrics.thresholds import EPSILON
from tapegrad.ops.cast import cast
from tapegrad.ops.comparison import equal, greater, greater_equal, less, logical_and, not_equal
from tapegrad.ops.composed import confusion_matrix
from tapegrad.ops.creation import ones_like
from tapegrad.ops.diagonal import diagonal
from tapegrad.ops.no_nan import divide_no_nan
from tapegrad.ops.powers import squared_difference
from tapegrad.ops.reduction import argmax, mean, sum as sum_of
from tapegrad.ops.selection import where
from tapegrad.ops.shape import broadcast_to, expand_dims, reshape


class IoU(Metric):
    """The intersection of labels and predictions over their union, averaged over some classes.

    Classes that neither labels nor predictions hold do not count. The state is of integers unless
    a dtype is given, so that it stays exact however many pixels there are.

    >>> f"{float(IoU(num_classes=2, target_class_ids=[0])([0, 0, 0, 1], [0, 1, 0, 1])):.4f}"
    '0.6667'
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Any,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        super().__init__(name=name, dtype=dtype or "int32")
        self.num_classes = num_classes
        self.target_class_ids = ids = np.ravel(target_class_ids).tolist()
        if not ids or {*ids} - {*range(num_classes)}:
            raise ArgumentError(
                f"{type(self).__name__} needs target_class_ids in range({num_classes}). Got {ids}."
            )
        self.ignore_class = ignore_class
        self.sparse_y_true = sparse_y_true
        self.sparse_y_pred = sparse_y_pred
        self.axis = axis
        # A list goes to wherever the counts are.
        self._asked = [float(ids.count(k)) for k in range(num_classes)]
        self.total_cm = self.add_variable((num_classes, num_classes), name="total_confusion_matrix")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true = self._classes(y_true, self.sparse_y_true)
        predicted = self._classes(y_pred, self.sparse_y_pred)
        counted = logical_and(self._is_class(true), self._is_class(predicted))
        if self.ignore_class is not None:
            counted = logical_and(counted, not_equal(true, self.ignore_class))
        # What does not count is counted 0 times, as class 0: a shape must not depend on values.
        weight = where(counted, self._weight(sample_weight, true), 0)
        true, predicted = where(counted, true, 0), where(counted, predicted, 0)
        matrix = confusion_matrix(true, predicted, self.num_classes, weight, self.dtype)
        add_to(self.total_cm, matrix)

    def _classes(self, y: Any, sparse: bool) -> Any:
        numbers = as_dtype_of(as_operand(y) if sparse else argmax(y, axis=self.axis), "int32")
        return reshape(numbers, (prod(numbers.shape),))

    def _is_class(self, numbers: Any) -> Any:
        return logical_and(greater_equal(numbers, 0), less(numbers, self.num_classes))

    def _weight(self, sample_weight: Any, true: Any) -> Any:
        if sample_weight is None:
            return ones_like(true, self.dtype)
        weight = as_operand(sample_weight)
        if weight.dtype.is_floating and "int" in self.dtype:
            warnings.warn(
                f"{type(self).__name__} counts in {self.dtype} and cuts weights of {weight.dtype} "
                "to integers. Make the metric with dtype='float32' to keep them.",
                stacklevel=3,
            )
        weight = as_dtype_of(weight, self.dtype)
        if len(weight.shape) > 1:
            weight = reshape(weight, (prod(weight.shape),))
        return broadcast_to(weight, true.shape)

    def result(self) -> Any:
        counts = cast(self.total_cm, "float32")
        both = diagonal(counts)
        either = sum_of(counts, axis=0) + sum_of(counts, axis=1) - both
        present = cast(greater(either, 1e-9), "float32") * self._asked
        return sum_of(both / (either + EPSILON) * self._asked) / (sum_of(present) + EPSILON)


class BinaryIoU(IoU):
    """The intersection over union of zeros and ones; predictions from `threshold` on are ones.

    >>> f"{float(BinaryIoU(threshold=0.3)([0, 1, 0, 1], [0.1, 0.2, 0.4, 0.7])):.4f}"
    '0.3333'
    """

    def __init__(
        self,
        target_class_ids: Any = (0, 1),
        threshold: float = 0.5,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        ones = greater_equal(as_dtype_of(y_pred, "float32"), self.threshold)
        super().update_state(y_true, ones, sample_weight)


class MeanIoU(IoU):
    """The intersection over union, averaged over all classes.

    >>> f"{float(MeanIoU(num_classes=2)([0, 0, 1, 1], [0, 1, 0, 1])):.4f}"
    '0.3333'
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        options = name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis
        super().__init__(num_classes, range(num_classes), *options)


class OneHotIoU(IoU):
    """The intersection over union of one-hot labels, averaged over some classes.

    >>> f"{float(OneHotIoU(2, [1])([[1, 0], [0, 1]], [[0.2, 0.8], [0.1, 0.9]])):.4f}"
    '0.5000'
    """

    def __init__(
        self,
        num_classes: int,
        target_class_ids: Any,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(
            num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis
        )


class OneHotMeanIoU(MeanIoU):
    """The intersection over union of one-hot labels, averaged over all classes.

    >>> f"{float(OneHotMeanIoU(2)([[1, 0], [0, 1]], [[0.2, 0.8], [0.1, 0.9]])):.4f}"
    '0.2500'
    """

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: Any = None,
        ignore_class: int | None = None,
        sparse_y_pred: bool = False,
        axis: int = -1,
    ) -> None:
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)


class R2Score(Metric):
    """The share of the labels' variance that the predictions explain: 1 is perfect.

    With `num_regressors` the score is adjusted for the number of inputs of the model, where
    there are samples enough to do so.

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
                "The class_aggregation of R2Score is None, 'uniform_average' or "
                f"'variance_weighted_average'. Got {class_aggregation!r}."
            )
        if num_regressors < 0:
            raise ArgumentError(f"R2Score needs num_regressors of 0 or more. Got {num_regressors}.")
        self.class_aggregation = class_aggregation
        self.num_regressors = num_regressors
        self.num_samples = self.add_variable(name="num_samples")
        self._sums: dict[str, Variable] = {}

    def _state(self, y_true: Any, y_pred: Any) -> dict[str, Variable]:
        """The sums over samples, made when the number of outputs is first known."""
        if len(y_pred.shape) != 2 or y_true.shape != y_pred.shape:
            raise ShapeError(
                "R2Score needs labels and predictions of the same shape (samples, outputs). "
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
        total, squares, residual, count = [value.value() for value in self._sums.values()]
        variance = squares - divide_no_nan(total * total, count)
        # An output that does not vary has no variance to explain.
        scores = where(equal(variance, 0.0), 0.0, 1.0 - divide_no_nan(residual, variance))
        score = scores
        if self.class_aggregation == "uniform_average":
            score = mean(scores)
        elif self.class_aggregation == "variance_weighted_average":
            score = divide_no_nan(sum_of(variance * scores), sum_of(variance))
        return self._adjusted(score) if self.num_regressors else score

    def _adjusted(self, score: Any) -> Any:
        samples = self.num_samples.value()
        freedom = samples - (self.num_regressors + 1.0)
        adjusted = 1.0 - divide_no_nan((1.0 - score) * (samples - 1.0), freedom)
        return where(greater(freedom, 0.0), adjusted, score)
