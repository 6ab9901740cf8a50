"""ModelCheckpoint: save the weights or the model during training."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.logs import say
from tapegrad.keras.callbacks.monitored import Monitored, Watch


class ModelCheckpoint(Monitored):
    """Save the weights at the end of each epoch, or every `save_freq` batches.

    If the path ends in ".keras", it saves the whole model, unless `save_weights_only=True`. The
    path may contain `{epoch}` and the names of metrics, such as "{epoch:02d}-{loss:.3f}".

    >>> ModelCheckpoint("best.weights.safetensors", save_best_only=True).save_best_only
    True
    """

    def __init__(
        self,
        filepath: Any,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool | None = None,
        mode: str = "auto",
        save_freq: Any = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__()
        is_model = str(filepath).endswith(".keras")
        if save_weights_only is False and not is_model:
            raise ArgumentError(
                "The path of a whole model must end in '.keras'. "
                f"Got {str(filepath)!r}; use save_weights_only=True to save the weights there."
            )
        self.save_weights_only = not is_model if save_weights_only is None else save_weights_only
        check_save_freq(save_freq)
        self.filepath, self.verbose, self.save_best_only = str(filepath), verbose, save_best_only
        self.save_freq = save_freq
        self._watch = Watch(monitor, mode)
        self._watch.best = initial_value_threshold
        self._epoch = self._batches = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches += 1
        if self.save_freq != "epoch" and self._batches % self.save_freq == 0:
            self._save(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.save_freq == "epoch":
            self._save(logs)

    def _save(self, logs: Any) -> None:
        if self.save_best_only:
            value = self.get_monitor_value(logs)
            if value is None or not self._watch.is_better(value):
                return
        path = self._path(logs or {})
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)
        if self.verbose:
            what = "weights" if self.save_weights_only else "model"
            say(f"Epoch {self._epoch + 1}: {what} saved to {path}")

    def _path(self, logs: dict[str, Any]) -> str:
        numbers = {name: float(value) for name, value in logs.items() if "{" in self.filepath}
        try:
            return self.filepath.format(epoch=self._epoch + 1, batch=self._batches, **numbers)
        except KeyError as error:
            names = ", ".join(["epoch", "batch", *logs])
            raise ArgumentError(
                f"The path {self.filepath!r} names {error}, which is not among: {names}."
            ) from error


def check_save_freq(save_freq: Any) -> None:
    """Raise an error if `save_freq` is not valid."""
    if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
        raise ArgumentError(f"save_freq must be 'epoch' or a number of batches. Got {save_freq!r}.")
