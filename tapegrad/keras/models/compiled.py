"""The losses and metrics that a model was compiled with, for each of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras import losses, metrics
from tapegrad.keras.losses.loss import Loss, LossFunctionWrapper
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.metric import Metric
from tapegrad.keras.metrics.reduction import Mean
from tapegrad.keras.models.outputs import (
    one_per_output,
    output_names,
    targets_per_output,
    weights_per_output,
)

_ACCURACY = ("accuracy", "acc")


class CompiledLoss:
    """Computes the total loss of all outputs, and tracks the mean of each if there are several."""

    def __init__(self, loss: Any, weights: Any = None) -> None:
        self._given, self._weights = _resolved(loss), weights
        self._losses: list[Any] | None = None
        self._names: list[str] = []
        self._factors: list[float] = []
        self._trackers: dict[str, Mean] = {}

    @property
    def metrics(self) -> list[Mean]:
        """The mean loss of each output, if there are several."""
        return list(self._trackers.values())

    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        masks: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> Any:
        if self._losses is None:
            self._losses = self._prepare(y_pred, names)
        is_plain = type(y_pred) is Tensor and type(y_true) is Tensor and sample_weight is None
        if is_plain and len(self._losses) == 1 and self._losses[0] is not None:
            # Fast path for the usual case: one output and no sample weights.
            mask = masks[0] if masks else None
            return self._one(0, self._losses[0], y_true, y_pred, None, mask)
        preds = nest.flatten(y_pred)
        if len(preds) != len(self._losses):
            raise ArgumentError(
                f"The model had {len(self._losses)} outputs in earlier calls. Got {len(preds)} now."
            )
        wanted = [rule is not None for rule in self._losses]
        trues = targets_per_output(y_true, y_pred, self._names, wanted)
        weights = weights_per_output(sample_weight, self._names)
        total = None
        for place, rule in enumerate(self._losses):
            if rule is None:
                continue
            mask = masks[place] if masks else None
            value = self._one(place, rule, trues[place], preds[place], weights[place], mask)
            total = value if total is None else total + value
        return total

    def _prepare(self, y_pred: Any, names: Sequence[str] | None) -> list[Any]:
        self._names = output_names(y_pred, names)
        found = one_per_output(self._given, self._names, "losses")
        factors = one_per_output(self._weights, self._names, "loss weights")
        self._factors = [_factor(one) for one in factors]
        tracked = [name for name, rule in zip(self._names, found) if rule is not None]
        if isinstance(y_pred, dict) and isinstance(self._given, dict):
            tracked.sort(key=list(self._given).index)  # Keras reports them in the given order
        if len(tracked) > 1:
            self._trackers = {name: Mean(name=f"{name}_loss") for name in tracked}
        return found

    def _one(self, place: int, rule: Any, true: Any, pred: Any, weight: Any, mask: Any) -> Any:
        if pred is None:
            raise ArgumentTypeError(
                f"Output {self._names[place]!r} of the model is None. Its call must return the "
                "outputs."
            )
        more = {} if mask is None else {"mask": mask}
        try:
            value = rule(true, pred, weight, **more)
        except ShapeError as error:
            reason = str(error)
            if " cannot take " in reason:  # a primitive's error: the shapes are named already
                reason = reason.rpartition(": ")[2]
            given = "" if weight is None else f", weights of shape {_shape(weight)}"
            raise ShapeError(
                f"Loss {rule.name!r} of output {self._names[place]!r} got targets of shape "
                f"{_shape(true)} and outputs of shape {_shape(pred)}{given}, which do not match: "
                f"{reason}"
            ) from error
        tracker = self._trackers.get(self._names[place])
        if tracker is not None:
            tracker.add_one(value, float(pred.shape[0] if pred.shape else 1))
        factor = self._factors[place]
        return value if factor == 1.0 else value * factor


def _shape(value: Any) -> Any:
    return tuple(value.shape) if hasattr(value, "shape") else type(value).__name__


def _factor(given: Any) -> float:
    if given is None:
        return 1.0
    if not isinstance(given, int | float):
        raise ArgumentTypeError(
            f"A loss weight must be a number. Got {type(given).__name__}: {given!r}."
        )
    return float(given)


def _resolved(given: Any) -> Any:
    """Replace names by losses in a structure, so that unknown names raise in `compile`."""
    if isinstance(given, dict) and "class_name" not in given:
        return {name: _resolved(one) for name, one in given.items()}
    return [_resolved(one) for one in given] if isinstance(given, list | tuple) else _loss(given)


def _loss(given: Any) -> Any:
    found = losses.get(given)
    if found is None or isinstance(found, Loss):
        return found
    return LossFunctionWrapper(found, name=getattr(found, "__name__", None))


class CompiledMetrics:
    """The metrics of all outputs, as one metric whose result is a dictionary by name.

    The first update resolves "accuracy", which depends on the shapes of targets and outputs.
    """

    def __init__(
        self, given: Any, names: Any = None, beside: CompiledMetrics | None = None
    ) -> None:
        self.given, self._known, self._beside = given, names, beside
        self.name = "compile_metrics" if beside is None else "weighted_metrics"
        self._made: list[list[Metric]] | None = None
        self._names: list[str] = []
        self._entries: list[list[Any]] | None = None
        self.labels: dict[str, Metric] = {}
        """The metrics by the names in logs and results."""
        _check(given)

    @property
    def variables(self) -> list[Any]:
        return [variable for metric in self.labels.values() for variable in metric.variables]

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of all outputs, known after the first batch."""
        return list(self.labels.values())

    def reset_state(self) -> None:
        for metric in self.labels.values():
            metric.reset_state()

    def result(self) -> dict[str, Any]:
        return {label: metric.result() for label, metric in self.labels.items()}

    def update_state(
        self,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        masks: Sequence[Any] | None = None,
    ) -> None:
        """Add a batch; only the weighted metrics use the sample weights."""
        if self._entries is None:
            self._names = output_names(y_pred, self._known)
            self._entries = self._per_output()
        if not any(self._entries):
            return
        wanted = [bool(some) for some in self._entries]
        preds = nest.flatten(y_pred)
        trues = targets_per_output(y_true, y_pred, self._names, wanted)
        if self._made is None:
            self._made = self._make(self._entries, trues, preds)
        weights: list[Any] = [None] * len(preds)
        if self._beside is not None:
            weights = weights_per_output(sample_weight, self._names)
        for place, some in enumerate(self._made):
            weight = _with_mask(weights[place], masks[place] if masks else None)
            more = {} if weight is None else {"sample_weight": weight}
            for metric in some:
                metric.update_state(trues[place], preds[place], **more)

    def _per_output(self) -> list[list[Any]]:
        given = self.given
        by_name = isinstance(given, dict) and "class_name" not in given
        if len(self._names) == 1 and not by_name:
            return [_flat(given)]
        return [_flat(entry) for entry in one_per_output(given, self._names, "metrics")]

    def _make(
        self, entries: list[list[Any]], trues: Sequence[Any], preds: Sequence[Any]
    ) -> list[list[Metric]]:
        taken = () if self._beside is None else self._beside.labels
        made: list[list[Metric]] = []
        for entry, name, true, pred in zip(entries, self._names, trues, preds):
            prefix = "" if len(self._names) == 1 else f"{name}_"
            some = [_metric(one, true, pred) for one in entry]
            for metric in some:
                label = f"{prefix}{metric.name}"
                label = f"{prefix}weighted_{metric.name}" if label in taken else label
                self.labels[label] = metric
            made.append(some)
        return made


