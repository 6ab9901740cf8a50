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


BY_NUMPY: dict[str, Any] = {
    "any": (lambda a, b: K.any(a > 0.9, axis=1), lambda a, b: (a > 0.9).any(1)),
    "all": (lambda a, b: K.all(K.round(a), axis=0), lambda a, b: np.round(a).all(0)),
    "argmax": (lambda a, b: K.argmax(a), lambda a, b: a.argmax(-1)),
    "argmin": (lambda a, b: K.argmin(a, axis=0), lambda a, b: a.argmin(0)),
    "mean": (lambda a, b: K.mean(a > b), lambda a, b: (a > b).mean()),
    "std": (lambda a, b: K.std(a, axis=1), lambda a, b: a.std(1)),
    "var": (lambda a, b: K.var(a, axis=[0]), lambda a, b: a.var(0)),
    "cumprod": (lambda a, b: K.cumprod(a, axis=1), lambda a, b: a.cumprod(1)),
    "cumsum": (lambda a, b: K.cumsum(a), lambda a, b: a.cumsum(0)),
    "logsumexp": (lambda a, b: K.logsumexp(a, axis=1), lambda a, b: np.log(np.exp(a).sum(1))),
    "prod": (lambda a, b: K.prod(a, axis=1, keepdims=True), lambda a, b: a.prod(1, keepdims=True)),
    "expand_dims": (lambda a, b: K.expand_dims(a), lambda a, b: a[..., None]),
    "repeat": (lambda a, b: K.repeat(a, 2), lambda a, b: np.stack([a, a], axis=1)),
    "tile": (lambda a, b: K.tile(a, [1, 2]), lambda a, b: np.tile(a, (1, 2))),
    "reverse": (lambda a, b: K.reverse(a, [0, 1]), lambda a, b: a[::-1, ::-1]),
    "squeeze": (lambda a, b: K.squeeze(a[:1], 0), lambda a, b: a[0]),
    "clip below": (lambda a, b: K.clip(a, 0.5, None), lambda a, b: np.maximum(a, 0.5)),
    "clip the wrong way round": (lambda a, b: K.clip(a, 0.5, 0.2), lambda a, b: 0 * a + 0.5),
    "sqrt": (lambda a, b: K.sqrt(a - b), lambda a, b: np.sqrt(np.maximum(a - b, 0))),
    "relu": (
        lambda a, b: K.relu(10 * (a - b), alpha=0.1, max_value=3.0, threshold=1.0),
        lambda a, b: np.where(
            10 * (a - b) > 1, np.minimum(10 * (a - b), 3.0), 0.1 * (10 * (a - b) - 1)
        ),
    ),
    "hard_sigmoid": (
        lambda a, b: K.hard_sigmoid(9 * (a - b)),
        lambda a, b: np.clip(0.2 * 9 * (a - b) + 0.5, 0, 1),
    ),
    "softmax over two axes": (
        lambda a, b: K.softmax(a, axis=(0, 1)),
        lambda a, b: np.exp(a) / np.exp(a).sum(),
    ),
    "dot of a stack": (
        lambda a, b: K.dot(K.reshape(a, (2, 2, 3)), K.reshape(b, (2, 3, 2))),
        lambda a, b: np.dot(a.reshape(2, 2, 3), b.reshape(2, 3, 2)),
    ),
    "binary focal": (
        lambda a, b: K.binary_focal_crossentropy(K.ones_like(a), 0.9 * a, gamma=2.0),
        lambda a, b: -((1 - 0.9 * a) ** 2) * np.log(0.9 * a),
    ),
}


@pytest.mark.parametrize("name", BY_NUMPY)
def test_functions_with_other_defaults_agree_with_numpy(name: str) -> None:
    ours, numpys = BY_NUMPY[name]

    y = ours(tf.constant(A), tf.constant(B))

    np.testing.assert_allclose(y.numpy(), numpys(A, B), rtol=2e-5, atol=1e-6)


