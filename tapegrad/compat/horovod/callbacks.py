"""Horovod's callbacks for `Model.fit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.compat.horovod.exchange import broadcast_variables
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.world import current_world
from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.ops.collective.functions import all_reduce

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(Callback):
    """Give the model and the optimizer the values of one process, after the first batch.

    >>> BroadcastGlobalVariablesCallback(0).root_rank
    0
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self._is_done = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Exchange the variables once."""
        if not self._is_done:
            broadcast_variables(self.model.variables, self.root_rank)
            broadcast_variables(self.model.optimizer.variables, self.root_rank)
            self._is_done = True


class MetricAverageCallback(Callback):
    """Average the metrics of an epoch over all processes; callbacks behind it see the means.

    >>> logs = {"loss": 1.0}
    >>> MetricAverageCallback().on_epoch_end(0, logs)
    >>> logs
    {'loss': 1.0}
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Replace the metrics by their means."""
        if current_world().size > 1:
            for name in sorted(logs or {}):
                logs[name] = float(all_reduce(float(logs[name]), "mean"))


class LearningRateScheduleCallback(Callback):
    """Multiply the learning rate in the epochs from `start_epoch` to before `end_epoch`.

    `multiplier` is a number, or a function of the epoch. With `staircase`, the function is called
    with whole epochs; otherwise before each batch, with a fraction.

    >>> LearningRateScheduleCallback(0.1, multiplier=0.5).rate_at(0)
    0.05
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.multiplier = multiplier
        self.staircase = staircase or not callable(multiplier)
        self.steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def rate_at(self, epoch: float) -> float | None:
        """Return the learning rate at an epoch, None outside of the epochs of this schedule."""
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return None
        factor = self.multiplier(epoch) if callable(self.multiplier) else self.multiplier
        return self.initial_lr * factor

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Set the learning rate of the epoch."""
        self._epoch = epoch
        if self.staircase:
            self._set(epoch)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Set the learning rate of the batch."""
        if not self.staircase:
            steps = self.steps_per_epoch or self.params.get("steps")
            if not steps:
                raise ArgumentError(
                    "The number of batches is not known: give steps_per_epoch to the callback."
                )
            self._set(self._epoch + batch / steps)

    def _set(self, epoch: float) -> None:
        rate = self.rate_at(epoch)
        if rate is not None:
            self.model.optimizer.learning_rate = rate


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raise the learning rate from `initial_lr / size()` to `initial_lr` in the first epochs.

    >>> LearningRateWarmupCallback(0.1, warmup_epochs=5).rate_at(2.0)  # of one process
    0.1
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            size = current_world().size
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch
        )


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("compat.horovod.callbacks", name)


_check_calls(globals(), __all__)
