"""Metrics of ROC and precision-recall curves: areas, and the best point under a constraint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.argument_checks import check_rounds
from tapegrad.core.files.limits import spend_rounds
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.losses.weighting import as_dtype_of
from tapegrad.keras.metrics.thresholds import EPSILON, AtThresholds, Counter
from tapegrad.ops.elementwise.comparison import equal, greater, logical_and
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.selection import maximum, minimum, where
from tapegrad.ops.elementwise.sigmoids import sigmoid
from tapegrad.ops.reduction.primitives import max as max_of, mean, sum as sum_of

_CURVES = ("ROC", "PR", "PRGAIN")
_METHODS = ("interpolation", "minoring", "majoring")
_MOST_THRESHOLDS = 10_000_000


class AUC(AtThresholds):
    """The area under the ROC curve or the precision-recall curve.

    The curve has `num_thresholds` points; more points give a more exact area. With `multi_label`
    each column is a separate label, and the areas are averaged.

    >>> float(AUC(num_thresholds=3)([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]))
    0.75
    """

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Sequence[float] | None = None,
        multi_label: bool = False,
        num_labels: int | None = None,
        label_weights: Any = None,
        from_logits: bool = False,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.curve = _one_of("curve", _CURVES, curve.upper())
        self.summation_method = _one_of("summation_method", _METHODS, summation_method.lower())
        self.thresholds = _drawn(num_thresholds, thresholds)
        self.num_thresholds = len(self.thresholds)
        self.multi_label = multi_label
        self.label_weights = label_weights
        self.from_logits = from_logits
        # A list instead of a tensor, which works on the device of the predictions.
        self._weights = None if label_weights is None else [float(w) for w in label_weights]
        shared = None if multi_label else self._weights
        self._counter = Counter(self.thresholds, None, None, multi_label, self.dtype, shared)
        self._counts = {}
        if num_labels and not multi_label:
            raise ArgumentError("AUC takes num_labels only with multi_label=True.")
        if num_labels or not multi_label:
            self._make_state(*([num_labels] if num_labels else []))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        predicted = as_dtype_of(y_pred, self.dtype)
        if self.multi_label and len(predicted.shape) != 2:
            raise ShapeError(
                "AUC with multi_label=True takes predictions of shape (samples, labels). "
                f"Got {predicted.shape}."
            )
        if not self._counts:
            self._make_state(predicted.shape[-1])
        if self.from_logits:
            predicted = sigmoid(predicted)
        super().update_state(y_true, predicted, sample_weight)

    def result(self) -> Any:
        if not self._counts:
            raise ArgumentError(
                "AUC with multi_label=True has no result before its first update_state. "
                "Pass num_labels to have a result from the start."
            )
        counts = {kind: count.read_value() for kind, count in self._counts.items()}
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._average(_interpolated_precision(**counts))
        x, y = _points(self.curve, **counts)
        heights = _between(self.summation_method, y[:-1], y[1:])
        return self._average((x[:-1] - x[1:]) * heights)

    def _average(self, parts: Any) -> Any:
        """Return the sum of the parts of an area, or the weighted mean over labels."""
        if not self.multi_label:
            return sum_of(parts)
        areas = sum_of(parts, axis=0)
        if self._weights is None:
            return mean(areas)
        return divide_no_nan(sum_of(areas * self._weights), sum(self._weights))


def _one_of(argument: str, allowed: Sequence[str], given: str) -> str:
    if given not in allowed:
        names = ", ".join(repr(name) for name in allowed)
        raise ArgumentError(f"The {argument} of AUC must be one of {names}. Got {given!r}.")
    return given


def _drawn(number: int, thresholds: Sequence[float] | None) -> list[float]:
    """Return the thresholds in order, with one below and one above all predictions."""
    if thresholds is not None:
        inner = sorted(float(t) for t in thresholds)
        if any([not 0 <= t <= 1 for t in inner]):
            raise ArgumentError(f"The thresholds of AUC must be from 0 to 1. Got {thresholds!r}.")
    elif number > 1:
        _check_number(number, "AUC")
        inner = [k / (number - 1) for k in range(1, number - 1)]
    else:
        raise ArgumentError(f"AUC takes num_thresholds of 2 or more. Got {number}.")
    return [-EPSILON, *inner, 1.0 + EPSILON]


def _check_number(number: int, function: str) -> None:
    spend_rounds(number)  # a file may ask for any number
    check_rounds("num_thresholds", number, function, _MOST_THRESHOLDS)


def _points(curve: str, tp: Any, fp: Any, tn: Any, fn: Any) -> tuple[Any, Any]:
    """Return the points of a curve, one per threshold, in the order of the thresholds."""
    recall = divide_no_nan(tp, tp + fn)
    if curve == "ROC":
        return divide_no_nan(fp, fp + tn), recall
    if curve == "PR":
        return recall, divide_no_nan(tp, tp + fp)
    odds = divide_no_nan(tp + fn, tn + fp)
    nothing = equal(tp, 0.0)
    recall_gain = where(nothing, 0.0, 1.0 - odds * divide_no_nan(fn, tp))
    precision_gain = where(nothing, 1.0, 1.0 - odds * divide_no_nan(fp, tp))
    return maximum(recall_gain, 0.0), precision_gain


def _between(method: str, first: Any, second: Any) -> Any:
    if method == "interpolation":
        return (first + second) / 2.0
    return minimum(first, second) if method == "minoring" else maximum(first, second)


def _interpolated_precision(tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
    """Return parts of the area under the precision-recall curve, after Davis and Goadrich (2006).

    Between two thresholds, true positives are linear in the number of positives p. With
    tp = slope * p + start, the integral of tp / p is slope * (change of tp + start * log ratio).
    """
    positives = tp + fp
    higher, lower = positives[:-1], positives[1:]
    change = tp[:-1] - tp[1:]
    slope = divide_no_nan(change, maximum(higher - lower, 0.0))
    start = tp[1:] - slope * lower
    both = logical_and(greater(higher, 0.0), greater(lower, 0.0))
    ratio = where(both, divide_no_nan(higher, maximum(lower, 0.0)), 1.0)
    return divide_no_nan(slope * (change + start * log(ratio)), maximum(tp[1:] + fn[1:], 0.0))


class Constrained(AtThresholds):
    """Base class of metrics that maximize one ratio while another is at least a value."""

    _best, _held = ("tp", "fn"), ("tn", "fp")

    def __init__(
        self,
        value: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        if not 0 <= value <= 1 or num_thresholds < 1:
            raise ArgumentError(
                f"{type(self).__name__} takes a value from 0 to 1 and num_thresholds above 0. "
                f"Got {value!r} and {num_thresholds}."
            )
        _check_number(num_thresholds, type(self).__name__)
        steps = num_thresholds - 1
        self.value = value
        self.num_thresholds = num_thresholds
        self.class_id = class_id
        self.thresholds = [k / steps for k in range(num_thresholds)] if steps else [0.5]
        self._counter = Counter(self.thresholds, class_id=class_id, dtype=self.dtype)
        # As in Keras, two thresholds use bins too.
        self._counter.even = steps > 0
        self._make_state()

    def result(self) -> Any:
        enough = self._ratio(*self._held) >= self.value
        return max_of(where(enough, self._ratio(*self._best), 0.0))


class SensitivityAtSpecificity(Constrained):
    """The largest sensitivity at which the specificity is at least a value.

    >>> float(SensitivityAtSpecificity(0.8)([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]))
    0.5
    """

    def __init__(
        self,
        specificity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(specificity, num_thresholds, class_id, name, dtype)
        self.specificity = specificity


class SpecificityAtSensitivity(Constrained):
    """The largest specificity at which the sensitivity is at least a value.

    >>> float(SpecificityAtSensitivity(0.8)([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]))
    0.5
    """

    _best, _held = ("tn", "fp"), ("tp", "fn")

    def __init__(
        self,
        sensitivity: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype)
        self.sensitivity = sensitivity


class PrecisionAtRecall(Constrained):
    """The largest precision at which the recall is at least a value.

    >>> float(PrecisionAtRecall(0.5)([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]))
    1.0
    """

    _best, _held = ("tp", "fp"), ("tp", "fn")

    def __init__(
        self,
        recall: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(recall, num_thresholds, class_id, name, dtype)
        self.recall = recall


class RecallAtPrecision(Constrained):
    """The largest recall at which the precision is at least a value.

    >>> float(RecallAtPrecision(0.8)([0, 0, 1, 1], [0.0, 0.5, 0.3, 0.9]))
    0.5
    """

    _best, _held = ("tp", "fn"), ("tp", "fp")

    def __init__(
        self,
        precision: float,
        num_thresholds: int = 200,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(precision, num_thresholds, class_id, name, dtype)
        self.precision = precision
