"""Cross entropies as metrics."""

from __future__ import annotations

from typing import Any

from tapegrad.keras import losses
from tapegrad.keras.configured import arguments_in
from tapegrad.keras.losses.crossentropy_functions import class_numbers
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.reduction import Average, MeanMetricWrapper
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import not_equal


class BinaryCrossentropy(MeanMetricWrapper):
    """The mean cross entropy of binary labels.

    >>> f"{float(BinaryCrossentropy()([[0, 1]], [[0.5, 0.5]])):.4f}"
    '0.6931'
    """

    def __init__(
        self,
        name: str | None = "binary_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0,
    ) -> None:
        super().__init__(losses.binary_crossentropy, **arguments_in(locals()))


class CategoricalCrossentropy(MeanMetricWrapper):
    """The mean cross entropy of class probabilities, such as one-hot labels.

    >>> f"{float(CategoricalCrossentropy()([[0, 1]], [[0.5, 0.5]])):.4f}"
    '0.6931'
    """

    def __init__(
        self,
        name: str | None = "categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        label_smoothing: float = 0,
        axis: int = -1,
    ) -> None:
        super().__init__(losses.categorical_crossentropy, **arguments_in(locals()))


class SparseCategoricalCrossentropy(Average):
    """The mean cross entropy of class numbers.

    Labels of `ignore_class` have loss 0. Without sample weights they still count as samples.

    >>> f"{float(SparseCategoricalCrossentropy()([1], [[0.5, 0.5]])):.4f}"
    '0.6931'
    """

    def __init__(
        self,
        name: str | None = "sparse_categorical_crossentropy",
        dtype: Any = None,
        from_logits: bool = False,
        ignore_class: int | None = None,
        axis: int = -1,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.from_logits = from_logits
        self.ignore_class = ignore_class
        self.axis = axis

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        values = losses.sparse_categorical_crossentropy(
            y_true, y_pred, self.from_logits, self.ignore_class, self.axis
        )
        if sample_weight is not None and self.ignore_class is not None:
            counted = not_equal(class_numbers(y_true, y_pred, self.axis), self.ignore_class)
            weight = as_dtype_of(sample_weight, self.dtype)
            counted, weight = match_ranks(cast(counted, self.dtype), weight)
            sample_weight = counted * weight
        self.add_samples(values, sample_weight)
