"""History: the metrics of all epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tapegrad.core import html
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.callbacks.callback import Callback

_MOST_EPOCHS = 20
"""How many epochs a notebook displays."""


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

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {_short(values[-1])}" for name, values in self.history.items())
        return f"<History of {len(self.epoch)} epochs{': ' if last else ''}{last}>"

    def _repr_html_(self) -> str:
        """Return a table of the metrics of the last epochs, which notebooks display."""
        shown = len(self.epoch[-_MOST_EPOCHS:])
        values = [column[-shown:] for column in self.history.values()]
        rows = [
            (epoch + 1, *map(_short, row))
            for epoch, *row in zip(self.epoch[-shown:], *values, strict=False)
        ]
        return html.table(rows, ["epoch", *self.history])

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


def _short(value: Any) -> str:
    """Return a metric with four digits; a metric may also have several values."""
    return f"{value:.4g}" if isinstance(value, int | float | np.generic) else str(value)
