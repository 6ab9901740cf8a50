"""BackupAndRestore: resume an interrupted training."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tapegrad.core.files.atomic import sweep
from tapegrad.errors import ArgumentError
from tapegrad.keras.batch_data import pack
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.checkpoints import check_save_freq
from tapegrad.keras.callbacks.logs import fetched
from tapegrad.keras.saving.checkpoint import Checkpoint
from tapegrad.keras.saving.weights import shortened


class BackupAndRestore(Callback):
    """Resume an interrupted `fit` when the same program is started again.

    After each epoch, or every `save_freq` batches, it writes a file with the model, the optimizer,
    the metrics, the random state and the position in the data. The final weights are bit for bit
    those of an uninterrupted training. Data other than arrays and `tapegrad.data.Dataset` is read
    again up to the saved position, and must come in the same order.

    Make it the last callback, so that it saves the changes that others make at the end of an epoch.
    The state of other callbacks is not saved, such as the patience of `EarlyStopping` or the
    earlier epochs of `History`.

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
        self,
        backup_dir: Any,
        save_freq: Any = "epoch",
        double_checkpoint: bool = False,  # needs no second file: a file is replaced as a whole
        delete_checkpoint: bool = True,
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
                "BackupAndRestore needs a model that is built before fit: give it an Input, or "
                "call it on a batch."
            )
        self._unsaved, self._lacks_metrics = 0, False
        sweep(self.backup_dir)  # a process may have been killed during a write
        if os.path.exists(self._path):
            self._restore()

    def _restore(self) -> None:
        position = self.model._place_in_fit
        status = self._checkpoint(position=position).read(self._path)
        names = [*status.missing, *status.unused]
        foreign = [name for name in names if not name.startswith("metrics/")]
        if foreign:
            raise ArgumentError(
                f"The backup {self._path!r} belongs to another model or optimizer: they differ in "
                f"{shortened(foreign)}. Delete it to start from the beginning."
            )
        self._lacks_metrics = bool(position.done and status.unused)

    def _checkpoint(self, **more: Any) -> Checkpoint:
        metrics = {metric.name: metric for metric in self.model.metrics}
        return Checkpoint(metrics=metrics, model=self.model, **more)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._lacks_metrics:  # some metrics are created by the first batch
            with suppress(NotImplementedError):  # a model that has only a train_step
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
            with suppress(OSError):  # the folder holds other files
                self.backup_dir.rmdir()
