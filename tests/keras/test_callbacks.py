"""Callbacks: when they are called, and what they do."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras import metrics
from tapegrad.keras.callbacks import (
    Callback,
    CSVLogger,
    EarlyStopping,
    History,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
    TerminateOnNaN,
)
from tapegrad.keras.layers import Dense, Input
from tapegrad.keras.models import Sequential
from tapegrad.keras.optimizers import SGD
from tapegrad.train import Checkpoint

X = np.random.default_rng(0).normal(size=(20, 2)).astype("float32")
Y = X.sum(1, keepdims=True)


def model(rate: float = 0.1) -> Sequential:
    made = Sequential([Input((2,)), Dense(1)])
    made.compile(SGD(rate), "mse")
    return made


def test_callbacks_are_told_of_everything_in_order() -> None:
    seen: list[Any] = []
    names = [n for n in dir(Callback) if n.startswith("on_")]
    callback = LambdaCallback(**{n: lambda *a, n=n: seen.append((n, *a[:1])) for n in names})

    model().fit(X, Y, batch_size=10, callbacks=[callback], validation_data=(X, Y), verbose=0)

    batches = [(f"on_train_batch_{when}", k) for k in range(2) for when in ("begin", "end")]
    start, *rest = [entry[0] for entry in seen]
    assert (start, rest[0], rest[-1]) == ("on_train_begin", "on_epoch_begin", "on_train_end")
    assert [entry for entry in seen if "train_batch" in entry[0]] == batches
    assert rest[-2] == "on_epoch_end"


def test_older_names_of_methods_for_batches_are_known() -> None:
    class Older(Callback):
        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            seen.append(("begin", batch))

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(("end", batch, *sorted(logs)))

    seen: list[Any] = []
    model().fit(X, Y, batch_size=10, callbacks=[Older()], verbose=0)

    assert seen == [("begin", 0), ("end", 0, "loss"), ("begin", 1), ("end", 1, "loss")]


def test_a_history_has_the_metrics_of_all_epochs() -> None:
    history = model().fit(X, Y, epochs=3, verbose=0)

    assert isinstance(history, History)
    assert history.epoch == [0, 1, 2]
    assert len(history.history["loss"]) == 3


def test_a_line_per_epoch_is_printed_where_nobody_watches_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    history = model().fit(X, Y, epochs=2, batch_size=10, verbose=2)

    lines = capsys.readouterr().out.strip().split("\n")
    assert lines[0] == "Epoch 1/2"
    assert lines[3].startswith("2/2 - 0s")
    assert lines[3].endswith(f"loss: {history.history['loss'][1]:.4f}")


DIRECTIONS: dict[str, tuple[Any, str, bool]] = {
    "named by its kind": (metrics.CosineSimilarity(), "val_cosine_similarity", True),
    "with an underscore": (metrics.MeanIoU(2), "mean_io_u", True),
    "with another name": (metrics.AUC(name="area"), "val_area", True),
    "a misleading name": (metrics.MeanAbsoluteError(name="accent"), "accent", False),
    "scores": (metrics.FBetaScore(), "fbeta_score", True),
    "a correlation": (metrics.PearsonCorrelation(name="r"), "val_r", True),
    "a share": (metrics.SensitivityAtSpecificity(0.5, name="best"), "best", True),
    "another share": (metrics.SpecificityAtSensitivity(0.5), "specificity_at_sensitivity", True),
    "a loss": (metrics.Mean(name="accent_loss"), "accent_loss", False),
    "of anything": (metrics.Mean(name="accuracy"), "accuracy", True),
}


@pytest.mark.parametrize("name", DIRECTIONS)
def test_what_is_better_follows_from_the_kind_of_metric(name: str) -> None:
    metric, monitor, larger_is_better = DIRECTIONS[name]
    watched = model()
    watched.own = metric
    callback = EarlyStopping(monitor, patience=5)
    callback.set_model(watched)

    for epoch, value in enumerate((0.5, 0.7, 0.3)):
        callback.on_epoch_end(epoch, {monitor: value})

    assert callback.best == (0.7 if larger_is_better else 0.3)


def test_nothing_is_printed_without_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    model().fit(X, Y, verbose=0)

    assert capsys.readouterr().out == ""


def feed(callback: Any, values: list[float], name: str = "val_loss") -> int:
    """Give a callback one value per epoch; return how many until it ended training."""
    callback.set_model(model())
    callback.on_train_begin()
    for epoch, value in enumerate(values):
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, {name: value})
        if callback.model.stop_training:
            return epoch + 1
    return len(values)


def test_training_ends_when_a_metric_stays_away_from_its_best() -> None:
    assert feed(EarlyStopping(patience=2), [3, 2, 1, 1.5, 1.2, 0.9, 0.5]) == 5
    assert feed(EarlyStopping(patience=2, min_delta=0.5), [3, 2.8, 2.7, 0.1]) == 3
    assert feed(EarlyStopping("val_accuracy", patience=1), [0.1, 0.2, 0.15], "val_accuracy") == 3
    assert feed(EarlyStopping(patience=1, start_from_epoch=3), [1, 2, 3, 4, 5]) == 5
    assert feed(EarlyStopping(patience=2), [np.nan, 3, 2, np.nan, 1, 1]) == 6


@pytest.mark.parametrize("epochs", range(1, 7))
def test_a_training_that_resumes_from_a_checkpoint_waits_on(epochs: int, tmp_path: Path) -> None:
    values = [3.0, 2.0, 2.5, 2.6, 2.4, 2.2, 2.1, 2.05]

    def run(callbacks: list[Any], first: int, last: int) -> list[Any]:
        made = model()
        for callback in callbacks:
            callback.set_model(made)
            callback.on_train_begin()
        found = []
        for epoch in range(first, last):
            for callback in callbacks:
                callback.on_epoch_end(epoch, {"val_loss": values[epoch]})
            found.append((made.stop_training, float(made.optimizer.learning_rate)))
            made.optimizer.learning_rate = 0.1
        return found

    def make() -> list[Any]:
        return [EarlyStopping(patience=5), ReduceLROnPlateau(patience=2, cooldown=1)]

    whole, before, after = make(), make(), make()
    expected = run(whole, 0, len(values))
    run(before, 0, epochs)
    path = Checkpoint(callbacks=before).write(tmp_path / "ckpt")
    Checkpoint(callbacks=after).read(path).assert_consumed()

    assert run(after, epochs, len(values)) == expected[epochs:]
    assert [one.state() for one in after] == [one.state() for one in whole]
    assert run(after, 0, len(values)) == expected


def test_the_best_weights_come_back() -> None:
    callback = EarlyStopping(patience=1, restore_best_weights=True)
    made = model()
    callback.set_model(made)
    callback.on_epoch_end(0, {"val_loss": 1.0})
    best = made.get_weights()
    made.set_weights([value + 1 for value in best])
    callback.on_epoch_end(1, {"val_loss": 2.0})
    callback.on_train_end()

    np.testing.assert_array_equal(made.get_weights()[0], best[0])


def test_a_metric_that_is_not_there_is_named() -> None:
    with pytest.warns(UserWarning, match=r"EarlyStopping monitors 'val_loss'.*metrics: loss"):
        model().fit(X, Y, callbacks=[EarlyStopping()], verbose=0)


def test_the_rate_is_lowered_on_a_plateau() -> None:
    callback = ReduceLROnPlateau(factor=0.5, patience=2, min_lr=0.02)
    feed(callback, [1.0] * 9)

    assert float(callback.model.optimizer.learning_rate) == pytest.approx(0.02)


def test_the_rate_of_each_epoch_is_in_the_history() -> None:
    lower = ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1, min_delta=1e9)

    history = model(1.0).fit(X, Y, epochs=4, callbacks=[lower], verbose=0)

    assert history.history["learning_rate"] == [1.0, 1.0, 0.5, 0.25]


def test_a_schedule_sets_the_rate_of_each_epoch() -> None:
    rates = LearningRateScheduler(lambda epoch, rate: 0.5**epoch)

    history = model().fit(X, Y, epochs=3, callbacks=[rates], verbose=0)

    assert history.history["learning_rate"] == [1.0, 0.5, 0.25]


def test_training_ends_when_the_loss_is_not_finite() -> None:
    made = model(rate=1e30)

    history = made.fit(X, Y, batch_size=5, epochs=5, callbacks=[TerminateOnNaN()], verbose=0)

    assert len(history.epoch) == 1


def test_epochs_are_written_as_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    history = model().fit(X, Y, epochs=2, callbacks=[CSVLogger(path)], verbose=0)
    model().fit(X, Y, epochs=1, callbacks=[CSVLogger(path, append=True)], verbose=0)

    with path.open(newline="") as file:
        rows = list(csv.reader(file))

    assert rows[0] == ["epoch", "loss"]
    assert [float(row[1]) for row in rows[1:3]] == history.history["loss"]
    assert len(rows) == 4


def test_the_weights_of_every_epoch_are_saved_under_its_number(tmp_path: Path) -> None:
    made = model()
    saver = ModelCheckpoint(tmp_path / "{epoch:02d}.safetensors")

    made.fit(X, Y, epochs=2, callbacks=[saver], verbose=0)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["01.safetensors", "02.safetensors"]
    expected = made.get_weights()
    made.set_weights([value * 0 for value in expected])
    made.load_weights(tmp_path / "02.safetensors")
    for one, other in zip(made.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_the_best_weights_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    saver = ModelCheckpoint(path, save_best_only=True)
    saver.set_model(model())
    times = []
    for epoch, value in enumerate([2.0, 1.0, 3.0]):
        saver.model.set_weights([w * 0 + epoch for w in saver.model.get_weights()])
        saver.on_epoch_end(epoch, {"val_loss": value})
        times.append(path.stat().st_mtime_ns)

    saver.model.load_weights(path)

    assert float(saver.model.get_weights()[1][0]) == 1.0
    assert times[1] == times[2]


def test_a_path_that_names_no_metric_is_refused(tmp_path: Path) -> None:
    saver = ModelCheckpoint(tmp_path / "{accuracy}.safetensors")
    with pytest.raises(ArgumentError, match=r"'accuracy'.*epoch, batch, loss"):
        model().fit(X, Y, callbacks=[saver], verbose=0)


def test_unknown_methods_and_other_objects_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'on_epoch_stop'"):
        LambdaCallback(on_epoch_stop=print)
    with pytest.raises(ArgumentTypeError, match="Got function"):
        model().fit(X, Y, callbacks=[lambda: None], verbose=0)
