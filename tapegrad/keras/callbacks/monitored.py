"""Monitoring of one metric, for callbacks that stop, save or slow down training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.metrics import CLASSES

_LARGER_IS_BETTER = (
    *("acc", "auc", "precision", "recall", "f1", "fbeta", "iou", "r2"),
    *("cosinesimilarity", "correlation", "sensitivity", "specificity"),
)
_OF_ANYTHING = ("Mean", "Sum", "MeanMetricWrapper")


def _sign(name: str) -> float:
    """Return 1 if larger values of a metric of this name are better, else -1."""
    plain = name.lower().replace("_", "")
    is_larger = not plain.endswith("loss") and any(word in plain for word in _LARGER_IS_BETTER)
    return 1.0 if is_larger else -1.0


class Watch:
    """Monitors one metric and detects improvements.

    >>> watch = Watch("val_loss")
    >>> watch.is_better(1.0), watch.is_better(2.0), watch.is_better(0.5)
    (True, False, True)
    """

    def __init__(self, monitor: str, mode: str = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ArgumentError(f"mode must be 'auto', 'min' or 'max'. Got {mode!r}.")
        self.monitor, self.mode, self._is_guess = monitor, mode, mode == "auto"
        self.sign = {"auto": _sign(monitor), "min": -1.0, "max": 1.0}[mode]
        self.delta = abs(min_delta)
        self.best: float | None = None

    def renewed(self) -> Watch:
        """Return one that has seen no value."""
        return Watch(self.monitor, self.mode, self.delta)

    def value_in(self, logs: Any, who: str, model: Any) -> float | None:
        """Return the metric, or warn if it is missing."""
        if self._is_guess:  # the first step names the metrics of the model
            named = model.named_metrics()
            kind = type(named.get(self.monitor.removeprefix("val_"))).__name__
            if kind in CLASSES and kind not in _OF_ANYTHING:
                self.sign = _sign(kind)
            self._is_guess = False
        value = (logs or {}).get(self.monitor)
        if value is None:
            names = ", ".join(logs or {})
            warn_outside(
                f"{who} monitors {self.monitor!r}, which is not among the metrics: {names}.",
            )
            return None
        return float(value)

    def is_better(self, value: float) -> bool:
        """Whether a value is the best so far, which is then stored; NaN never is."""
        if np.isnan(value):
            return False
        if self.best is None or self.sign * (value - self.best) > self.delta:
            self.best = value
            return True
        return False

    def reaches(self, value: float, goal: float) -> bool:
        """Whether a value is at least as good as a goal."""
        return self.sign * (value - goal) >= 0


class Monitored(Callback):
    """Base class of callbacks that monitor a metric, with the attributes that subclasses use.

    >>> class Watching(Monitored):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self._watch = Watch("accuracy", "max")
    >>> Watching().monitor_op(2.0, 1.0), Watching().get_monitor_value({"accuracy": 0.5})
    (True, 0.5)
    """

    _watch: Watch

    @property
    def monitor(self) -> str:
        """The name of the metric."""
        return self._watch.monitor

    @monitor.setter
    def monitor(self, name: str) -> None:
        best, self._watch = self._watch.best, Watch(name, self.mode, self._watch.delta)
        self._watch.best = best

    @property
    def mode(self) -> str:
        """Whether smaller or larger values are better: "min", "max" or "auto"."""
        return self._watch.mode

    @property
    def min_delta(self) -> float:
        """The least difference that is an improvement."""
        return self._watch.delta

    @property
    def best(self) -> float | None:
        """The best value so far, or None."""
        return self._watch.best

    @best.setter
    def best(self, value: Any) -> None:
        self._watch.best = None if value is None else float(value)

    @property
    def monitor_op(self) -> Callable[[Any, Any], bool]:
        """Return whether the first value is better than the second; any is better than None."""
        sign = self._watch.sign
        return lambda value, best: best is None or bool(sign * float(value) > sign * float(best))

    def get_monitor_value(self, logs: Any) -> float | None:
        """Return the metric, or warn and return None if it is missing."""
        return self._watch.value_in(logs, type(self).__name__, self.model)
