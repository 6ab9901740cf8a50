"""Arguments that programs for earlier versions of Keras pass."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.keras import layers

X = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")


def test_optimizers_take_the_rate_as_lr() -> None:
    optimizer = keras.optimizers.SGD(lr=0.5)
    w = tf.Variable(3.0)

    optimizer.apply_gradients([(tf.constant(2.0), w)])

    assert float(w) == 2.0
    config = optimizer.get_config()
    assert config["learning_rate"] == 0.5
    assert "lr" not in config


def test_the_decay_of_rates_is_ignored_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="decay is ignored"):
        optimizer = keras.optimizers.Adam(learning_rate=0.25, decay=1e-6)
    assert float(optimizer.learning_rate) == 0.25


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: layers.Dense(2, input_dim=3), (None, 3)),
        (lambda: layers.Dense(2, input_shape=3), (None, 3)),
        (lambda: layers.LSTM(2, input_dim=3, input_length=5), (None, 5, 3)),
        (lambda: layers.GRU(2, input_dim=3, implementation=2), (None, None, 3)),
        (lambda: layers.Dense(2, input_shape=[3], batch_size=4), (4, 3)),
        (lambda: layers.Embedding(7, 2, input_length=5, input_shape=(5,)), (None, 5)),
    ],
)
def test_first_layers_give_the_shape_of_inputs(layer: Any, shape: Any) -> None:
    assert keras.Sequential([layer()]).input_shape == shape


def test_an_input_of_one_dimension_may_be_a_number() -> None:
    assert keras.Input(shape=3).shape == keras.Input(3).shape == (None, 3)


class Twice(layers.Dense):
    """A layer that creates weights after those of its base class."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.factor = self.add_weight((), initializer="ones", name="factor")

    def call(self, inputs: Any) -> Any:
        return super().call(inputs) * self.factor


def test_layers_take_their_first_weights() -> None:
    kernel, bias = np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0])
    given = layers.Dense(2, weights=[kernel, bias])
    twice = Twice(2, weights=[kernel, bias, 2.0])

    wanted = X @ kernel + bias
    np.testing.assert_allclose(given(X), wanted, rtol=1e-5)
    np.testing.assert_allclose(twice(X), 2 * wanted, rtol=1e-5)
    assert "weights" not in json.loads(json.dumps(given.get_config()))
    again = layers.Dense.from_config(given.get_config())
    assert again(X).shape == (4, 5, 2)


def test_arguments_that_no_layer_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="Dense does not take the argument 'wieghts'"):
        layers.Dense(2, wieghts=[])


def test_names_in_the_scope_of_a_module() -> None:
    class Scaled(tf.Module):
        @tf.Module.with_name_scope
        def __call__(self, x: Any) -> Any:
            with self.name_scope as name:
                return name, x * 2

    assert Scaled(name="scaled")(3) == ("scaled/", 6)


def test_seeds_may_be_whole_floats() -> None:
    tf.random.set_seed(2.0)
    first = float(tf.random.normal([]))
    tf.random.set_seed(2)
    assert float(tf.random.normal([])) == first
    with pytest.raises(TypeError, match="whole number"):
        tf.random.set_seed(2.5)


def classifier() -> Any:
    model = keras.Sequential([layers.Dense(3, activation="softmax", input_shape=(3,))])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def test_models_train_on_generators() -> None:
    x, y = X[:, 0], np.eye(3, dtype="float32")[[0, 1, 2, 0]]
    model, other = classifier(), classifier()
    other.set_weights(model.get_weights())

    history = model.fit_generator(
        ((x, y) for _ in range(4)), steps_per_epoch=2, epochs=2, verbose=0, workers=2
    )
    other.fit(np.vstack([x, x]), np.vstack([y, y]), 4, 2, 0, shuffle=False, max_queue_size=2)

    assert model.history is history
    assert history.history["loss"] == pytest.approx(other.history.history["loss"])
    found = model.predict_generator(iter([x]), steps=1)
    np.testing.assert_allclose(found, other.predict(x, verbose=0, workers=1), rtol=1e-5)
    assert model.evaluate_generator(iter([(x, y)]), steps=1) == pytest.approx(
        other.evaluate(x, y, verbose=0)
    )


