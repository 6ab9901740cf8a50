"""Inputs that lie elsewhere at each call: graphs read them there, without captures or copies."""

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy.graphs import capture_graph

SETS = 8


@pytest.fixture(autouse=True)
def on_the_gpu():
    with tf.device("cuda:0"):
        yield


def batches(*shapes, dtype="float32", offset=0):
    """Sets of inputs, each at other addresses; `offset` elements lie before each of them."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(SETS):
        arrays = []
        for shape in shapes:
            size = int(np.prod(shape))
            whole = cupy.asarray(rng.normal(size=size + offset).astype(dtype))
            arrays.append(tf.convert_to_tensor(whole[offset:].reshape(shape)))
        found.append(arrays)
    return found


def captured(function):
    (entry,) = function._entries.values()
    return entry.program._run


@pytest.fixture
def copies(monkeypatch):
    """One entry for each copy of an input to a fixed address."""
    found = []
    launch = capture_graph.Graph.launch

    def counted(self, *args):
        found.extend(self._fixed)
        return launch(self, *args)

    monkeypatch.setattr(capture_graph.Graph, "launch", counted)
    return found


def elementwise(x, y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = tf.reduce_sum(tf.tanh(x * y + 1.0))
    return tape.gradient(z, [x, y])


def product(x, y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = tf.reduce_sum(tf.tanh(x @ y))
    return [z, *tape.gradient(z, [x, y])]


def convolution(x, y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = tf.reduce_mean(tf.square(tf.nn.relu(tf.nn.conv2d(x, y, 1, "SAME"))))
    return [z, *tape.gradient(z, [x, y])]


def rows(x, y):
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x))
    return [z, tape.gradient(z, x)]


def attention(x, y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = tf.reduce_sum(tf.square(tf.nn.scaled_dot_product_attention(x, y, y)))
    return [z, *tape.gradient(z, [x, y])]


def pieces(x, y):
    return [tf.concat([x[1:], y[:-1]], 0), tf.transpose(x), tf.cumsum(y, 0), tf.sort(x, -1)]


def by_cupy(x, y):
    """A kernel that CuPy generates leaves a part of its arguments as it was."""
    return [tf.math.lgamma(tf.abs(x)) + y, tf.math.digamma(tf.abs(y) + 1.0)]


PROGRAMS = {
    "by CuPy": (by_cupy, (1 << 19,), (1 << 19,)),
    "elementwise": (elementwise, (1 << 20,), (1 << 20,)),
    "small": (elementwise, (33,), (33,)),
    "product": (product, (1024, 768), (768, 1536)),
    "convolution": (convolution, (16, 64, 64, 16), (3, 3, 16, 32)),
    "rows": (rows, (1024, 1000), (1024, 1000)),
    "attention": (attention, (4, 8, 512, 64), (4, 8, 512, 64)),
    "pieces": (pieces, (960, 1000), (960, 1000)),
}


@pytest.mark.parametrize("offset", [0, 1, 4], ids=["aligned", "by-4", "by-16"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_eager_mode(name, dtype, offset, copies):
    program, *shapes = PROGRAMS[name]
    sets = batches(*shapes, dtype=dtype, offset=offset)
    expected = [[r.numpy() for r in program(*one)] for one in sets]
    recorded = tf.function(program)

    for k in range(3 * SETS):
        found = recorded(*sets[k % SETS])
        for one, other in zip(found, expected[k % SETS], strict=True):
            precision = 2e-2 if dtype == "float16" else 1e-4
            scale = np.abs(other.astype("float64")).max()
            np.testing.assert_allclose(
                one.numpy(), other, rtol=precision, atol=precision * scale, err_msg=f"call {k}"
            )

    assert captured(recorded).reason == captured(recorded).why_copied == ""
    assert captured(recorded)._captures <= 2
    assert copies == []


def test_alignments_that_vary(copies):
    data = cupy.asarray(np.random.default_rng(3).normal(size=(40_000, 33)).astype("float32"))
    recorded = tf.function(product)
    y = tf.convert_to_tensor(cupy.asarray(np.ones((33, 8), "float32")))

    for start in range(0, 300, 7):
        x = tf.convert_to_tensor(data[start : start + 9_000])
        for one, other in zip(recorded(x, y), product(x, y), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-4)

    assert captured(recorded).reason == ""


def test_a_training_step_with_another_batch_each_time(copies):
    def training():
        tf.random.set_seed(0)
        model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
        model.build((None, 100))
        optimizer = tf.optimizers.Adam(0.01)

        def step(x, y):
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        return step

    rng = np.random.default_rng(0)
    with tf.device("cuda:0"):
        sets = [
            (
                tf.constant(rng.normal(size=(64, 100)), "float32"),
                tf.constant(rng.integers(10, size=64)),
            )
            for _ in range(SETS)
        ]
        eager, recorded = training(), tf.function(training())
        expected = [float(eager(*sets[k % SETS])) for k in range(24)]
        found = [float(recorded(*sets[k % SETS])) for k in range(24)]

    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert captured(recorded)._captures <= 2
    assert copies == []


def test_a_small_input_that_many_kernels_read_is_copied(copies):
    def many(x):
        return [tf.sort(tf.roll(x, k, 0)) for k in range(20)]

    sets = batches((100,))
    recorded = tf.function(many)
    for k in range(2 * SETS):
        for a, b in zip(recorded(*sets[k % SETS]), many(*sets[k % SETS]), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())

    assert copies


def test_the_same_array_for_two_inputs_and_then_two_arrays():
    recorded = tf.function(lambda x, y: tf.tanh(x) @ y)
    sets = batches((600, 600), (600, 600))
    for k in range(SETS):
        x, y = sets[k]
        for a, b in ((x, x), (x, y), (y, x)):
            np.testing.assert_allclose(
                recorded(a, b).numpy(), (tf.tanh(a) @ b).numpy(), rtol=1e-4, atol=1e-4
            )


def test_variables_that_are_assigned_are_read_where_they_are():
    v = tf.Variable(cupy.zeros(1 << 19, "float32"))
    recorded = tf.function(lambda x: tf.reduce_sum(x * v))
    x = tf.convert_to_tensor(cupy.ones(1 << 19, "float32"))

    for k in range(12):
        v.assign(cupy.full(1 << 19, k, "float32"))
        assert float(recorded(x)) == k * (1 << 19)


def test_results_of_earlier_calls_stay():
    recorded = tf.function(lambda x: x * 2.0)
    sets = batches((1000,))

    kept = [recorded(*one) for one in sets * 2]

    for k, result in enumerate(kept):
        np.testing.assert_array_equal(result.numpy(), 2 * sets[k % SETS][0].numpy())