def test_functions_of_symbolic_tensors_are_parts_of_a_model() -> None:
    x, y = tf.keras.Input((3,)), tf.keras.Input((3,))
    parts = [
        K.mean(x, axis=1),
        K.sqrt(x),
        K.clip(x, 0.2, 0.5),
        K.relu(x - y, alpha=0.1),
        K.batch_dot(x, y, axes=1),
        K.repeat(x, 2),
        K.concatenate([x, y]),
        K.l2_normalize(x, axis=1),
        K.dot(x, K.variable(B.T)),
    ]
    model = tf.keras.Model([x, y], parts)

    found = model([A, B])

    a, b = tf.constant(A), tf.constant(B)
    wanted = [
        A.mean(1),
        np.sqrt(A),
        A.clip(0.2, 0.5),
        np.where(A > B, A - B, 0.1 * (A - B)),
        np.sum(A * B, 1, keepdims=True),
        np.stack([A, A], 1),
        np.hstack([A, B]),
        A / np.linalg.norm(A, axis=1, keepdims=True),
        A @ B.T,
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert model.compute_output_shape([(None, 3), (None, 3)])[5] == (None, 2, 3)
    assert K.mean(a).shape == K.mean(b).shape == ()


def test_variables_are_created_and_updated() -> None:
    v, w = K.zeros((2, 3)), K.ones((2, 3))

    K.update_add(v, K.ones_like(v) * 3.0)
    K.update_sub(w, K.ones_like(w))
    K.batch_set_value([(w, np.full((2, 3), 7.0))])
    K.moving_average_update(v, K.ones((2, 3)), 0.75)

    np.testing.assert_array_equal(K.batch_get_value([v, w]), np.stack([v * 0 + 2.5, v * 0 + 7]))
    assert (K.count_params(v), K.dtype(v), K.eye(2).numpy().trace()) == (6, "float32", 2.0)
    assert K.cast_to_floatx(np.arange(3)).dtype == "float32"
    assert K.arange(3).dtype == "int32"
    assert not K.is_sparse(v)


def test_a_function_returns_the_outputs_of_layers() -> None:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, "relu")])
    model.add(tf.keras.layers.Dropout(0.5))

    run = K.function([model.inputs[0], K.learning_phase()], [model.layers[0].output, model.output])

    first, last = run([A, 0])
    np.testing.assert_allclose(first, model.layers[0](A), rtol=1e-6)
    np.testing.assert_array_equal(first, last)
    dropped = run([A, 1])[1]
    np.testing.assert_allclose(dropped[dropped != 0], 2 * first[dropped != 0], rtol=1e-6)


IMAGES = rng.normal(size=(2, 6, 5, 3))
FILTERS = rng.normal(size=(3, 2, 3, 4))


def convolved(x: np.ndarray, filters: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, filters.shape[:2], axis=(1, 2))
    return np.einsum("bhwcij,ijcf->bhwf", windows, filters)


def test_convolutions_of_images_in_both_formats() -> None:
    wanted = convolved(IMAGES, FILTERS)
    first = np.moveaxis(IMAGES, -1, 1)

    np.testing.assert_allclose(K.conv2d(IMAGES, FILTERS), wanted, rtol=1e-10)
    found = K.conv2d(first, FILTERS, data_format="channels_first")
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), wanted, rtol=1e-10)
    single = np.einsum("ijcf->ijc", FILTERS)[..., None] * np.eye(3)[None, None]
    alone = np.einsum("ijcd->ijc", single)[..., None]
    np.testing.assert_allclose(K.depthwise_conv2d(IMAGES, alone), convolved(IMAGES, single))


def test_a_causal_convolution_sees_no_later_step() -> None:
    x, filters = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 3, 4))

    found = K.conv1d(x, filters, padding="causal", dilation_rate=2)

    earlier = np.concatenate([np.zeros((2, 2, 3)), x[:, :-2]], axis=1)
    np.testing.assert_allclose(found, earlier @ filters[0] + x @ filters[1], rtol=1e-10)


def test_a_transposed_convolution_is_the_adjoint() -> None:
    y = rng.normal(size=(2, 4, 4, 4))

    back = K.conv2d_transpose(y, FILTERS, (None, 6, 5, 3))

    left, right = (convolved(IMAGES, FILTERS) * y).sum(), (IMAGES * back.numpy()).sum()
    np.testing.assert_allclose(left, right, rtol=1e-10)


