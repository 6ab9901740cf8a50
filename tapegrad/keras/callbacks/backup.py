"""BackupAndRestore: a training that was interrupted goes on where it was."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.batch_data import pack
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.checkpoints import check_save_freq
from tapegrad.keras.callbacks.logs import fetched
from tapegrad.keras.saving.atomic import TEMPORARY
from tapegrad.keras.saving.checkpoint import Checkpoint
from tapegrad.keras.saving.weights import shortened


class BackupAndRestore(Callback):
    """Lets `fit` go on where it was interrupted when the same program is started again.

    After each epoch, or every `save_freq` batches, it replaces a file with model, optimizer,
    metrics, the random state and the place in the data. So the weights at the end are bit for bit
    those of a training that was not interrupted. Data other than arrays and a
    `tapegrad.data.Dataset` is read again up to its place, and must come in the same order.

    Make it the last callback, to save what others change at the end of an epoch. What they keep for
    themselves is not saved, as the patience of `EarlyStopping` or the earlier epochs of `History`.

    >>> import tempfile
    >>> from tapegrad.keras import Input, Sequential, layers
    >>> model = Sequential([Input((1,)), layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     backup = BackupAndRestore(f"{folder}/backup", delete_checkpoint=False)
    ...     for epochs in (2, 3):
    ...         model.fit([[1.0]], [[2.0]], epochs=epochs, verbose=0, callbacks=[backup]).epoch
    [0, 1]
    [2]
    """

    def __init__(
        self, backup_dir: Any, save_freq: Any = "epoch", delete_checkpoint: bool = True
    ) -> None:
        super().__init__()
        check_save_freq(save_freq)
        self.backup_dir, self.save_freq = Path(backup_dir), save_freq
        self.delete_checkpoint = delete_checkpoint
        self._path = os.path.join(backup_dir, "backup.safetensors")
        self._unsaved, self._lacks_metrics = 0, False

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.model.built:
            raise ArgumentError(
                "BackupAndRestore needs a model whose weights are made before fit: give it an "
                "Input, or call it on a batch."
            )
        self._unsaved, self._lacks_metrics = 0, False
        for left in self.backup_dir.glob(f".backup.*{TEMPORARY}"):
            left.unlink(missing_ok=True)  # by a process that was killed as it wrote
        if os.path.exists(self._path):
            self._restore()

    def _restore(self) -> None:
        position = self.model._place_in_fit
        status = self._checkpoint(position=position).read(self._path)
        names = [*status.missing, *status.unused]
        foreign = [name for name in names if not name.startswith("metrics/")]
        if foreign:
            raise ArgumentError(
                f"The backup {self._path!r} is of another model or optimizer: they differ in "
                f"{shortened(foreign)}. Delete it to begin anew."
            )
        self._lacks_metrics = bool(position.done and status.unused)

    def _checkpoint(self, **more: Any) -> Checkpoint:
        metrics = {metric.name: metric for metric in self.model.metrics}
        return Checkpoint(metrics=metrics, model=self.model, **more)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._lacks_metrics:  # some are made by a batch
            with suppress(NotImplementedError):  # of models that have only a train_step
                self.model.test_step(pack(*self.model._under_way[0]))
            self._checkpoint().read(self._path)
            self._lacks_metrics = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._unsaved += len(self.model._under_way)
        if self.save_freq != "epoch" and self._unsaved >= self.save_freq:
            self._save(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._lacks_metrics = False
        if self.save_freq == "epoch":
            self._save({})

    def _save(self, logs: Any) -> None:
        position = self.model._place_in_fit
        position.logs = fetched(logs)
        self._checkpoint(position=position).write(self._path)
        self._unsaved = 0

    def on_train_end(self, logs: Any = None) -> None:
        if self.delete_checkpoint:
            Path(self._path).unlink(missing_ok=True)
            with suppress(OSError):  # something else is in it
                self.backup_dir.rmdir()