def test_classes_of_predictions() -> None:
    model = classifier()
    x = X[:, 0]
    wanted = model.predict_proba(x).argmax(1)
    np.testing.assert_array_equal(model.predict_classes(x), wanted)
    single = keras.Sequential([layers.Dense(1, activation="sigmoid", input_shape=(3,))])
    found = single.predict_classes(x)
    np.testing.assert_array_equal(found, single.predict(x, verbose=0) > 0.5)
    assert found.dtype.kind == "i"


def test_metrics_of_several_batches() -> None:
    model = classifier()
    x, y = X[:, 0], np.eye(3, dtype="float32")[[0, 1, 2, 0]]
    whole = model.evaluate(x, y, verbose=0)

    model.reset_metrics()
    model.test_on_batch(x[:3], y[:3], reset_metrics=False)
    found = model.test_on_batch(x[3:], y[3:], reset_metrics=False)

    assert found == pytest.approx(whole)
    assert model.test_on_batch(x[:3], y[:3]) != pytest.approx(whole)


def test_states_of_recurrent_layers_are_reset() -> None:
    layer = layers.LSTM(2, stateful=True, batch_input_shape=(4, 5, 3))
    model = keras.Sequential([layer])
    first = model(X).numpy()
    assert abs(model(X).numpy() - first).max() > 1e-3
    model.reset_states()
    np.testing.assert_array_equal(model(X), first)


def test_layers_add_variables() -> None:
    class Line(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = self.add_variable("kernel", [3, 1])

        def call(self, inputs: Any) -> Any:
            return inputs @ self.kernel

    line = Line()
    assert line(X).shape == (4, 5, 1)
    assert line.trainable_variables[0].name == "kernel:0"


def test_cells_take_a_batch_and_a_dtype() -> None:
    cell = layers.LSTMCell(2)
    for states in (
        cell.get_initial_state(batch_size=4, dtype="float64"),
        cell.get_initial_state(inputs=tf.zeros((4, 3)), dtype="float64"),
    ):
        assert [(state.shape, state.dtype) for state in states] == [((4, 2), "float64")] * 2
    assert cell.get_initial_state(3)[0].dtype == "float32"


@pytest.mark.parametrize("save_format", ["tf", "h5", "keras"])
def test_formats_of_saved_models(save_format: str, tmp_path: Any) -> None:
    model = classifier()
    x = X[:, 0]
    path = tmp_path / {"tf": "folder", "h5": "model.h5", "keras": "model.keras"}[save_format]

    model.save(path, save_format=save_format)
    loaded = keras.models.load_model(path)

    np.testing.assert_array_equal(loaded(x), model(x))
    assert loaded.optimizer.name == "sgd"
    if save_format == "tf":
        served = tf.saved_model.load(str(path)).serve(tf.constant(x))
        np.testing.assert_allclose(served, model(x), rtol=1e-6)


def test_weights_of_any_name_may_be_hdf5(tmp_path: Any) -> None:
    model, other = classifier(), classifier()
    model.save_weights(tmp_path / "first", save_format="h5")
    assert (tmp_path / "first").read_bytes()[1:4] == b"HDF"
    other.load_weights(tmp_path / "first")
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])
    model.save_weights(tmp_path / "second", save_format="tf")
    other.load_weights(tmp_path / "second")


def test_a_folder_without_a_model_of_keras_is_named(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="a folder without a model of Keras"):
        keras.models.load_model(tmp_path)
    with pytest.raises(ValueError, match="save_format"):
        classifier().save(tmp_path / "a", save_format="tfx")


def test_preprocessing_layers_have_their_older_place() -> None:
    from tapegrad.keras.layers.experimental.preprocessing import TextVectorization

    assert TextVectorization is layers.TextVectorization
    assert layers.experimental.preprocessing.Rescaling is layers.Rescaling


def test_constants_take_the_shape_of_weights() -> None:
    value = np.arange(9.0).reshape(1, 3, 3)
    layer = layers.Conv2D(1, 3, kernel_initializer=tf.constant_initializer(value))
    x = np.random.default_rng(1).normal(size=(1, 3, 3, 1))
    np.testing.assert_allclose(
        layer(x), (x[0, :, :, 0] * value).sum().reshape(1, 1, 1, 1), rtol=1e-5
    )


def test_activations_are_found_in_the_module_of_keras_2() -> None:
    from tapegrad.keras.layers.advanced_activations import LeakyReLU, PReLU

    assert (LeakyReLU, PReLU) == (layers.LeakyReLU, layers.PReLU)
