"""Subclasses of callbacks that monitor a metric use Keras' attributes and methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad import keras
from tapegrad.keras.callbacks import Callback, EarlyStopping, ModelCheckpoint, ReduceLROnPlateau

X = np.ones((8, 2), np.float32)


def fitted(*callbacks: Any, epochs: int = 4) -> Any:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    return model.fit(X, X[:, :1], callbacks=list(callbacks), epochs=epochs, verbose=0)


class OwnStopping(EarlyStopping):  # type: ignore[misc]
    """Written as the class of Keras is: stops after the first epoch without an improvement."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        current = self.get_monitor_value(logs)
        if self.best is None or self.monitor_op(current - self.min_delta, self.best):
            self.best = current
            self.best_weights = self.model.get_weights()
        else:
            self.model.stop_training = True


def test_a_subclass_decides_by_the_inherited_attributes() -> None:
    stopping = OwnStopping("loss", min_delta=1000.0)

    history = fitted(stopping)

    assert history.epoch == [0, 1]
    assert stopping.best == pytest.approx(history.history["loss"][0])
    assert stopping.best_weights is not None


@pytest.mark.parametrize(("mode", "name"), [("auto", "accuracy"), ("max", "loss")])
def test_larger_values_may_be_better(mode: str, name: str) -> None:
    stopping = EarlyStopping(name, mode=mode, min_delta=0.1)

    assert stopping.monitor_op(2.0, 1.0)
    assert not stopping.monitor_op(1.0, 1.0)
    assert stopping.min_delta == 0.1
    assert (stopping.monitor, stopping.mode) == (name, mode)
    assert EarlyStopping("loss", min_delta=0.1).min_delta == -0.1
    assert EarlyStopping("loss").monitor_op(1.0, 2.0)


def test_the_monitored_metric_can_be_changed_before_training() -> None:
    stopping = EarlyStopping("val_loss", patience=1, min_delta=1000.0)
    stopping.monitor = "mae"

    history = fitted(stopping)

    assert history.epoch == [0, 1]
    assert stopping.best == pytest.approx(history.history["mae"][0])


def test_attributes_of_the_other_callbacks(tmp_path: Any) -> None:
    saving = ModelCheckpoint(tmp_path / "a.keras", "loss", save_best_only=True)
    lowering = ReduceLROnPlateau("loss", patience=1, min_delta=1000.0, cooldown=2)

    history = fitted(saving, lowering, epochs=3)

    assert (saving.monitor, saving.mode) == ("loss", "auto")
    assert saving.best == pytest.approx(min(history.history["loss"]))
    assert lowering.min_delta == 1000.0
    assert lowering.best == pytest.approx(history.history["loss"][0])
    assert lowering.in_cooldown() == (lowering.cooldown_counter > 0)


def test_older_methods_of_batches_can_be_called_on_the_base_class() -> None:
    seen = []

    class Older(Callback):  # type: ignore[misc]
        def on_batch_begin(self, batch: int, logs: Any = None) -> None:
            super().on_batch_begin(batch, logs)
            seen.append(("begin", batch))

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            super().on_batch_end(batch, logs)
            seen.append(("end", batch))

    fitted(Older(), epochs=1)

    assert seen == [("begin", 0), ("end", 0)]
