"""Callbacks that stop training or change the learning rate depending on metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.logs import say
from tapegrad.keras.callbacks.monitored import Monitored, Watch
from tapegrad.keras.callbacks.not_finite import Kept, Origin, find_origin, kept_of, set_back


class _Patient(Monitored):
    """Base class of callbacks that wait for a metric to improve; checkpoints save their state."""

    _counts: tuple[str, ...]  # the names of the attributes that count epochs
    _is_resumed = False

    def __init__(self, watched: tuple[str, str, float], patience: int, verbose: int) -> None:
        super().__init__()
        self._watch = Watch(*watched)
        self.patience, self.verbose = patience, verbose
        self.on_train_begin()

    def on_train_begin(self, logs: Any = None) -> None:
        if not self._is_resumed:
            self._watch = self._watch.renewed()
            vars(self).update(dict.fromkeys(self._counts, 0))
        self._is_resumed = False

    def state(self) -> dict[str, Any]:
        """Return the best value and the counts."""
        return {"best": self._watch.best, **{name: vars(self)[name] for name in self._counts}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state for the next training."""
        counts = {name: int(state[name]) for name in self._counts}
        self._watch.best = None if state["best"] is None else float(state["best"])
        vars(self).update(counts, _is_resumed=True)


class EarlyStopping(_Patient):
    """Stop training when a metric has not improved for `patience` epochs.

    A checkpoint can store its state, but not the best weights; use `ModelCheckpoint` for these.

    >>> EarlyStopping("loss", patience=3).patience
    3
    """

    _counts = ("wait", "stopped_epoch", "best_epoch")
    wait: int
    stopped_epoch: int
    best_epoch: int

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__((monitor, mode, min_delta), patience, verbose)
        self.baseline = baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        self.best_weights: Any = None

    @property
    def min_delta(self) -> float:
        """The least difference that is an improvement; negative if smaller values are better."""
        return self._watch.sign * self._watch.delta

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        value = self.get_monitor_value(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        self.wait += 1
        if self._watch.is_better(value):
            self.best_epoch = epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self._watch.reaches(value, self.baseline):
                self.wait = 0
        elif self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        if self.stopped_epoch and self.verbose:
            say(f"Epoch {self.stopped_epoch + 1}: early stopping")
        if self.best_weights is not None:
            self.model.set_weights(self.best_weights)


class ReduceLROnPlateau(_Patient):
    """Lower the learning rate when a metric has not improved for `patience` epochs.

    A checkpoint can store its state, so that a resumed training continues to wait.

    >>> ReduceLROnPlateau(factor=0.5).factor
    0.5
    """

    _counts = ("wait", "_cooling")
    wait: int
    _cooling: int

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        if factor >= 1.0:
            raise ArgumentError(f"factor must be below 1 to lower the rate. Got {factor}.")
        super().__init__((monitor, mode, min_delta), patience, verbose)
        self.factor, self.cooldown, self.min_lr = factor, cooldown, min_lr

    @property
    def cooldown_counter(self) -> int:
        """The epochs that remain before waiting begins again."""
        return self._cooling

    def in_cooldown(self) -> bool:
        """Whether the learning rate has just been lowered."""
        return self._cooling > 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        _note_rate(self.model, logs)
        value = self.get_monitor_value(logs)
        if value is None:
            return
        if self._cooling:
            self._cooling -= 1
            self.wait = 0
        if self._watch.is_better(value):
            self.wait = 0
        elif not self._cooling:
            self.wait += 1
            if self.wait >= self.patience:
                self._lower(epoch)

    def _lower(self, epoch: int) -> None:
        rate = float(self.model.optimizer.learning_rate)
        if rate > self.min_lr:
            self.model.optimizer.learning_rate = max(rate * self.factor, self.min_lr)
            if self.verbose:
                say(f"Epoch {epoch + 1}: learning rate {rate * self.factor:g}")
        self._cooling, self.wait = self.cooldown, 0


class LearningRateScheduler(Callback):
    """Set the learning rate to `schedule(epoch, rate)` at the beginning of each epoch.

    >>> LearningRateScheduler(lambda epoch, rate: rate * 0.9).verbose
    0
    """

    def __init__(self, schedule: Callable[..., Any], verbose: int = 0) -> None:
        super().__init__()
        if not callable(schedule):
            raise ArgumentTypeError(
                "LearningRateScheduler takes a function of the epoch and the rate. "
                f"Got {type(schedule).__name__}: {schedule!r}."
            )
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        rate = float(self.model.optimizer.learning_rate)
        try:
            new = self.schedule(epoch, rate)
        except TypeError:
            new = self.schedule(epoch)
        if new is None or isinstance(new, str):
            raise ArgumentTypeError(f"A schedule must return a number. Got {new!r}.")
        self.model.optimizer.learning_rate = float(new)
        if self.verbose:
            say(f"Epoch {epoch + 1}: learning rate {float(new):g}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        _note_rate(self.model, logs)


def _note_rate(model: Any, logs: Any) -> None:
    """Add the learning rate of an epoch to its logs, and thus to the history."""
    if logs is not None:
        logs["learning_rate"] = float(model.optimizer.learning_rate)


class TerminateOnNaN(Callback):
    """Stop training when the loss is infinite or NaN, and report the layer that causes it.

    The loss is read from the device every `every` batches. To find the layer, the callback keeps
    the weights from before the last two batches, and computes the batch again, layer by layer, if
    its loss is not finite. `locate=False` saves that memory. With `raise_error`, training ends with
    a RuntimeError.

    >>> from tapegrad.keras.layers import Dense
    >>> from tapegrad.keras.models import Sequential
    >>> model = Sequential([Dense(2)])
    >>> model.compile("sgd", "mse")
    >>> x, callback = np.full([4, 3], np.nan), TerminateOnNaN()
    >>> history = model.fit(x, np.ones([4, 2]), callbacks=[callback], verbose=0)
    Batch 0: the loss is nan, training stops. The cause is in the data: inputs of the batch are \
not finite.
    >>> callback.origin.place
    'input'
    """

    def __init__(self, every: int = 1, locate: bool = True, raise_error: bool = False) -> None:
        super().__init__()
        if every < 1:
            raise ArgumentError(f"every must be a number of batches of at least 1. Got {every!r}.")
        self.raise_error = raise_error
        self.every, self.locate = every, locate
        self.origin: Origin | None = None
        self._kept: deque[tuple[Kept, Any]] = deque(maxlen=2)
        self._before: Kept = []
        self._turn = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self.origin, self._turn = None, 0
        self._kept.clear()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.locate and self._turn % self.every in (0, self.every - 1):
            self._before = kept_of(self._variables())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.locate and self._before:
            self._kept.append((self._before, self.model._under_way))
            self._before = []
        loss = (logs or {}).get("loss")
        is_looked_at = self._turn % self.every == 0
        self._turn += 1
        if is_looked_at and loss is not None and not np.isfinite(float(loss)):
            self.model.stop_training = True
            self.origin = self._found()
            more = "" if self.origin is None else f" {self.origin.sentence}"
            said = f"Batch {batch}: the loss is {float(loss)}, training stops.{more}"
            if self.raise_error:
                raise RuntimeError(said)
            say(said)

    def on_train_end(self, logs: Any = None) -> None:
        self._kept.clear()

    def _variables(self) -> list[Any]:
        """Return the variables to restore: the weights, and those of an optimizer that steps."""
        return [*self.model.variables, *self._of_optimizer()]

    def _of_optimizer(self) -> list[Any]:
        makes_steps = self._has_own_step() or self.model.steps_per_execution > 1
        return list(self.model.optimizer.variables) if makes_steps else []

    def _has_own_step(self) -> bool:
        kind = type(self.model)
        return kind.train_step is not kind.usual_train_step

    def _found(self) -> Origin | None:
        """Compute the last batches again from the weights before them."""
        model = self.model
        for kept, batches in self._kept:
            metrics = [variable for metric in model.metrics for variable in metric.variables]
            others = [*metrics, *self._of_optimizer()]
            # Overflow is expected here, so NumPy warnings are off.
            with np.errstate(all="ignore"), set_back(kept, others):
                origin = self._first_origin(batches)
            if origin is not None:
                return origin
        return None

    def _first_origin(self, batches: Any) -> Origin | None:
        for place, batch in enumerate(batches):
            origin = find_origin(self.model, batch, self._has_own_step())
            if origin is not None:
                return origin
            if place < len(batches) - 1 and not self._has_own_step():
                self.model.train_step(batch)
        return None
