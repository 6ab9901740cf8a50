"""Callback: the base class of callbacks."""

from __future__ import annotations

from typing import Any


class Callback:
    """Base class of callbacks; `logs` holds the metrics by name.

    `self.model` is the model, and `self.params` holds the numbers of epochs and steps. The logs of
    batches are tensors on the device, so that only callbacks that read them wait for the device.

    >>> class Count(Callback):
    ...     batches = 0
    ...     def on_train_batch_end(self, batch, logs=None):
    ...         self.batches += 1
    """

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self.model: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for when in ("begin", "end"):
            older, name = f"on_batch_{when}", f"on_train_batch_{when}"
            if older in vars(cls) and name not in vars(cls):
                setattr(cls, name, getattr(cls, older))

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Run before the first epoch."""

    def on_train_end(self, logs: Any = None) -> None:
        """Run after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Run before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Run after an epoch, with its metrics and those of the validation."""

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Older name of `on_train_batch_begin`; a class that defines only this one is called."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Older name of `on_train_batch_end`; a class that defines only this one is called."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Run before a training batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Run after a training batch."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Run before an evaluation."""

    def on_test_end(self, logs: Any = None) -> None:
        """Run after an evaluation."""

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Run before a batch of an evaluation."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Run after a batch of an evaluation."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Run before a prediction."""

    def on_predict_end(self, logs: Any = None) -> None:
        """Run after a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Run before a batch of a prediction."""

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """Run after a batch of a prediction."""
