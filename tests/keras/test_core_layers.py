"""Dense, Embedding, Lambda, reshaping and merging layers against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import layers
from tapegrad.keras.models import Model

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 3, 4))


def dense() -> tuple[Any, Any, Any]:
    layer = layers.Dense(5, "tanh", bias_initializer="ones", dtype="float64")
    layer(A)
    return layer, layer.kernel.numpy(), layer.bias.numpy()


def test_dense_is_a_product_a_bias_and_an_activation() -> None:
    layer, kernel, bias = dense()

    np.testing.assert_allclose(layer(A).numpy(), np.tanh(A @ kernel + bias), rtol=1e-12)


def test_the_gradients_of_dense_are_those_of_the_formula() -> None:
    layer, kernel, bias = dense()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(A) * B[..., :1])
    slope = (1 - np.tanh(A @ kernel + bias) ** 2) * B[..., :1]

    of_kernel, of_bias = tape.gradient(loss, layer.trainable_variables)

    np.testing.assert_allclose(of_kernel.numpy(), np.einsum("bij,bik->jk", A, slope), rtol=1e-10)
    np.testing.assert_allclose(of_bias.numpy(), slope.sum((0, 1)), rtol=1e-10)


def test_dense_names_the_layer_and_the_shapes_that_do_not_fit() -> None:
    layer = layers.Dense(2, name="head")
    layer(np.ones((1, 3), "float32"))

    with pytest.raises(ShapeError, match=r"'head' \(Dense\) was built for 3 features.*\(1, 4\)"):
        layer(np.ones((1, 4), "float32"))
    with pytest.raises(ShapeError, match=r"at least 2 dimensions.*\(3,\)"):
        layers.Dense(2)(np.ones(3, "float32"))
    with pytest.raises(ArgumentError, match="positive number of units"):
        layers.Dense(0)


def test_unknown_activations_and_initializers_list_what_exists() -> None:
    with pytest.raises(ArgumentError, match=r"'rellu'.*relu"):
        layers.Dense(1, activation="rellu")
    with pytest.raises(ArgumentError, match=r"'glorot'.*glorot_uniform"):
        layers.Dense(1, kernel_initializer="glorot")


def test_embeddings_are_rows_of_the_table_and_so_are_their_gradients() -> None:
    layer = layers.Embedding(5, 3, dtype="float64")
    tokens = np.array([[1, 1, 4]])
    with tf.GradientTape() as tape:
        y = layer(tokens)
        loss = tf.reduce_sum(y * A[:1, :, :3])

    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.embeddings)).numpy()

    np.testing.assert_array_equal(y.numpy(), layer.embeddings.numpy()[tokens])
    expected = np.zeros((5, 3))
    np.add.at(expected, tokens[0], A[0, :, :3])
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_embeddings_under_a_mixed_policy_are_cast_after_they_were_read() -> None:
    layer = layers.Embedding(5, 3, dtype="mixed_float16")

    y = layer(np.array([1, 2]))

    assert y.dtype == tf.float16
    assert layer.embeddings.dtype == tf.float32


RESHAPING = [
    (layers.Flatten(), lambda x: x.reshape(2, 12)),
    (layers.Flatten("channels_first"), lambda x: x.transpose(0, 2, 1).reshape(2, 12)),
    (layers.Reshape((4, -1)), lambda x: x.reshape(2, 4, 3)),
    (layers.Permute((2, 1)), lambda x: x.transpose(0, 2, 1)),
    (layers.Identity(), lambda x: x),
    (layers.Activation("exponential"), np.exp),
    (layers.Lambda(lambda x, power: x**power, arguments={"power": 2}), lambda x: x**2),
]


@pytest.mark.parametrize(("layer", "expected"), RESHAPING)
def test_a_layer_of_one_tensor(layer: Any, expected: Any) -> None:
    fresh = type(layer).from_config({**layer._arguments, "dtype": "float64"})
    x = layers.Input((3, 4), dtype="float64")
    model = Model(x, fresh(x), dtype="float64")

    y = model(A)

    np.testing.assert_allclose(y.numpy(), expected(A), rtol=1e-12)
    assert model.output_shape[1:] == y.shape[1:]


def test_a_vector_is_repeated_along_a_new_axis() -> None:
    layer = layers.RepeatVector(5)

    y = layer(A[:, 0].astype("float32"))

    np.testing.assert_array_equal(y.numpy(), np.repeat(A[:, :1].astype("float32"), 5, axis=1))
    assert layer.compute_output_shape((None, 4)) == (None, 5, 4)


def test_shapes_that_cannot_be_had_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"cannot reshape examples of shape \(3, 4\) to \(5, -1\)"):
        layers.Reshape((5, -1))(A)
    with pytest.raises(ArgumentError, match=r"one size of -1"):
        layers.Reshape((-1, -1))
    with pytest.raises(ArgumentError, match=r"axes 1 to 2.*\(0, 1\)"):
        layers.Permute((0, 1))


MERGING = [
    (layers.Add, {}, A + B),
    (layers.Subtract, {}, A - B),
    (layers.Multiply, {}, A * B),
    (layers.Average, {}, (A + B) / 2),
    (layers.Maximum, {}, np.maximum(A, B)),
    (layers.Minimum, {}, np.minimum(A, B)),
    (layers.Concatenate, {}, np.concatenate([A, B], -1)),
    (layers.Concatenate, {"axis": 1}, np.concatenate([A, B], 1)),
    (layers.Dot, {"axes": 2}, np.einsum("bij,bkj->bik", A, B)),
    (layers.Dot, {"axes": (1, 1)}, np.einsum("bij,bik->bjk", A, B)),
]


@pytest.mark.parametrize(("kind", "options", "expected"), MERGING)
def test_a_layer_of_two_tensors(kind: Any, options: Any, expected: Any) -> None:
    a, b = (layers.Input((3, 4), dtype="float64") for _ in range(2))
    model = Model([a, b], kind(**options, dtype="float64")([a, b]), dtype="float64")

    y = model([A, B])

    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    assert model.output_shape == (None, *expected.shape[1:])


def test_a_normalized_dot_is_the_cosine() -> None:
    layer = layers.Dot(1, normalize=True, dtype="float64")
    a, b = A[:, 0], B[:, 0]

    expected = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    np.testing.assert_allclose(layer([a, b]).numpy()[:, 0], expected, rtol=1e-12)


def test_merging_checks_what_comes_in() -> None:
    with pytest.raises(ShapeError, match="takes a list of tensors"):
        layers.Add()(A)
    with pytest.raises(ShapeError, match="takes two tensors"):
        layers.Subtract()([A, B, A])
    with pytest.raises(ShapeError, match=r"differ only along axis -1\..*\(2, 3, 4\), \(2, 2, 4\)"):
        layers.Concatenate()([A, B[:, :2]])
    with pytest.raises(ShapeError, match=r"cannot combine tensors of shapes \(None, 3\)"):
        layers.Add().compute_output_shape([(None, 3), (None, 4)])


def test_shorter_shapes_are_broadcast() -> None:
    assert layers.Add().compute_output_shape([(None, 3, 4), (None, 1, 4)]) == (None, 3, 4)
    np.testing.assert_allclose(
        layers.Multiply(dtype="float64")([A, B[:, :1]]).numpy(), A * B[:, :1], rtol=1e-12
    )
