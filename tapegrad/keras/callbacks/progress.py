"""ProgbarLogger: the progress output of `fit` and `evaluate`."""

from __future__ import annotations

import sys
import time
from typing import Any

from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.logs import fetched, say, shown

_INTERVAL = 0.2
"""Seconds between two updates of the progress bar."""

_WIDTH = 24


class ProgbarLogger(Callback):
    """Print a progress bar on a terminal, and a line per epoch elsewhere.

    The bar shows the metrics of its previous update. These are already computed, so that training
    does not wait for the device.
    """

    def __init__(self, is_live: bool | None = None) -> None:
        super().__init__()
        self._is_live = sys.stdout.isatty() if is_live is None else is_live
        self._start = self._last = 0.0
        self._earlier: dict[str, Any] = {}
        self._steps = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        say(f"Epoch {epoch + 1}/{self.params['epochs']}")
        self._begin()

    def on_test_begin(self, logs: Any = None) -> None:
        if self.params.get("is_test"):
            self._begin()

    def _begin(self) -> None:
        self._start, self._last, self._steps, self._earlier = time.perf_counter(), 0.0, 0, {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._update(batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.params.get("is_test"):
            self._update(batch, logs)

    def _update(self, batch: int, logs: Any) -> None:
        self._steps = batch + 1
        now = time.perf_counter()
        if self._is_live and now - self._last > _INTERVAL:
            self._last = now
            self._write(fetched(self._earlier), "\r")
            self._earlier = dict(logs or {})

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._write(logs or {}, "\n")

    def on_test_end(self, logs: Any = None) -> None:
        if self.params.get("is_test"):
            self._write(logs or {}, "\n")

    def _write(self, logs: dict[str, Any], end: str) -> None:
        total = self.params.get("steps")
        seconds = time.perf_counter() - self._start
        parts = [f"{self._steps}/{total}" if total else f"{self._steps}"]
        if self._is_live and total:
            done = min(_WIDTH, _WIDTH * self._steps // total)
            parts.append("[" + "=" * done + "." * (_WIDTH - done) + "]")
        each = seconds / max(1, self._steps)
        parts.append(f"{seconds:.0f}s {_pace(each)}/step")
        parts += [f"{name}: {shown(value)}" for name, value in logs.items()]
        start = "\r" if self._is_live else ""
        say(start + " - ".join(parts), end if end == "\n" else "")


def _pace(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us"
