"""The callback that notes the losses and metrics of `fit` for a report."""

from __future__ import annotations

from typing import Any

from tapegrad.core.call_site import call_site
from tapegrad.core.event_log import LOGS
from tapegrad.keras.callbacks.callback import Callback


class ReportedLosses(Callback):
    """Keeps the loss of each batch and the metrics of each epoch, for the report that is made."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if LOGS and logs and "loss" in logs:
            LOGS[-1].add_value("fit: loss", call_site(), getattr(logs["loss"], "array", None))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if LOGS:
            for name, value in (logs or {}).items():
                LOGS[-1].add_value(f"fit, by epoch: {name}", call_site(), value)
