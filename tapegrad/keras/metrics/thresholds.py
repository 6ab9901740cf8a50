"""Counts of true and false positives and negatives at thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.metric import Metric, add_to
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import one_hot
from tapegrad.ops.elementwise.comparison import greater
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.rounding import ceil
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.indexing.segment_functions import unsorted_segment_sum
from tapegrad.ops.indexing.sorting import top_k as largest
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.reduction.primitives import sum as sum_of
from tapegrad.ops.shape.functions import broadcast_to, expand_dims, reshape, transpose

EPSILON = 1e-7
NEVER = -1e10
"""A prediction below all thresholds."""
KINDS = {
    "tp": "true_positives",
    "fp": "false_positives",
    "tn": "true_negatives",
    "fn": "false_negatives",
}


def as_thresholds(thresholds: Any, default: float = 0.5) -> list[float]:
    """Return one or several thresholds between 0 and 1 as a list.

    >>> as_thresholds(None), as_thresholds([0.2, 0.8])
    ([0.5], [0.2, 0.8])
    """
    if thresholds is None:
        return [default]
    listed = list(thresholds) if isinstance(thresholds, Sequence | np.ndarray) else [thresholds]
    if not listed or any([t is None or not 0 <= t <= 1 for t in listed]):
        raise ArgumentError(
            f"thresholds must be a number from 0 to 1, or a list of them. Got {thresholds!r}."
        )
    return [float(t) for t in listed]


class Counter:
    """Counts true and false positives and negatives of a batch at each threshold.

    >>> counter = Counter([0.5])
    >>> counts = counter(["tp", "fn"], [1, 1, 0], [0.9, 0.1, 0.8])
    >>> [count.tolist() for count in counts]
    [[1.0], [1.0]]
    """

    def __init__(
        self,
        thresholds: Sequence[float],
        top_k: int | None = None,
        class_id: int | None = None,
        per_label: bool = False,
        dtype: str = "float32",
        label_weights: list[float] | None = None,
    ) -> None:
        self.thresholds = list(thresholds)
        self.top_k = top_k
        self.class_id = class_id
        self.per_label = per_label
        self.dtype = dtype
        self.label_weights = label_weights
        self.even = _are_even(self.thresholds)

    def __call__(
        self, wanted: Iterable[str], y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> list[Any]:
        """Return the wanted counts ("tp", "fp", "tn", "fn"), one value per threshold."""
        predicted, true = match_ranks(
            as_dtype_of(y_pred, self.dtype), as_dtype_of(y_true, self.dtype)
        )
        weight = self._weight(true, sample_weight)
        true, predicted = self._chosen(true, predicted)
        positive = cast(true != 0, self.dtype)
        label_counts = {"p": positive, "n": 1.0 - positive}
        for factor in (weight, self.label_weights):
            if factor is not None:
                label_counts = {key: value * factor for key, value in label_counts.items()}
        if not self.per_label:
            predicted = _flat(predicted)
            label_counts = {key: _flat(value) for key, value in label_counts.items()}
        if self.even:
            return self._count_in_bins(wanted, predicted, label_counts)
        return self._count_each(wanted, predicted, label_counts)

    def _weight(self, true: Any, sample_weight: Any) -> Any:
        """Return the sample weights, with an axis for the labels if a sample has several."""
        if sample_weight is None:
            return None
        weight = as_dtype_of(sample_weight, self.dtype)
        if weight.shape and len(weight.shape) == len(true.shape) - 1:
            return expand_dims(weight, -1)
        return match_ranks(true, weight, expand_vectors=False)[1]

    def _chosen(self, true: Any, predicted: Any) -> tuple[Any, Any]:
        """Select the predictions by `top_k` and `class_id`."""
        if (self.top_k is not None or self.class_id is not None) and len(predicted.shape) < 2:
            raise ShapeError(
                "With top_k or class_id, predictions must have the shape (samples, classes). "
                f"Got {predicted.shape}."
            )
        if self.top_k is not None:
            places = largest(predicted, self.top_k).indices
            chosen = sum_of(one_hot(places, predicted.shape[-1], dtype=self.dtype), axis=-2)
            predicted = where(chosen > 0, predicted, NEVER)
        if self.class_id is not None:
            if not 0 <= self.class_id < predicted.shape[-1]:
                raise ShapeError(
                    f"class_id={self.class_id} is not among the {predicted.shape[-1]} classes of "
                    f"predictions of shape {predicted.shape}."
                )
            one = slice(self.class_id, self.class_id + 1)
            true, predicted = true[..., one], predicted[..., one]
        return true, predicted

    def _count_each(
        self, wanted: Iterable[str], predicted: Any, label_counts: dict[str, Any]
    ) -> list[Any]:
        """Compare each prediction with each threshold."""
        # A list instead of a tensor, which works on the device of the predictions.
        levels = np.reshape(self.thresholds, (-1, *[1] * len(predicted.shape))).tolist()
        above = greater(expand_dims(predicted, 0), levels)
        counts = {
            "tp": lambda: where(above, label_counts["p"], 0.0),
            "fp": lambda: where(above, label_counts["n"], 0.0),
            "tn": lambda: where(above, 0.0, label_counts["n"]),
            "fn": lambda: where(above, 0.0, label_counts["p"]),
        }
        return [sum_of(counts[name](), axis=1) for name in wanted]

    def _count_in_bins(
        self, wanted: Iterable[str], predicted: Any, label_counts: dict[str, Any]
    ) -> list[Any]:
        """Sort predictions into the bins between thresholds, and sum the bins cumulatively.

        Bin k holds predictions above k thresholds. The cost does not depend on the number of
        thresholds.
        """
        number = len(self.thresholds)
        bins = ceil(clip(predicted, 0.0, 1.0) * (number - 1.0))
        # With a first threshold just below 0, every prediction is above at least one.
        bins = cast(clip(bins, float(self.thresholds[0] < 0), float(number)), "int32")
        sums = {key: self._sum_bins(count, bins, number + 1) for key, count in label_counts.items()}
        counts = {
            "tp": lambda: cumsum(sums["p"], reverse=True)[1:],
            "fp": lambda: cumsum(sums["n"], reverse=True)[1:],
            "tn": lambda: cumsum(sums["n"])[:-1],
            "fn": lambda: cumsum(sums["p"])[:-1],
        }
        return [counts[name]() for name in wanted]

    def _sum_bins(self, counts: Any, bins: Any, number: int) -> Any:
        counts = broadcast_to(counts, bins.shape)
        if not self.per_label:
            return unsorted_segment_sum(counts, bins, number)
        labels = bins.shape[-1]
        own = bins + [number * label for label in range(labels)]
        sums = unsorted_segment_sum(counts, own, number * labels)
        return transpose(reshape(sums, (labels, number)))


class AtThresholds(Metric):
    """Base class of metrics that are computed from counts at thresholds."""

    _kinds: tuple[str, ...] = tuple(KINDS)
    _counter: Counter
    _counts: dict[str, Variable]
    true_positives: Variable
    false_positives: Variable
    true_negatives: Variable
    false_negatives: Variable

    def _make_state(self, *labels: int) -> None:
        shape = (len(self._counter.thresholds), *labels)
        self._counts = {kind: self.add_variable(shape, name=KINDS[kind]) for kind in self._kinds}
        vars(self).update({KINDS[kind]: count for kind, count in self._counts.items()})

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        counts = self._counter(self._kinds, y_true, y_pred, sample_weight)
        for kind, count in zip(self._kinds, counts, strict=True):
            add_to(self._counts[kind], count)

    def _ratio(self, kind: str, other: str) -> Any:
        count = self._counts[kind].read_value()
        return divide_no_nan(count, count + self._counts[other])


def _flat(x: Any) -> Any:
    x = as_operand(x)
    return x if len(x.shape) == 1 else reshape(x, (prod(x.shape),))


def _are_even(thresholds: Sequence[float]) -> bool:
    """Whether thresholds go from 0 to 1 in equal steps."""
    number = len(thresholds)
    even = np.arange(number) / max(number - 1, 1)
    return number >= 3 and bool(np.allclose(thresholds, even, atol=EPSILON))
