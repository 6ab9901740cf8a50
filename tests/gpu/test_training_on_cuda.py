"""A training step on the GPU copies nothing to the host, and equals that on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf

OPTIMIZERS = [
    lambda: tf.optimizers.SGD(0.1),
    lambda: tf.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    lambda: tf.optimizers.Adam(0.01, global_clipnorm=1.0),
    lambda: tf.optimizers.AdamW(0.01),
    lambda: tf.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    lambda: tf.optimizers.Adagrad(0.1),
]


def losses(place: str, make_optimizer) -> list[float]:
    rng = np.random.default_rng(0)
    with tf.device(place):
        x = tf.constant(rng.normal(size=(64, 8)).astype("float32"))
        labels = tf.constant(rng.integers(0, 3, 64))
        w1 = tf.Variable(rng.normal(size=(8, 16)).astype("float32"))
        w2 = tf.Variable(rng.normal(size=(16, 3)).astype("float32"))
        optimizer = make_optimizer()
        history = []
        for _ in range(10):
            with tf.GradientTape() as tape:
                logits = tf.nn.relu(x @ w1) @ w2
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                )
            gradients = tape.gradient(loss, [w1, w2])
            assert all(g.device == w1.device for g in gradients)
            optimizer.apply_gradients(zip(gradients, [w1, w2], strict=True))
            history.append(loss)
        return [float(loss) for loss in history]


@pytest.mark.parametrize("make_optimizer", OPTIMIZERS)
def test_training_equals_the_cpu(make_optimizer) -> None:
    np.testing.assert_allclose(
        losses("cuda:0", make_optimizer), losses("cpu", make_optimizer), rtol=2e-4
    )


def test_the_same_seed_gives_the_same_numbers() -> None:
    draws = []
    for place in ("cpu", "cuda:0"):
        with tf.device(place):
            generator = tf.random.Generator.from_seed(7)
            draws.append([generator.uniform((1000,)).numpy(), generator.normal((1000,)).numpy()])

    np.testing.assert_array_equal(draws[0][0], draws[1][0])
    np.testing.assert_allclose(draws[0][1], draws[1][1], rtol=1e-4, atol=1e-5)


def test_a_host_array_moves_to_the_tensors_device() -> None:
    with tf.device("cuda:0"):
        x = tf.constant([1.0, 2.0])

    y = x * np.array([3.0, 4.0])

    assert y.device == "cuda:0"
    assert y.numpy().tolist() == [3.0, 8.0]


def test_moving_between_devices_is_differentiable() -> None:
    with tf.device("cpu"):
        x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.to_device(x, "cuda:0") ** 2

    gradient = tape.gradient(y, x)

    assert (y.device, gradient.device) == ("cuda:0", "cpu")
    assert gradient.numpy().tolist() == [2.0, 4.0]


def test_mixed_devices_are_refused_with_both_names() -> None:
    with tf.device("cuda:0"):
        x = tf.constant([1.0])
    with tf.device("cpu"):
        y = tf.constant([1.0])

    with pytest.raises(ValueError, match="cuda:0 and cpu"):
        x + y


def test_cupy_arrays_go_in_and_come_out_without_a_copy() -> None:
    cupy = pytest.importorskip("cupy")
    array = cupy.arange(3.0)

    tensor = tf.convert_to_tensor(array)

    assert tensor.array.data.ptr == array.data.ptr
    assert cupy.from_dlpack(tensor).data.ptr == array.data.ptr
