"""Models with arguments of earlier Keras versions and functions of tf can be saved and loaded."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras


def _loaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.models.load_model(tmp_path / "model.keras")


def test_layers_with_an_input_shape_and_activations_of_tf_are_loaded(tmp_path) -> None:
    model = keras.Sequential(
        [
            keras.layers.Flatten(input_shape=[4, 3]),
            keras.layers.Dense(5, activation=tf.nn.relu),
            keras.layers.Dense(2, activation=tf.nn.tanh),
        ]
    )
    x = np.random.default_rng(0).normal(size=(6, 4, 3)).astype("float32")

    found = _loaded(model, tmp_path)

    np.testing.assert_array_equal(found.predict(x, verbose=0), model.predict(x, verbose=0))


def test_functions_of_tf_in_a_functional_model_are_loaded(tmp_path) -> None:
    inputs = keras.Input((None,), dtype="int64")
    hidden = keras.layers.SimpleRNN(3)(tf.one_hot(inputs, depth=5))
    model = keras.Model(inputs, tf.math.log1p(tf.abs(hidden)))
    x = np.array([[1, 2, 3], [4, 0, 1]])

    found = _loaded(model, tmp_path)

    np.testing.assert_array_equal(found.predict(x, verbose=0), model.predict(x, verbose=0))


def test_arguments_of_earlier_versions() -> None:
    inputs = keras.Input((4,), sparse=True)
    table = keras.layers.Embedding(5, 2, input_length=3)

    assert keras.backend.int_shape(inputs) == (None, 4)
    assert keras.Input(tensor=inputs).shape == (None, 4)
    assert table(tf.constant([[1, 2, 3]])).shape == (1, 3, 2)


def test_a_sparse_tensor_is_a_dense_input_of_a_model() -> None:
    inputs = keras.Input((4,), sparse=True)
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    x = tf.SparseTensor([[0, 1], [2, 3]], [5.0, 7.0], [3, 4])
    dense = np.array([[0, 5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 7]], "float32")

    wanted = dense @ model.get_weights()[0]

    np.testing.assert_allclose(model(x).numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(model.predict(x, verbose=0), wanted, rtol=1e-5)


class Neighbours(keras.layers.Layer):
    """The sum over the neighbours of each node, for a sparse adjacency matrix."""

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight(shape=(input_shape[0][-1],), initializer="ones")

    def call(self, inputs: Any) -> Any:
        x, adjacency = inputs
        assert keras.backend.is_sparse(adjacency)
        assert adjacency.dtype == tf.float32
        return tf.sparse.sparse_dense_matmul(adjacency, x * self.scale)


class Graph(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.neighbours, self.out = Neighbours(), keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.out(self.neighbours(inputs))


def test_layers_of_users_get_sparse_tensors() -> None:
    model, x = Graph(), np.arange(6.0).reshape(3, 2)
    adjacency = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 1.0, 1.0], [3, 3])
    adjacency = adjacency.with_values(tf.cast(adjacency.values, tf.float64))
    summed = np.array([x[1], x[0] + x[2], [0.0, 0.0]])

    y = model([x, adjacency])
    step = tf.function(lambda x, a: model([x, a]))

    np.testing.assert_allclose(y, summed @ model.out.get_weights()[0], rtol=1e-5)
    np.testing.assert_allclose(step(x, adjacency), y, rtol=1e-6)


def test_models_with_sparse_inputs_for_layers_of_users() -> None:
    x, nodes = np.arange(6.0, dtype="float32").reshape(3, 2), 3
    adjacency = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 1.0, 1.0], [nodes, nodes])
    inputs = [keras.Input((2,)), keras.Input((nodes,), sparse=True)]
    hidden = Neighbours()(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    data = tf.data.Dataset.from_tensors(((x, adjacency), np.ones((nodes, 1)))).repeat()
    config = model.get_config()

    model.compile("sgd", "mse")
    model.fit(data, steps_per_epoch=2, verbose=0)
    again = keras.Model.from_config(config, custom_objects={"Neighbours": Neighbours})
    again.set_weights(model.get_weights())
    clone = keras.models.clone_model(again)
    clone.set_weights(model.get_weights())
    y = model.predict(data, steps=1, verbose=0)

    assert hidden.shape == (None, 2)
    np.testing.assert_allclose(again([x, adjacency]), y, rtol=1e-5)
    np.testing.assert_allclose(clone([x, adjacency]), y, rtol=1e-5)
    loss = model.train_on_batch([x, adjacency], np.ones((nodes, 1)))
    np.testing.assert_allclose(loss, np.mean((y - 1.0) ** 2), rtol=1e-5)


def test_the_backend_knows_the_shape_of_a_sparse_tensor() -> None:
    x = tf.SparseTensor([[0, 1]], [5.0], [3, 4])
    k = keras.backend

    assert (k.ndim(x), k.int_shape(x), k.dtype(x)) == (2, (3, 4), "float32")
    assert tf.shape(x).tolist() == [3, 4]
    assert (int(tf.size(x)), int(tf.rank(x))) == (12, 2)
