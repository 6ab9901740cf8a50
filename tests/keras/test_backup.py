"""BackupAndRestore: interrupted trainings, also by SIGKILL, end with the same weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError
from tapegrad.keras import Model, layers
from tapegrad.keras.callbacks import BackupAndRestore, Callback
from tests.seeds import LONG, SEED

X = np.random.default_rng(0).normal(size=(50, 4)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")
SIZE, EPOCHS = 8, 3  # seven batches an epoch, the last of them smaller


class StopHereError(Exception):
    """What ends a training in these tests."""


class Interrupt(Callback):
    """Raises after so many executions."""

    def __init__(self, after: int | None) -> None:
        super().__init__()
        self._left = after

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                raise StopHereError


class Sliced(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> Any:
        rows = slice(index * SIZE, index * SIZE + SIZE)
        return X[rows], Y[rows]


class Again:
    """Batches that can be gone through again, and know nothing else."""

    def __iter__(self) -> Any:
        return iter([Sliced()[index] for index in range(len(Sliced()))])


DATA: dict[str, Any] = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": SIZE},
    "dataset": lambda: {
        "x": tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(20).batch(SIZE).prefetch(2)
    },
    "batches by number": lambda: {"x": Sliced()},
    "batches": lambda: {"x": Again()},
}


def make_model(units: int = 6, executed: int = 1, **options: Any) -> Any:
    layers = [
        keras.layers.Dense(units, activation="tanh"),
        keras.layers.Dropout(0.3),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    optimizer = keras.optimizers.Adam(0.05, **options)
    steps = {"steps_per_execution": executed}
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"], **steps)
    return model


def train(
    data: str,
    backup: Callback | None = None,
    stop: int | None = None,
    executed: int = 1,
    ema: bool = False,
    **options: Any,
) -> Any:
    """The weights and the last epoch's metrics, as a program that was started anew finds them."""
    tf.random.set_seed(7)
    given = DATA[data]()
    model = make_model(executed=executed, use_ema=ema)
    callbacks = [Interrupt(stop), *([] if backup is None else [backup])]
    try:
        history = model.fit(
            **given, epochs=EPOCHS, verbose=0, callbacks=callbacks, **options
        ).history
    except StopHereError:
        return None
    return [w.tobytes() for w in model.get_weights()], {k: v[-1] for k, v in history.items()}


# Each day another half of the cases: each records a dozen programs.
def of_the_day(cases: Iterable[Any]) -> list[Any]:
    return [*cases] if LONG else [*cases][SEED % 2 :: 2]


@pytest.mark.parametrize(("data", "save_freq"), of_the_day(product(DATA, ["epoch", 1, 3])))
def test_an_interrupted_training_ends_bit_for_bit(
    data: str, save_freq: Any, tmp_path: Path
) -> None:
    expected = train(data)
    folder = tmp_path / "backup"

    for stop in (9, 8):  # in the second epoch, and where it goes on from there
        assert train(data, BackupAndRestore(folder, save_freq), stop) is None
    found = train(data, BackupAndRestore(folder, save_freq))

    assert found == expected
    assert not folder.exists()


@pytest.mark.parametrize(
    ("data", "save_freq"), of_the_day(product(["arrays", "dataset"], ["epoch", 1, 7]))
)
def test_passes_over_the_data_may_last_longer_than_epochs(
    data: str, save_freq: Any, tmp_path: Path
) -> None:
    options = {"steps_per_epoch": 5, "executed": 2, "validation_data": (X, Y), "ema": True}
    expected = train(data, **options)

    found = [train(data, BackupAndRestore(tmp_path, save_freq), n, **options) for n in (4, 3, None)]

    assert found[0] is None
    assert next(one for one in found if one is not None) == expected


def test_a_backup_after_the_last_batch_of_an_epoch_leaves_nothing_out(tmp_path: Path) -> None:
    expected = train("arrays", validation_data=(X, Y))

    assert train("arrays", BackupAndRestore(tmp_path, 7), 8, validation_data=(X, Y)) is None
    found = train("arrays", BackupAndRestore(tmp_path, 7), validation_data=(X, Y))

    assert found == expected
    assert found[1].keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}


def test_epochs_go_on_where_they_were_and_a_finished_backup_may_stay(tmp_path: Path) -> None:
    tf.random.set_seed(1)
    model = make_model()
    backup = BackupAndRestore(tmp_path, delete_checkpoint=False)

    epochs = [model.fit(X, Y, epochs=n, verbose=0, callbacks=[backup]).epoch for n in (2, 2, 5)]

    assert epochs == [[0, 1], [], [2, 3, 4]]
    assert [path.name for path in tmp_path.iterdir()] == ["backup.safetensors"]


def test_only_the_backup_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    (tmp_path / ".backup.safetensors.1-ab.tmp").write_text("left by a process that was killed")

    make_model().fit(X, Y, verbose=0, callbacks=[BackupAndRestore(tmp_path)])

    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


# Killed

