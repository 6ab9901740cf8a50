"""keras.backend: the functions of older Keras versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.keras import backend as K  # noqa: N812  # as programs call it

rng = np.random.default_rng(0)
A, B = rng.uniform(0.1, 1.0, size=(2, 4, 3)).astype("float32")


def dice(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = K.flatten(y_true), K.flatten(y_pred)
    return 1.0 - 2.0 * K.sum(y_true * y_pred) / (K.sum(y_true) + K.sum(y_pred) + K.epsilon())


def test_a_loss_of_an_overlap_and_its_gradient() -> None:
    x = tf.Variable(A)

    with tf.GradientTape() as tape:
        loss = dice(tf.constant(B), x)
    gradient = tape.gradient(loss, x)

    total = float(A.sum() + B.sum())
    overlap = float((A * B).sum())
    assert float(loss) == pytest.approx(1 - 2 * overlap / total, rel=1e-5)
    expected = -2 * (B * total - overlap) / total**2
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-4)


def test_a_loss_of_squares_by_rows() -> None:
    y = K.sqrt(K.mean(K.square(tf.constant(A) - B), axis=-1))

    np.testing.assert_allclose(y.numpy(), np.sqrt(((A - B) ** 2).mean(-1)), rtol=1e-5)


FORMULAS: dict[str, Any] = {
    "concatenate": (lambda a, b: K.concatenate([a, b], axis=-1), lambda a, b: np.hstack([a, b])),
    "dot": (lambda a, b: K.dot(a, K.transpose(b)), lambda a, b: a @ b.T),
    "clip": (lambda a, b: K.clip(a, 0.2, 0.5), lambda a, b: a.clip(0.2, 0.5)),
    "round": (lambda a, b: K.cast(K.round(a * 9.0), "float32"), lambda a, b: np.round(a * 9)),
    "max": (lambda a, b: K.max(K.maximum(a, b), axis=1), lambda a, b: np.maximum(a, b).max(1)),
    "sum": (lambda a, b: K.sum(a, axis=[0, 1]), lambda a, b: a.sum()),
    "ones": (lambda a, b: K.expand_dims(a, -1) * K.ones((1,)), lambda a, b: a[..., None]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_functions_compute_what_their_names_say(name: str) -> None:
    ours, numpys = FORMULAS[name]

    y = ours(tf.constant(A), tf.constant(B))

    assert y.dtype == "float32"
    np.testing.assert_allclose(y.numpy(), numpys(A, B), rtol=1e-5)


def test_what_else_older_programs_ask_for() -> None:
    assert K.int_shape(tf.constant(A)) == (4, 3)
    assert (K.epsilon(), K.floatx(), K.image_data_format()) == (1e-7, "float32", "channels_last")
    K.clear_session()
    assert tf.keras.layers.Dense(1).name == "dense"


def test_a_function_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match=r"keras.backend has no 'gradients'. Use"):
        _ = K.gradients


def test_names_of_the_backend_and_of_dtypes() -> None:
    assert K.backend() == "tapegrad"
    assert (K.standardize_dtype(None), K.standardize_dtype("half")) == ("float32", "float16")
    assert (K.is_float_dtype("float16"), K.is_int_dtype("int8")) == (True, True)
    assert K.get_uid("a_prefix") + 1 == K.get_uid("a_prefix")
    x = tf.keras.Input((3,))
    assert (K.is_keras_tensor(x), K.ndim(x), K.is_keras_tensor(A)) == (True, 2, False)


def test_values_are_read_and_written() -> None:
    v = K.variable(A, dtype="float64")

    K.set_value(v, 2 * A)

    np.testing.assert_array_equal(K.get_value(v), 2 * A)
    np.testing.assert_array_equal(K.eval(v), 2 * A)
    assert K.get_value(3) == 3


def test_shapes_of_older_programs() -> None:
    x = tf.constant(np.arange(24.0).reshape(2, 3, 4))

    np.testing.assert_array_equal(K.permute_dimensions(x, (0, 2, 1)), np.swapaxes(x, 1, 2))
    assert K.batch_flatten(x).shape == (2, 12)
    np.testing.assert_array_equal(K.repeat_elements(x, 2, 1), np.repeat(x.numpy(), 2, axis=1))


@pytest.mark.parametrize(
    ("shapes", "axes", "formula"),
    [
        (((2, 3), (2, 3)), 1, "bi,bi->b"),
        (((2, 3, 4), (2, 4, 5)), None, "bij,bjk->bik"),
        (((2, 3, 4), (2, 5, 4)), (2, 2), "bij,bkj->bik"),
        (((2, 3, 4), (2, 3)), (1, 1), "bij,bi->bj"),
        (((2, 3, 4), (2, 3, 5)), (-2, -2), "bij,bik->bjk"),
    ],
)
def test_products_of_batches(shapes: Any, axes: Any, formula: str) -> None:
    x, y = (rng.normal(size=shape) for shape in shapes)

    found = K.batch_dot(tf.constant(x), tf.constant(y), axes)

    wanted = np.einsum(formula, x, y)
    np.testing.assert_allclose(found, wanted[:, None] if wanted.ndim == 1 else wanted, rtol=1e-12)


def test_a_product_along_the_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot sum along axis 0, the batch"):
        K.batch_dot(tf.constant(A), tf.constant(B), axes=0)


def test_a_switch_chooses_for_all_or_by_element() -> None:
    a, b = tf.constant(A), tf.constant(B)
    rows = np.array([True, False, True, False])

    np.testing.assert_array_equal(K.switch(tf.constant(True), lambda: a, lambda: b), A)
    np.testing.assert_array_equal(K.switch(rows, a, b), np.where(rows[:, None], A, B))


def test_losses_of_the_backend_take_targets_first() -> None:
    found = K.binary_crossentropy(tf.constant([1.0, 0.0]), tf.constant([0.25, 0.25]))

    np.testing.assert_allclose(found, [-np.log(0.25), -np.log(0.75)], rtol=1e-5)
    assert K.random_normal((2, 3)).shape == K.random_uniform((2, 3)).shape == (2, 3)
