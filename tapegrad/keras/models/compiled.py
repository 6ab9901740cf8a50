"""The losses and metrics that a model was compiled with, for each of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core import nest
from tapegrad.errors import ArgumentError
from tapegrad.keras import losses, metrics
from tapegrad.keras.losses.loss import Loss, LossFunctionWrapper
from tapegrad.keras.metrics.metric import Metric

_ACCURACY = ("accuracy", "acc")


def _names(outputs: Any) -> list[str]:
    """Names of a model's outputs: the keys of a dictionary, else their numbers."""
    if isinstance(outputs, dict):
        return [str(key) for key in sorted(outputs)]
    count = len(nest.flatten(outputs))
    return [""] if count == 1 else [f"output_{k}" for k in range(count)]


def _per_output(given: Any, outputs: Any, what: str) -> list[Any]:
    """One entry per output, from one for all, a list, or a dictionary of them."""
    names = _names(outputs)
    if isinstance(given, dict) and isinstance(outputs, dict):
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ArgumentError(
                f"There are {what} for outputs {unknown}. The model's outputs are {names}."
            )
        return [given.get(name) for name in names]
    if isinstance(given, list | tuple) and len(names) > 1:
        if len(given) != len(names):
            raise ArgumentError(
                f"There must be one of the {what} for each of {len(names)} outputs. "
                f"Got {len(given)}."
            )
        return list(given)
    if len(names) > 1 and given is not None and what == "losses":
        return [given] * len(names)
    return [given, *[None] * (len(names) - 1)]


class CompiledLoss:
    """Computes the total of the losses of all outputs."""

    def __init__(self, loss: Any, weights: Any = None) -> None:
        self._given, self._weights = _resolved(loss), weights
        self._losses: list[Any] | None = None
        self._factors: list[float] = []

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if self._losses is None:
            self._losses = _per_output(self._given, y_pred, "losses")
            factors = _per_output(self._weights, y_pred, "loss weights")
            self._factors = [1.0 if one is None else float(one) for one in factors]
        trues, preds = nest.flatten(y_true), nest.flatten(y_pred)
        if len(trues) != len(preds):
            raise ArgumentError(
                f"The model has {len(preds)} outputs. Got {len(trues)} targets for them."
            )
        weights = nest.flatten(sample_weight)
        weights = weights * len(preds) if len(weights) == 1 else weights
        total = None
        for rule, factor, true, pred, weight in zip(
            self._losses, self._factors, trues, preds, weights
        ):
            if rule is not None:
                value = rule(true, pred, weight)
                value = value if factor == 1.0 else value * factor
                total = value if total is None else total + value
        return total


def _resolved(given: Any) -> Any:
    """The losses themselves in the structure in which they were given, so that mistakes show."""
    if isinstance(given, dict) and "class_name" not in given:
        return {name: _resolved(one) for name, one in given.items()}
    return [_resolved(one) for one in given] if isinstance(given, list | tuple) else _loss(given)


def _loss(given: Any) -> Any:
    found = losses.get(given)
    if found is None or isinstance(found, Loss):
        return found
    return LossFunctionWrapper(found, name=getattr(found, "__name__", None))


class CompiledMetrics:
    """The metrics of all outputs; which accuracy is meant is known at the first update."""

    def __init__(self, given: Any, is_weighted: bool = False) -> None:
        self._given, self._is_weighted = given, is_weighted
        self._made: list[list[Metric]] | None = None

    @property
    def metrics(self) -> list[Metric]:
        return [metric for some in self._made or () for metric in some]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        trues, preds = nest.flatten(y_true), nest.flatten(y_pred)
        if self._made is None:
            self._made = self._make(y_pred, trues, preds)
        for some, true, pred in zip(self._made, trues, preds):
            for metric in some:
                if self._is_weighted:
                    metric.update_state(true, pred, sample_weight=sample_weight)
                else:
                    metric.update_state(true, pred)

    def _make(self, y_pred: Any, trues: Sequence[Any], preds: Sequence[Any]) -> list[list[Metric]]:
        names = _names(y_pred)
        given = self._given
        if len(names) == 1:
            entries = [given]
        else:
            entries = _per_output(given, y_pred, "metrics")
        return [
            [_metric(one, name, true, pred) for one in _listed(entry)]
            for entry, name, true, pred in zip(entries, names, trues, preds)
        ]


def _listed(entry: Any) -> list[Any]:
    if entry is None:
        return []
    return list(entry) if isinstance(entry, list | tuple) else [entry]


def _metric(given: Any, prefix: str, true: Any, pred: Any) -> Metric:
    start = f"{prefix}_" if prefix else ""
    if isinstance(given, str) and given in _ACCURACY:
        return metrics.accuracy_for(true.shape, pred.shape, name=f"{start}{given}")
    found = metrics.get(given)
    if not isinstance(found, Metric):
        name = getattr(found, "__name__", "metric")
        return metrics.MeanMetricWrapper(found, name=f"{start}{name}")
    if isinstance(given, str):
        found.name = f"{start}{given}"
    return found
