"""Intersection over union (IoU) metrics."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.files.limits import spend_rounds
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.keras.losses.weighting import as_dtype_of
from tapegrad.keras.metrics.metric import Metric, add_to
from tapegrad.keras.metrics.thresholds import EPSILON
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.composed import confusion_matrix
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.comparison import greater, greater_equal, less, logical_and, not_equal
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction.primitives import argmax, sum as sum_of
from tapegrad.ops.shape.diagonal import diagonal
from tapegrad.ops.shape.functions import broadcast_to, reshape


class IoU(Metric):
    """The intersection over union of labels and predictions, averaged over some classes.

    Classes that occur in neither labels nor predictions are left out. Unless a dtype is given, the
    state has integers, so that it is exact for any number of pixels.

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
        spend_rounds(num_classes)  # a file may ask for any number
        # The matrix first: it refuses a number of classes that the loops below would not end for.
        self.total_cm = self.add_variable((num_classes, num_classes), name="total_confusion_matrix")
        self.num_classes = num_classes
        self.target_class_ids = ids = np.ravel(target_class_ids).tolist()
        is_known = [isinstance(k, int | float) and 0 <= k < num_classes and k % 1 == 0 for k in ids]
        if not ids or not all(is_known):
            raise ArgumentError(
                f"{type(self).__name__} takes target_class_ids in range({num_classes}). Got {ids}."
            )
        self.ignore_class = ignore_class
        self.sparse_y_true = sparse_y_true
        self.sparse_y_pred = sparse_y_pred
        self.axis = axis
        # A list instead of a tensor, which works on the device of the counts.
        times = Counter(ids)
        self._asked = [float(times[k]) for k in range(num_classes)]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true = self._classes(y_true, self.sparse_y_true)
        predicted = self._classes(y_pred, self.sparse_y_pred)
        counted = logical_and(self._is_class(true), self._is_class(predicted))
        if self.ignore_class is not None:
            counted = logical_and(counted, not_equal(true, self.ignore_class))
        # Ignored samples get weight 0 and class 0, as shapes must not depend on values.
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
            warn_outside(
                f"{type(self).__name__} counts in {self.dtype} and truncates weights of "
                f"{weight.dtype} to integers. Use dtype='float32' to keep them.",
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
    """The intersection over union of binary labels; predictions of `threshold` or more are 1.

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