TRAINER = """
import os, signal, sys
import numpy as np
import tapegrad as tf
from tapegrad import keras

folder, kind, save_freq, fatal = sys.argv[1:]
tf.random.set_seed(3)
x = np.random.default_rng(1).normal(size=(40, 3)).astype("float32")
y = x[:, :1] ** 2
data = (x, y)
if kind == "dataset":
    data = (tf.data.Dataset.from_tensor_slices(data).shuffle(16).batch(4),)
model = keras.Sequential([
    keras.Input((3,)), keras.layers.Dense(5, "tanh"), keras.layers.Dropout(0.2),
    keras.layers.Dense(1),
])
model.compile(keras.optimizers.Adam(0.02), "mse", metrics=["mae"])

saves, replace = 0, os.replace
def deadly(source, target):
    global saves
    is_save = os.fspath(target).startswith(folder)  # and no compiled loop for its cache
    saves += is_save
    if is_save and saves == int(fatal):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = deadly

backup = keras.callbacks.BackupAndRestore(
    folder, save_freq if save_freq == "epoch" else int(save_freq)
)
options = {"batch_size": 4} if kind == "arrays" else {}
history = model.fit(*data, **options, epochs=4, verbose=0, callbacks=[backup]).history
print(b"".join(w.tobytes() for w in model.get_weights()).hex(), history["mae"][-1])
"""


def start(folder: Path, kind: str, save_freq: Any, fatal: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TRAINER, str(folder), kind, str(save_freq), str(fatal)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize(("kind", "save_freq"), [("arrays", 3), ("dataset", "epoch")])
def test_a_training_that_is_killed_as_it_saves_ends_bit_for_bit(
    kind: str, save_freq: Any, tmp_path: Path
) -> None:
    # The third save dies before its file takes its place.
    processes = start(tmp_path / "whole", kind, save_freq, 0), start(tmp_path, kind, save_freq, 3)
    expected, nothing = [process.communicate()[0] for process in processes]
    left = [path.suffix for path in tmp_path.iterdir()]
    with start(tmp_path, kind, save_freq, 0) as process:
        found = process.communicate()[0]

    assert nothing == ""
    assert processes[1].returncode == -signal.SIGKILL
    assert sorted(left) == [".safetensors", ".tmp"]
    assert found == expected
    assert len(expected) > 8 * 20
    assert not tmp_path.exists()


# What is refused


def backup_of(folder: Path, **options: Any) -> BackupAndRestore:
    """A backup of another training in the folder, and a callback that finds it."""
    make_model(**options).fit(
        X,
        Y,
        batch_size=SIZE,
        verbose=0,
        callbacks=[BackupAndRestore(folder, 3, delete_checkpoint=False)],
    )
    return BackupAndRestore(folder, 3)


def test_a_backup_of_another_model_is_refused(tmp_path: Path) -> None:
    backup = backup_of(tmp_path, units=9)

    with pytest.raises(ArgumentError, match="does not match, and nothing was restored"):
        train("arrays", backup)


def test_a_backup_of_a_model_with_other_layers_is_refused(tmp_path: Path) -> None:
    backup = backup_of(tmp_path)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])
    model.compile("adam", "mse")

    with pytest.raises(
        ArgumentError, match=r"to another model or optimizer: they differ in .* Delete it"
    ):
        model.fit(X, Y, batch_size=SIZE, verbose=0, callbacks=[backup])


def test_a_backup_of_other_data_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    backup = backup_of(tmp_path)
    model = make_model()
    before = [w.tolist() for w in model.get_weights()]

    with pytest.raises(ArgumentError, match=r"were \[50, 8\]\. Got \[48, 8\]"):
        model.fit(X[:48], Y[:48], batch_size=SIZE, verbose=0, callbacks=[backup])
    with pytest.raises(ArgumentError, match="damaged or belongs to other data: ArgumentTypeError"):
        model.fit(**DATA["dataset"](), verbose=0, callbacks=[backup])
    with pytest.raises(ArgumentError, match="damaged or belongs to other data: ValueError"):
        model.fit(Again(), verbose=0, callbacks=[backup])

    assert [w.tolist() for w in model.get_weights()] == before


def test_a_damaged_file_and_one_of_weights_are_refused(tmp_path: Path) -> None:
    backup = backup_of(tmp_path)
    path = tmp_path / "backup.safetensors"
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(ArgumentError, match=r"backup\.safetensors"):
        train("arrays", backup)
    make_model().save_weights(str(path))
    with pytest.raises(ArgumentError, match="is not a checkpoint: it holds only arrays"):
        train("arrays", backup)


def test_a_model_without_weights_is_refused_from_the_first_time(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    with pytest.raises(ArgumentError, match="a model that is built before fit"):
        model.fit(X, Y, verbose=0, callbacks=[BackupAndRestore(tmp_path)])


def test_how_often_to_save_is_a_word_or_a_number(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="save_freq must be 'epoch' or a number of batches"):
        BackupAndRestore(tmp_path, 0)


def test_a_model_may_have_a_position_of_its_own() -> None:
    class Placed(Model):
        def __init__(self) -> None:
            super().__init__()
            self.position, self.running = layers.Dense(1), layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.position(inputs) + self.running(inputs)

    model = Placed()
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)

    assert isinstance(model.position, layers.Dense)
    assert len(model.trainable_variables) == 4
