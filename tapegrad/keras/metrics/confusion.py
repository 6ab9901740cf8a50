"""Counts of true and false positives and negatives, precision, recall and F scores."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.configured import with_defaults
from tapegrad.keras.losses.weighting import as_dtype_of
from tapegrad.keras.metrics.metric import Metric, add_to
from tapegrad.keras.metrics.thresholds import EPSILON, NEVER, AtThresholds, Counter, as_thresholds
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import greater, greater_equal, logical_and
from tapegrad.ops.elementwise.magnitude import abs as absolute
from tapegrad.ops.reduction.primitives import max as max_of, mean, sum as sum_of
from tapegrad.ops.shape.functions import expand_dims


def _single_or_all(values: Any) -> Any:
    return values[0] if values.shape[0] == 1 else values


class Count(Metric):
    """Base class of metrics that count one of "tp", "fp", "tn", "fn" at each threshold."""

    _kind = "tp"

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.thresholds = as_thresholds(thresholds)
        self._counter = Counter(self.thresholds, dtype=self.dtype)
        self.accumulator = self.add_variable((len(self.thresholds),), name="accumulator")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        (count,) = self._counter([self._kind], y_true, y_pred, sample_weight)
        add_to(self.accumulator, count)

    def result(self) -> Any:
        return _single_or_all(self.accumulator.read_value())


class TruePositives(Count):
    """The number of labels 1 that are predicted as 1.

    >>> float(TruePositives()([1, 1, 0, 0], [0.9, 0.2, 0.8, 0.1]))
    1.0
    """


class TrueNegatives(Count):
    """The number of labels 0 that are predicted as 0.

    >>> float(TrueNegatives()([1, 1, 0, 0], [0.9, 0.2, 0.8, 0.1]))
    1.0
    """

    _kind = "tn"


class FalsePositives(Count):
    """The number of labels 0 that are predicted as 1.

    >>> float(FalsePositives()([1, 1, 0, 0], [0.9, 0.2, 0.8, 0.1]))
    1.0
    """

    _kind = "fp"


class FalseNegatives(Count):
    """The number of labels 1 that are predicted as 0.

    >>> float(FalseNegatives()([1, 1, 0, 0], [0.9, 0.2, 0.8, 0.1]))
    1.0
    """

    _kind = "fn"


class Share(AtThresholds):
    """Base class of precision and recall: true positives over their sum with another count."""

    _kinds = ("tp", "fp")

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.thresholds = as_thresholds(thresholds, 0.5 if top_k is None else NEVER)
        self.top_k = top_k
        self.class_id = class_id
        self._counter = Counter(self.thresholds, top_k, class_id, dtype=self.dtype)
        self._make_state()

    def result(self) -> Any:
        return _single_or_all(self._ratio(*self._kinds))


class Precision(Share):
    """The fraction of positive predictions that are right.

    With `top_k`, a class counts as predicted if it is among the `k` largest predictions of its
    sample. With `class_id`, only that class is evaluated.

    >>> float(Precision()([0, 1, 1, 1], [1.0, 0.0, 1.0, 1.0], sample_weight=[0, 0, 1, 0]))
    1.0
    """


class Recall(Share):
    """The fraction of labels 1 that are predicted as 1.

    >>> float(Recall()([1, 1, 0, 0], [0.9, 0.2, 0.8, 0.1]))
    0.5
    """

    _kinds = ("tp", "fn")


class FBeta(Metric):
    """Base class of the F scores: means of precision and recall, per class or averaged."""

    def __init__(
        self,
        average: str | None = None,
        beta: float = 1.0,
        threshold: float | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        if average not in (None, "micro", "macro", "weighted"):
            raise ArgumentError(
                "The average of an F score must be None, 'micro', 'macro' or 'weighted'. "
                f"Got {average!r}."
            )
        if not beta > 0:
            raise ArgumentError(f"The beta of an F score must be above 0. Got {beta!r}.")
        if threshold is not None and not 0 < threshold <= 1:
            raise ArgumentError(
                "The threshold of an F score must be None or above 0 and at most 1. "
                f"Got {threshold!r}."
            )
        self.average = average
        self.beta = beta
        self.threshold = threshold
        self._counts: dict[str, Variable] = {}

    def _state(self, y_true: Any, y_pred: Any) -> dict[str, Variable]:
        """Return the counts, which are created when the number of classes is known."""
        if len(y_pred.shape) != 2 or len(y_true.shape) != 2:
            raise ShapeError(
                "An F score takes labels and predictions of shape (samples, classes). "
                f"Got {y_true.shape} and {y_pred.shape}."
            )
        if not self._counts:
            shape = () if self.average == "micro" else (y_pred.shape[-1],)
            for name in ("true_positives", "false_positives", "false_negatives", "labels"):
                self._counts[name] = self.add_variable(shape, name=name)
        return self._counts

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        true, predicted = as_dtype_of(y_true, self.dtype), as_dtype_of(y_pred, self.dtype)
        state = self._state(true, predicted)
        chosen = self._chosen(predicted)
        weight = None
        if sample_weight is not None:
            weight = expand_dims(as_dtype_of(sample_weight, self.dtype), -1)
        axis = None if self.average == "micro" else 0
        terms = (chosen * true, chosen * (1.0 - true), (1.0 - chosen) * true, true)
        for count, term in zip(state.values(), terms, strict=True):
            add_to(count, sum_of(term if weight is None else term * weight, axis=axis))

    def _chosen(self, predicted: Any) -> Any:
        if self.threshold is not None:
            return cast(greater(predicted, self.threshold), self.dtype)
        top = greater_equal(predicted, max_of(predicted, axis=-1, keepdims=True))
        # A row of zeros predicts no class, although each element equals the maximum.
        return cast(logical_and(top, greater(absolute(predicted), 1e-9)), self.dtype)

    def result(self) -> Any:
        if not self._counts:
            raise ArgumentError(
                "An F score has no result before its first update_state(y_true, y_pred)."
            )
        hits, alarms, missed, labels = [count.read_value() for count in self._counts.values()]
        precision = hits / (hits + alarms + EPSILON)
        recall = hits / (hits + missed + EPSILON)
        square = self.beta**2
        score = (1.0 + square) * precision * recall / (square * precision + recall + EPSILON)
        if self.average == "weighted":
            return sum_of(score * labels / (sum_of(labels) + EPSILON))
        return score if self.average is None else mean(score)


@with_defaults(name="fbeta_score")
class FBetaScore(FBeta):
    """The weighted harmonic mean of precision and recall; recall is `beta` times as important.

    Without a threshold, the largest prediction of each sample is its predicted class.

    >>> score = FBetaScore(beta=2.0, threshold=0.5)
    >>> score([[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.6, 0.8]]).numpy().round(2)
    array([0.83, 1.  ], dtype=float32)
    """


class F1Score(FBeta):
    """The harmonic mean of precision and recall.

    >>> score = F1Score(threshold=0.5)
    >>> score([[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.6, 0.8]]).numpy().round(2)
    array([0.67, 1.  ], dtype=float32)
    """

    def __init__(
        self,
        average: str | None = None,
        threshold: float | None = None,
        name: str | None = "f1_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(average, 1.0, threshold, name, dtype)
