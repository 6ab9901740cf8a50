"""LambdaCallback and CSVLogger."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.callback import Callback


class LambdaCallback(Callback):
    """Call functions that are given under the names of callback methods.

    >>> seen = []
    >>> callback = LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    >>> callback.on_epoch_end(3, {})
    >>> seen
    [3]
    """

    def __init__(self, **functions: Callable[..., Any] | None) -> None:
        super().__init__()
        for name, function in functions.items():
            if not name.startswith("on_") or not hasattr(Callback, name):
                known = ", ".join(sorted(n for n in dir(Callback) if n.startswith("on_")))
                raise ArgumentError(f"Callback has no method {name!r}. Its methods are: {known}.")
            if function is not None:
                setattr(self, name, function)


class CSVLogger(Callback):
    """Write the metrics of each epoch as a line of a CSV file.

    >>> CSVLogger("history.csv").separator
    ','
    """

    def __init__(self, filename: Any, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.path, self.separator, self.append = Path(filename), separator, append
        self._file: Any = None
        self._names: list[str] | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        old = self.path.exists() and self.path.stat().st_size > 0
        self._names = None
        if self.append and old:
            with self.path.open(newline="") as file:
                self._names = next(csv.reader(file, delimiter=self.separator))[1:]
        self._file = self.path.open("a" if self.append else "w", newline="")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        writer = csv.writer(self._file, delimiter=self.separator)
        if self._names is None:
            self._names = sorted(logs or {})
            writer.writerow(["epoch", *self._names])
        writer.writerow([epoch, *[(logs or {}).get(name, "NA") for name in self._names]])
        self._file.flush()

    def on_train_end(self, logs: Any = None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
