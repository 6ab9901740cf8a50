"""save_own_variables and load_own_variables: layers store their own state in a model file."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np
import pytest

from tapegrad import keras
from tapegrad.errors import ShapeError
from tapegrad.keras import layers


@keras.saving.register_keras_serializable("own_stores")
class Counting(layers.Dense):  # type: ignore[misc]
    """Stores its kernel in half precision, and a number that is no weight."""

    calls = 0

    def save_own_variables(self, store: MutableMapping[str, Any]) -> None:
        super().save_own_variables(store)
        store["file"] = self.calls
        store["0"] = np.float16(store["0"])

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        own = dict(store)
        self.calls = int(own.pop("file"))
        super().load_own_variables(own)


@keras.saving.register_keras_serializable("own_stores")
class Wrapping(keras.Model):  # type: ignore[misc]
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = Counting(2)

    def call(self, inputs: Any) -> Any:
        return self.inner(inputs)


def test_a_layer_stores_what_it_needs(tmp_path: Any) -> None:
    x = keras.Input((3,))
    model = keras.Model(x, layers.Dense(1)(Counting(2, name="counting")(x)))
    model.get_layer("counting").calls = 7
    kernel = model.get_layer("counting").kernel.numpy()
    model.save(tmp_path / "model.keras")

    loaded = keras.models.load_model(tmp_path / "model.keras")

    layer = loaded.get_layer("counting")
    assert layer.calls == 7
    np.testing.assert_array_equal(layer.kernel.numpy(), kernel.astype(np.float16))
    np.testing.assert_array_equal(loaded.layers[-1].get_weights()[0], model.get_weights()[2])


def test_a_layer_in_a_subclassed_model_stores_too(tmp_path: Any) -> None:
    model = Wrapping()
    model(np.ones((1, 3), np.float32))
    model.inner.calls = 3
    model.save(tmp_path / "model.keras")

    assert keras.models.load_model(tmp_path / "model.keras").inner.calls == 3


def test_stores_hold_the_own_weights_in_order() -> None:
    normalization = layers.BatchNormalization()
    normalization.build((None, 2))
    normalization.moving_mean.assign([3.0, 4.0])
    store: dict[str, Any] = {}

    normalization.save_own_variables(store)

    assert [*store] == ["0", "1", "2", "3"]
    assert [value.tolist() for value in store.values()] == [[1, 1], [0, 0], [3, 4], [1, 1]]
    outer = keras.Sequential([normalization])
    own: dict[str, Any] = {}
    outer.save_own_variables(own)
    assert own == {}


def test_a_store_of_another_layer_is_refused() -> None:
    dense = layers.Dense(2, name="last")
    dense.build((None, 3))

    with pytest.raises(ShapeError, match=r"'last' has 2 weights of its own. The file has 1: 0"):
        dense.load_own_variables({"0": np.zeros((3, 2))})


def test_paths_name_the_layer_and_the_weight() -> None:
    model = keras.Sequential([layers.Input((3,)), layers.Dense(2, name="first")])

    assert model.layers[0].path == "first"
    assert [v.path for v in model.weights] == ["first/kernel", "first/bias"]
    assert keras.Variable(1.0, name="rate").path == "rate"
