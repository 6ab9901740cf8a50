"""Weights that are loaded before the model is built: its first call finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import ArgumentError
from tapegrad.keras import Model, Sequential, layers

X = np.random.default_rng(3).normal(size=(6, 5)).astype("float32")


class Own(Model):
    """Keeps a count of its calls, has a loss per call and moving averages."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = layers.Dense(4, "tanh"), layers.BatchNormalization()
        self.last = layers.Dense(2, activity_regularizer="l2")

    def call(self, inputs: Any, training: Any = None) -> Any:
        return self.last(self.norm(self.first(inputs), training=training))


def stack() -> Sequential:
    return Sequential([layers.Dense(4, "tanh"), layers.BatchNormalization(), layers.Dense(2)])


KINDS = pytest.mark.parametrize("make", [Own, stack])
NAMES = pytest.mark.parametrize("name", ["w", "w.ckpt", "w.weights.h5"])


def trained(make: Any) -> Any:
    model = make()
    model.compile("sgd", "mse")
    model.fit(X, np.ones((6, 2), "float32"), epochs=2, verbose=0)
    return model


@KINDS
@NAMES
def test_the_first_call_uses_the_weights_of_the_file(make: Any, name: str, tmp_path: Path) -> None:
    if name.endswith("h5"):
        pytest.importorskip("h5py")
    model, other = trained(make), make()
    model.save_weights(tmp_path / name)

    other.load_weights(tmp_path / name)

    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())
    assert len(other.losses) == len(model.losses)


@KINDS
def test_fit_starts_from_the_weights_of_the_file(make: Any, tmp_path: Path) -> None:
    model, other = trained(make), make()
    model.save_weights(tmp_path / "w")
    other.load_weights(tmp_path / "w")
    for one in (model, other):
        one.compile("sgd", "mse")
        one.fit(X, np.ones((6, 2), "float32"), verbose=0, shuffle=False)

    for one, same in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_allclose(one, same, rtol=1e-6)


@KINDS
def test_a_recorded_function_finds_the_weights_of_the_file(make: Any, tmp_path: Path) -> None:
    model, other = trained(make), make()
    model.save_weights(tmp_path / "w")
    other.load_weights(tmp_path / "w")
    run = tg.function(lambda x: other(x, training=False))

    for _ in range(2):
        np.testing.assert_allclose(run(tg.constant(X)), model(X, training=False), atol=1e-6)
    other.trainable_variables[0].assign_add(tg.ones([5, 4]))
    changed = other(X, training=False)
    np.testing.assert_allclose(run(tg.constant(X)), changed, atol=1e-6)


@KINDS
def test_the_first_call_in_training_updates_the_averages_once(make: Any, tmp_path: Path) -> None:
    model, other = trained(make), make()
    model.save_weights(tmp_path / "w")
    other.load_weights(tmp_path / "w")

    for one in (model, other):
        one(X, training=True)

    for one, same in zip(model.non_trainable_variables, other.non_trainable_variables):
        np.testing.assert_allclose(one.numpy(), same.numpy(), rtol=1e-6)


@KINDS
def test_build_loads_as_well(make: Any, tmp_path: Path) -> None:
    model, other = trained(make), make()
    model.save_weights(tmp_path / "w")
    status = other.load_weights(tmp_path / "w").expect_partial()
    with pytest.raises(ArgumentError, match="no object uses"):
        status.assert_consumed()

    other.build((None, 5))

    status.assert_consumed()
    for one, same in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(one, same)


@KINDS
def test_every_call_of_a_model_that_does_not_fit_the_file_is_refused(
    make: Any, tmp_path: Path
) -> None:
    trained(make).save_weights(tmp_path / "w")
    other = make()
    other.load_weights(tmp_path / "w")

    for _ in range(2):
        with pytest.raises(ArgumentError, match="do not match"):
            other(X[:, :3])
