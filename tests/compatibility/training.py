"""Files of training runs: checkpoints, backups, the files of callbacks, and weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import Input, Sequential, callbacks, layers
from tests.compatibility.cases import Case, Outcome, fingerprint

_rng = np.random.default_rng(2)
X = _rng.normal(size=(20, 3)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")
SIZE, EPOCHS = 4, 3


class StopTrainingError(Exception):
    """Ends a training run as a crash would."""


class StopAfter(callbacks.Callback):
    """Raises after a number of batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self._left = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if self._left == 0:
            raise StopTrainingError


def _model() -> Any:
    model = Sequential(
        [
            Input((3,)),
            layers.Dense(3, activation="tanh"),
            layers.Dropout(0.3),
            layers.BatchNormalization(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.05)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    return model


def _weights(model: Any) -> list[Any]:
    return [value.numpy() for value in model.weights]


# BackupAndRestore


def _arrays() -> dict[str, Any]:
    return {"x": X, "y": Y, "batch_size": SIZE}


def _dataset() -> dict[str, Any]:
    pairs = tf.data.Dataset.from_tensor_slices((X, Y))
    return {"x": pairs.shuffle(8, seed=3).batch(SIZE).prefetch(2)}


def _backup_case(given: Callable[[], dict[str, Any]], save_freq: Any) -> Case:
    def train(*others: Any) -> Outcome:
        """Train as a program does that is started once more: its first lines are the same."""
        tf.random.set_seed(7)
        data, model = given(), _model()
        history = model.fit(**data, epochs=EPOCHS, verbose=0, callbacks=[*others])
        stored = {"epochs": history.epoch, "steps": int(model.optimizer.iterations)}
        last = {name: values[-1] for name, values in history.history.items()}
        return Outcome(stored, {"weights": _weights(model), "metrics": last})

    def write(folder: Path) -> Outcome:
        backup = callbacks.BackupAndRestore(folder, save_freq)
        try:
            train(StopAfter(8), backup)
        except StopTrainingError:
            whole = train()
            whole.stored["epochs"] = [1, 2]  # which the continued run has left to do
            return whole
        raise AssertionError("The training run ended before it was interrupted.")

    def read(folder: Path) -> Outcome:
        return train(callbacks.BackupAndRestore(folder, save_freq))

    return Case(write, read)


# ModelCheckpoint and CSVLogger


def _write_callbacks(folder: Path) -> Outcome:
    tf.random.set_seed(8)
    model = _model()
    weights = str(folder / "epoch-{epoch}.weights.safetensors")
    files = [
        callbacks.ModelCheckpoint(weights),
        callbacks.ModelCheckpoint(folder / "best.keras", monitor="loss", save_best_only=True),
        callbacks.CSVLogger(folder / "history.csv"),
    ]
    model.fit(X, Y, batch_size=10, epochs=2, verbose=0, callbacks=files, shuffle=False)
    (folder / "epoch-1.weights.safetensors").unlink()  # one of them is enough
    table = (folder / "history.csv").read_text()
    return _observe_callbacks(model, model, table)


def _read_callbacks(folder: Path) -> Outcome:
    best = keras.models.load_model(folder / "best.keras")
    model = _model()
    model.load_weights(folder / "epoch-2.weights.safetensors")
    log = callbacks.CSVLogger(folder / "history.csv", append=True)
    table = (folder / "history.csv").read_text()
    outcome = _observe_callbacks(model, best, table)
    best.fit(X, Y, epochs=3, initial_epoch=2, verbose=0, callbacks=[log])
    lines = (folder / "history.csv").read_text().splitlines()
    assert lines[:3] == table.splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1", "2"]
    assert len(lines[3].split(",")) == len(lines[0].split(","))
    return outcome


def _observe_callbacks(model: Any, best: Any, table: str) -> Outcome:
    stored = {
        "weights": _weights(model),
        "best": _weights(best),
        "optimizer": fingerprint(best.optimizer.variables),
        "columns": table.splitlines()[0],
        "lines": len(table.splitlines()),
    }
    return Outcome(stored, {"predictions": best.predict(X, verbose=0)})


# Checkpoints of programs with a training loop


class Line(tf.Module):
    """A module with variables in an attribute, a list and a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([1.0, -2.0], name="w")
        self.more = [tf.Variable(0.5), {"inner": tf.Variable([[3.0]], dtype="float64")}]
        self._count = tf.Variable(0, trainable=False)

    def __call__(self, x: Any) -> Any:
        self._count.assign_add(1)
        return tf.reduce_sum(self.w * x) + self.more[0] ** 2


class Program:
    """A training loop with everything that a checkpoint can hold."""

    def __init__(self) -> None:
        tf.random.set_seed(4)
        self.line = Line()
        self.optimizer = tf.optimizers.SGD(0.1, momentum=0.5, use_ema=True)
        self.numbers = tf.data.Dataset.range(12).shuffle(12, seed=3).repeat(2).batch(4)
        self.early = callbacks.EarlyStopping("loss", patience=5)
        self.plateau = callbacks.ReduceLROnPlateau("loss", patience=5)
        self.checkpoint = tf.train.Checkpoint(
            line=self.line,
            optimizer=self.optimizer,
            position=self.numbers.iterator(),
            noise=tf.random.Generator.from_seed(5),
            seeds=keras.random.SeedGenerator(6),
            callbacks=[self.early, self.plateau],
            epoch=0,
            notes={"losses": [0.0], "label": "first/run", "done": False, "best": None},
        )

    def step(self) -> None:
        batch = tf.cast(next(self.checkpoint.position), "float32")
        noise = self.checkpoint.noise.uniform([2]) + tf.random.uniform([2])
        noise += keras.random.uniform((2,), seed=self.checkpoint.seeds)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.line(noise) * batch) * 0.001
        variables = [self.line.w, self.line.more[0]]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.checkpoint.epoch += 1
        notes = self.checkpoint.notes
        notes.update(label=f"step {self.checkpoint.epoch}", losses=[float(loss)], done=True)

    def observe(self) -> Outcome:
        variables = [*self.line.variables, *self.optimizer.variables]
        notes = self.checkpoint.notes
        stored = {
            "variables": [v.numpy() for v in variables],
            "epoch": self.checkpoint.epoch,
            "notes": {key: notes[key] for key in ("label", "done", "best", "losses")},
            "saves": int(self.checkpoint.save_counter),
            "callbacks": [self.early.state(), self.plateau.state()],
            "next": next(self.checkpoint.position).numpy(),
            "draws": self.checkpoint.noise.uniform_full_int([2]).numpy(),
            "seeds": self.checkpoint.seeds.next().numpy(),
            "global draws": tf.random.uniform([2], maxval=1000, dtype="int32").numpy(),
        }
        self.step()
        return Outcome(stored, {"variables": [*self.line.variables, *self.optimizer.variables]})


def _write_program(folder: Path) -> Outcome:
    program = Program()
    manager = tf.train.CheckpointManager(program.checkpoint, folder, max_to_keep=2)
    for loss in (3.0, 2.0, 2.5):
        program.step()
        program.early.set_model(_model())
        program.early.on_epoch_end(program.checkpoint.epoch, {"loss": loss})
        manager.save()
    return program.observe()


def _read_program(folder: Path) -> Outcome:
    names = [Path(path).name for path in _manager(folder).checkpoints]
    assert names == ["ckpt-2", "ckpt-3"]
    program = Program()
    path = tf.train.latest_checkpoint(folder)
    assert path is not None
    program.checkpoint.restore(path).assert_consumed()
    return program.observe()


def _manager(folder: Path) -> Any:
    return tf.train.CheckpointManager(tf.train.Checkpoint(), folder, max_to_keep=2)


CASES = {
    "backup-arrays": _backup_case(_arrays, 3),
    "backup-dataset": _backup_case(_dataset, "epoch"),
    "callbacks": Case(_write_callbacks, _read_callbacks),
    "checkpoints": Case(_write_program, _read_program),
}
