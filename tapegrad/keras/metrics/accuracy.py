"""Accuracy metrics: the classes."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.keras.configured import computing
from tapegrad.keras.metrics import functions
from tapegrad.keras.metrics.reduction import MeanMetricWrapper, PlainMean


@computing(functions.accuracy)
class Accuracy(PlainMean):
    """The fraction of predictions that equal their labels.

    >>> float(Accuracy()([1, 2, 3, 4], [0, 2, 3, 4]))
    0.75
    """


class BinaryAccuracy(MeanMetricWrapper):
    """The fraction of predictions on the label's side of a threshold.

    >>> float(BinaryAccuracy()([[1], [1], [0], [0]], [[0.98], [1], [0], [0.6]]))
    0.75
    """

    def __init__(
        self, name: str | None = "binary_accuracy", dtype: Any = None, threshold: float = 0.5
    ) -> None:
        super().__init__(functions.binary_accuracy, name, dtype, threshold=threshold)


@computing(functions.categorical_accuracy)
class CategoricalAccuracy(PlainMean):
    """The fraction of samples whose one-hot label has the largest prediction.

    >>> float(CategoricalAccuracy()([[0, 1], [1, 0]], [[0.1, 0.9], [0.2, 0.8]]))
    0.5
    """


@computing(functions.sparse_categorical_accuracy)
class SparseCategoricalAccuracy(PlainMean):
    """The fraction of samples whose class number has the largest prediction.

    >>> float(SparseCategoricalAccuracy()([1, 0], [[0.1, 0.9], [0.2, 0.8]]))
    0.5
    """


class TopKCategoricalAccuracy(MeanMetricWrapper):
    """The fraction of samples whose one-hot label is among the `k` largest predictions.

    >>> float(TopKCategoricalAccuracy(k=2)([[0, 0, 1]], [[0.1, 0.5, 0.4]]))
    1.0
    """

    def __init__(
        self, k: int = 5, name: str | None = "top_k_categorical_accuracy", dtype: Any = None
    ) -> None:
        super().__init__(functions.top_k_categorical_accuracy, name, dtype, k=k)


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """The fraction of samples whose class number is among the `k` largest predictions.

    >>> float(SparseTopKCategoricalAccuracy(k=2)([2, 0], [[0.1, 0.5, 0.4], [0.1, 0.5, 0.4]]))
    0.5
    """

    def __init__(
        self,
        k: int = 5,
        name: str | None = "sparse_top_k_categorical_accuracy",
        dtype: Any = None,
        from_sorted_ids: bool = False,
    ) -> None:
        function = functions.sparse_top_k_categorical_accuracy
        super().__init__(function, name, dtype, k=k, from_sorted_ids=from_sorted_ids)


def accuracy_for(y_true_shape: Any, y_pred_shape: Any, name: str = "accuracy") -> MeanMetricWrapper:
    """Return the accuracy metric for labels and predictions of these shapes.

    One prediction per sample gives BinaryAccuracy. Labels with fewer axes than the predictions, or
    with a last axis of 1, are class numbers. All other labels are one-hot.

    >>> accuracy_for((32,), (32, 10))
    <SparseCategoricalAccuracy name=accuracy>
    >>> accuracy_for((32, 1), (32, 1))
    <BinaryAccuracy name=accuracy>
    """
    true, predicted = tuple(y_true_shape), tuple(y_pred_shape)
    if not predicted:
        raise ShapeError(
            "Accuracy takes predictions with at least a batch axis. "
            f"Got labels of shape {true} and predictions of shape {predicted}."
        )
    if len(predicted) == 1 or predicted[-1] == 1:
        return BinaryAccuracy(name=name)
    if len(true) < len(predicted) or true[-1] == 1:
        return SparseCategoricalAccuracy(name=name)
    return CategoricalAccuracy(name=name)
