"""History: the metrics of all epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.callbacks.callback import Callback


class History(Callback):
    """Record the metrics of each epoch; `fit` returns a History.

    >>> history = History()
    >>> history.on_train_begin()
    >>> history.on_epoch_end(0, {"loss": 2.0})
    >>> history.on_epoch_end(1, {"loss": 1.0})
    >>> history.history, history.epoch
    ({'loss': [2.0, 1.0]}, [0, 1])
    """

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[Any]] = {}
        self.epoch: list[int] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.epoch = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        if not isinstance(logs, Mapping):
            raise ArgumentTypeError(f"logs must be a dict. Got {type(logs).__name__}.")
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)
        if self.model is not None:
            self.model.history = self