def test_pools_paddings_and_sizes_of_images() -> None:
    even = IMAGES[:, :, :4]
    blocks = even.reshape(2, 3, 2, 2, 2, 3)

    np.testing.assert_allclose(K.pool2d(even, (2, 2), (2, 2)), blocks.max((2, 4)))
    means = K.pool2d(even, (2, 2), (2, 2), pool_mode="avg")
    np.testing.assert_allclose(means, blocks.mean((2, 4)))
    padded = np.pad(IMAGES, ((0, 0), (1, 2), (0, 3), (0, 0)))
    np.testing.assert_array_equal(K.spatial_2d_padding(IMAGES, ((1, 2), (0, 3))), padded)
    steps = IMAGES[:, 0]
    np.testing.assert_array_equal(
        K.temporal_padding(steps), np.pad(steps, ((0, 0), (1, 1), (0, 0)))
    )
    larger = K.resize_images(IMAGES, 2, 3, "channels_last")
    np.testing.assert_allclose(larger, IMAGES.repeat(2, 1).repeat(3, 2), rtol=1e-6)
    volumes = K.resize_volumes(IMAGES[:, None], 1, 2, 2, "channels_last")
    np.testing.assert_array_equal(volumes, IMAGES[:, None].repeat(2, 2).repeat(2, 3))
    with pytest.raises(ValueError, match="pool_mode"):
        K.pool2d(even, (2, 2), pool_mode="min")


def test_biases_by_channel_and_by_place() -> None:
    first = np.moveaxis(IMAGES, -1, 1)
    bias, places = np.arange(3.0), rng.normal(size=(6, 5, 3))

    np.testing.assert_array_equal(K.bias_add(IMAGES, bias), IMAGES + bias)
    np.testing.assert_array_equal(K.bias_add(IMAGES, places), IMAGES + places)
    found = K.bias_add(first, places, "channels_first")
    np.testing.assert_array_equal(found, np.moveaxis(IMAGES + places, -1, 1))
    found = K.bias_add(first, bias, "channels_first")
    np.testing.assert_array_equal(found, np.moveaxis(IMAGES + bias, -1, 1))


@pytest.mark.parametrize("zeroed", [False, True])
def test_a_recurrence_skips_masked_steps(zeroed: bool) -> None:
    x = rng.normal(size=(2, 5, 3))
    mask = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 1]], bool)

    def step(entry: Any, states: Any) -> Any:
        new = 0.5 * states[0] + entry * states[1]
        return new, [new]

    last, outputs, states = K.rnn(
        step,
        tf.constant(x),
        [tf.zeros((2, 3), "float64")],
        mask=tf.constant(mask),
        constants=[tf.constant(2.0, "float64")],
        zero_output_for_mask=zeroed,
    )

    state, before = np.zeros((2, 3)), np.zeros((2, 3))
    for t in range(5):
        seen = mask[:, t, None]
        new = 0.5 * state + 2 * x[:, t]
        state = np.where(seen, new, state)
        before = np.where(seen, new, np.zeros((2, 3)) if zeroed else before)
        np.testing.assert_allclose(outputs[:, t], before, rtol=1e-12)
    np.testing.assert_allclose(states[0], state, rtol=1e-12)
    np.testing.assert_allclose(last, before, rtol=1e-12)


def test_a_recurrence_runs_backwards_and_ends_at_lengths() -> None:
    x = rng.normal(size=(2, 4, 3))
    start = [tf.zeros((2, 3), "float64")]

    def total(entry: Any, states: Any) -> Any:
        return states[0] + entry, [states[0] + entry]

    outputs = K.rnn(total, x, start, go_backwards=True)[1]
    np.testing.assert_allclose(outputs, x[:, ::-1].cumsum(1), rtol=1e-12)
    outputs = K.rnn(total, x, start, input_length=[4, 2])[1]
    np.testing.assert_array_equal(outputs[1, 2:], np.zeros((2, 3)))
    np.testing.assert_allclose(outputs[0], x[0].cumsum(0), rtol=1e-12)


def test_draws_have_the_default_dtype() -> None:
    drawn = K.random_binomial((1000,), p=0.25, seed=3)
    assert sorted(set(drawn.tolist())) == [0.0, 1.0]
    assert 0.2 < float(K.mean(drawn)) < 0.3
    assert abs(K.truncated_normal((100,))).numpy().max() <= 2
    assert K.random_uniform_variable((2,), 3.0, 4.0).numpy().min() >= 3
    assert K.random_normal_variable((2, 2), 0.0, 1.0).dtype == "float32"


def test_the_training_phase_chooses_a_branch() -> None:
    class Phase(tf.keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return K.in_train_phase(lambda: 2.0 * x, x)

    x = tf.constant(A)
    np.testing.assert_array_equal(Phase()(x, training=True), 2 * A)
    np.testing.assert_array_equal(Phase()(x), A)
    assert K.in_test_phase(1, 2, training=True) == 2
