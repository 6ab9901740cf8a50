"""TensorBoard: write metrics, weights and the graph of a model to event files."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.event_files import EventFile
from tapegrad.keras.callbacks.logs import fetched
from tapegrad.keras.callbacks.projector import projector_settings
from tapegrad.keras.callbacks.summaries import graph, histogram, image, scalar
from tapegrad.keras.utils.model_graph import boxes_of, can_be_drawn


class _Batch(NamedTuple):
    """The metrics of a batch, which may not be computed yet."""

    step: int
    wall_time: float
    logs: dict[str, Any]


class TensorBoard(Callback):
    """Write metrics to event files, which `tensorboard --logdir logs` shows.

    Training files are in `log_dir/train`, validation files in `log_dir/validation`. TensorBoard
    need not be installed to write them.

    Args:
        histogram_freq: the number of epochs between two histograms of all weights; 0 for none.
        write_graph: write the graph of layers of a Sequential or functional model once. Models
            that override `call` have no graph.
        write_images: write images of the weights with the histograms, black for the minimum and
            white for the maximum, for weights with at most three axes longer than one.
        write_steps_per_second: write the number of steps per second of each epoch and, if
            `update_freq` selects batches, of batches.
        update_freq: "epoch", "batch", or the number of batches between two writes. Metrics are
            read one write later, so that training does not wait for them.
        profile_batch: accepted with a warning; no profile is written.
        embeddings_freq: the number of epochs between two files of weights for the projector of
            embeddings; 0 for none. They are files of Keras, which need h5py.
        embeddings_metadata: the path of a file with a label for each row of the embeddings, or a
            dict from names of layers to such paths.

    >>> TensorBoard("runs/1", update_freq=100).log_dir
    'runs/1'
    """

    def __init__(
        self,
        log_dir: Any = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: Any = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
    ) -> None:
        super().__init__()
        if profile_batch:
            warnings.warn(
                f"TensorBoard writes no profile for profile_batch={profile_batch!r}. Use a "
                "profiler such as nsys.",
                stacklevel=2,
            )
        for name, count in [
            ("histogram_freq", histogram_freq),
            ("embeddings_freq", embeddings_freq),
        ]:
            if not _is_count(count, 0):
                raise ArgumentError(
                    f"{name} must be a number of epochs, or 0 for never. Got {count!r}."
                )
        if update_freq not in ("epoch", "batch") and not _is_count(update_freq, 1):
            raise ArgumentError(
                f"update_freq must be 'epoch', 'batch' or a number of batches. Got {update_freq!r}."
            )
        self.log_dir = str(log_dir)
        self.histogram_freq, self.embeddings_freq = histogram_freq, embeddings_freq
        self.embeddings_metadata = embeddings_metadata
        self.write_graph, self.write_images = write_graph, write_images
        self.write_steps_per_second = write_steps_per_second
        self.update_freq: Any = 1 if update_freq == "batch" else update_freq
        self._files: dict[str, EventFile] = {}
        self._pending: list[_Batch] = []
        self._batches = 0
        self._epoch_batches = 0
        self._epoch_start = self._batch_start = 0.0
        self._has_graph = False

    def _file(self, part: str) -> EventFile:
        """Return the file of "train" or "validation", which is created on first use."""
        if part not in self._files:
            self._files[part] = EventFile(Path(self.log_dir) / part)
        return self._files[part]

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    # Training

    def on_train_begin(self, logs: Any = None) -> None:
        self._close()  # files of an interrupted training
        self._pending.clear()
        self._batches = self._epoch_batches = 0
        self._has_graph = not self.write_graph
        if self.embeddings_freq:
            self._write_projector_settings()

    def on_train_end(self, logs: Any = None) -> None:
        self._write_pending()
        self._close()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_batches, self._epoch_start = self._batches, time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._write_pending()
        self._write_epoch(epoch, logs or {})
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._write_weights(epoch)
        if self.embeddings_freq and epoch % self.embeddings_freq == 0:
            name = f"keras_embedding.ckpt-{epoch}.weights.h5"
            self.model.save_weights(Path(self.log_dir) / "train" / name)
        for file in self._files.values():
            file.flush()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._batch_start = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # Use the batch number: one execution may run several steps.
        before, self._batches = self._batches, self._epoch_batches + batch + 1
        if not self._has_graph:
            self._has_graph = True
            self._write_graph()
        freq = self.update_freq
        if freq == "epoch" or self._batches // freq == before // freq:
            return
        self._write_pending()
        values = {f"batch_{name}": value for name, value in (logs or {}).items()}
        if self.write_steps_per_second:
            seconds = max(time.perf_counter() - self._batch_start, 1e-9)
            values["batch_steps_per_second"] = (self._batches - before) / seconds
        self._pending.append(_Batch(self._batches, time.time(), values))

    # Evaluation

    def on_test_end(self, logs: Any = None) -> None:
        steps = getattr(getattr(self.model, "optimizer", None), "iterations", None)
        if steps is not None:
            for name, value in fetched(logs or {}).items():
                self._write_scalar("validation", f"evaluation_{name}_vs_iterations", value, steps)
        if self.params.get("is_test"):  # on_train_end will not follow a separate evaluation
            self._close()

    # What is written

    def _write_scalar(
        self, part: str, tag: str, value: Any, step: Any, wall_time: float | None = None
    ) -> None:
        if getattr(value, "ndim", 0) == 0:  # only scalar metrics are written
            self._file(part).add_summary(scalar(tag, float(value)), int(step), wall_time)

    def _write_pending(self) -> None:
        for step, wall_time, logs in self._pending:
            for tag, value in fetched(logs).items():
                self._write_scalar("train", tag, value, step, wall_time)
        self._pending.clear()

    def _write_epoch(self, epoch: int, logs: dict[str, Any]) -> None:
        training = {name: value for name, value in logs.items() if not name.startswith("val_")}
        rate = getattr(getattr(self.model, "optimizer", None), "learning_rate", None)
        if rate is not None:
            training["learning_rate"] = rate
        if self.write_steps_per_second:
            seconds = max(time.perf_counter() - self._epoch_start, 1e-9)
            training["steps_per_second"] = (self._batches - self._epoch_batches) / seconds
        for name, value in fetched(training).items():
            self._write_scalar("train", f"epoch_{name}", value, epoch)
        for name, value in fetched(logs).items():
            if name.startswith("val_"):
                tag = f"epoch_{name.removeprefix('val_')}"
                self._write_scalar("validation", tag, value, epoch)

    def _write_weights(self, epoch: int) -> None:
        file = self._file("train")
        for name, variable in self.model.named_variables().items():
            value = variable.numpy()
            file.add_summary(histogram(f"{name}/histogram", value), epoch)
            picture = image(f"{name}/image", value) if self.write_images else None
            if picture is not None:
                file.add_summary(picture, epoch)

    def _write_projector_settings(self) -> None:
        settings = projector_settings(self.model, self.embeddings_metadata)
        folder = Path(self.log_dir) / "train"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "projector_config.pbtxt").write_text(settings, encoding="utf-8")

    def _write_graph(self) -> None:
        if can_be_drawn(self.model):
            self._file("train").add_graph(graph(boxes_of(self.model, expand_nested=True)))


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