def _with_mask(weight: Any, mask: Any) -> Any:
    """Return the sample weights with 0 at masked elements."""
    if mask is None:
        return weight
    kept = as_dtype_of(mask, "float32")
    if weight is None:
        return kept
    kept, weight = match_ranks(kept, as_dtype_of(weight, "float32"))
    return kept * weight


def _flat(entry: Any) -> list[Any]:
    if entry is None:
        return []
    if isinstance(entry, list | tuple):
        return [one for part in entry for one in _flat(part)]
    return [entry]


def _check(given: Any) -> None:
    """Raise errors about unknown metrics in `compile` and not at the first update."""
    named = isinstance(given, dict) and "class_name" not in given
    for one in _flat(list(given.values()) if named else given):
        if isinstance(one, dict) and "class_name" not in one:
            _check(one)
        elif not (isinstance(one, str) and one in _ACCURACY):
            metrics.get(one)


def _metric(given: Any, true: Any, pred: Any) -> Metric:
    if isinstance(given, str) and given in _ACCURACY:
        return metrics.accuracy_for(true.shape, pred.shape, name=given)
    found = metrics.get(given)
    if not isinstance(found, Metric):
        return metrics.MeanMetricWrapper(found, name=getattr(found, "__name__", "metric"))
    if isinstance(given, str):
        found.name = given
    return found
