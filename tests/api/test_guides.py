"""Programs like those in TensorFlow's guides, with `import tapegrad as tf` as the only change.

Autodiff, advanced autodiff, variables, tensor slicing, and training loops.
"""

from __future__ import annotations

import math

import pytest

import tapegrad as tf


def close(tensor, expected, tolerance=1e-5):
    """Whether a tensor has these values."""
    return bool(tf.reduce_all(tf.abs(tensor - tf.constant(expected)) <= tolerance))


class Dense(tf.Module):
    def __init__(self, inputs, outputs, activation=None, name=None):
        super().__init__(name=name)
        scale = math.sqrt(2.0 / inputs)
        self.w = tf.Variable(tf.random.normal([inputs, outputs], stddev=scale), name="w")
        self.b = tf.Variable(tf.zeros([outputs]), name="b")
        self.activation = activation

    def __call__(self, x):
        y = x @ self.w + self.b
        return y if self.activation is None else self.activation(y)


@pytest.fixture(autouse=True)
def seed():
    tf.random.set_seed(7)


# Introduction to gradients and automatic differentiation


def test_scalars():
    x = tf.Variable(3.0)

    with tf.GradientTape() as tape:
        y = x**2

    assert tape.gradient(y, x).numpy() == 6.0


def test_a_layer_with_a_list_or_a_dictionary_of_variables():
    w = tf.Variable(tf.random.normal((3, 2)), name="w")
    b = tf.Variable(tf.zeros(2, dtype=tf.float32), name="b")
    x = [[1.0, 2.0, 3.0]]

    with tf.GradientTape(persistent=True) as tape:
        y = x @ w + b
        loss = tf.reduce_mean(y**2)

    dl_dw, dl_db = tape.gradient(loss, [w, b])
    by_name = tape.gradient(loss, {"w": w, "b": b})

    assert (dl_dw.shape, dl_db.shape) == (w.shape, b.shape)
    assert close(by_name["b"], y[0].numpy())
    assert close(dl_dw, (tf.transpose(tf.constant(x)) @ y).numpy())


def test_a_model_of_modules():
    layer = Dense(3, 2, tf.nn.relu)
    x = tf.constant([[1.0, 2.0, 3.0]])

    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(x) ** 2)

    gradients = tape.gradient(loss, layer.trainable_variables)

    names = {v.name: tuple(g.shape) for v, g in zip(layer.trainable_variables, gradients)}
    assert names == {"w:0": (3, 2), "b:0": (2,)}


def test_what_is_watched():
    x0 = tf.Variable(3.0, name="x0")
    x1 = tf.Variable(3.0, name="x1", trainable=False)
    x2 = tf.Variable(2.0, name="x2") + 1.0
    x3 = tf.constant(3.0, name="x3")

    with tf.GradientTape() as tape:
        y = (x0**2) + (x1**2) + (x2**2)

    assert [v.name for v in tape.watched_variables()] == ["x0:0"]
    assert [g if g is None else float(g) for g in tape.gradient(y, [x0, x1, x2, x3])] == [
        6.0,
        None,
        None,
        None,
    ]


def test_watching_a_constant():
    x = tf.constant(3.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x**2

    assert tape.gradient(y, x).numpy() == 6.0


def test_watching_only_some_variables():
    x0, x1 = tf.Variable(0.0), tf.Variable(10.0)

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x1)
        y = tf.reduce_sum(tf.math.sin(x0) + tf.nn.softplus(x1))

    gradients = tape.gradient(y, {"x0": x0, "x1": x1})

    assert gradients["x0"] is None
    assert gradients["x1"].numpy() == pytest.approx(tf.nn.sigmoid(10.0).numpy())


def test_intermediate_results():
    x = tf.constant(3.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y

    assert tape.gradient(z, y).numpy() == 18.0


def test_a_persistent_tape():
    x = tf.constant([1, 3.0])

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y

    assert tape.gradient(z, x).numpy().tolist() == [4.0, 108.0]
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 6.0]
    del tape


def test_targets_that_are_not_scalar_are_summed():
    x = tf.Variable(2.0)

    with tf.GradientTape(persistent=True) as tape:
        y0 = x**2
        y1 = 1 / x
        y2 = x * [3.0, 4.0]

    assert tape.gradient({"y0": y0, "y1": y1}, x).numpy() == 3.75
    assert tape.gradient(y2, x).numpy() == 7.0


def test_elementwise_derivatives():
    x = tf.linspace(-10.0, 10.0, 200 + 1)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.sigmoid(x)

    assert close(tape.gradient(y, x), (y * (1 - y)).numpy())


@pytest.mark.parametrize(("start", "expected"), [(1.0, (1.0, None)), (-1.0, (None, -2.0))])
def test_control_flow(start, expected):
    x = tf.constant(start)
    v0, v1 = tf.Variable(2.0), tf.Variable(2.0)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        result = v0 if x > 0.0 else -(v1**2) / 2.0

    found = tape.gradient(result, [v0, v1])
    assert tuple(None if g is None else float(g) for g in found) == expected
    assert tape.gradient(result, x) is None


# Cases where the gradient is None


def test_none_because_nothing_connects_them():
    x, y = tf.Variable(2.0), tf.Variable(3.0)

    with tf.GradientTape() as tape:
        z = y * y

    assert "was never read" in tape.explain(z, x)
    assert tape.gradient(z, x) is None


def test_none_because_a_tensor_replaced_the_variable():
    x = tf.Variable(2.0)
    found = []

    for _ in range(2):
        with tf.GradientTape() as tape:
            y = x + 1
        found.append(tape.gradient(y, x))
        x = x + 1  # should be x.assign_add(1)

    assert float(found[0]) == 1.0
    assert found[1] is None


def test_no_none_through_numpy_functions():
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    np = pytest.importorskip("numpy")

    with tf.GradientTape() as tape:
        y = tf.reduce_mean(np.mean(x**2, axis=0))

    # In TensorFlow this is None; here NumPy's functions are recorded.
    assert close(tape.gradient(y, x), [[0.5, 1.0], [1.5, 2.0]])


@pytest.mark.filterwarnings("ignore:.*int32")
def test_none_through_integers():
    x = tf.constant(10)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x

    assert tape.gradient(y, x) is None


def test_none_through_the_state_of_a_variable():
    x0, x1 = tf.Variable(3.0), tf.Variable(0.0)

    with tf.GradientTape() as tape:
        x1.assign_add(x0)
        y = x1**2

    assert tape.gradient(y, x0) is None


def test_zero_instead_of_none():
    x, y = tf.Variable([2.0, 2.0]), tf.Variable(3.0)

    with tf.GradientTape() as tape:
        z = y**2

    zeros = tape.gradient(z, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zeros.numpy().tolist() == [0.0, 0.0]


# Advanced automatic differentiation


def test_stop_recording():
    x, y = tf.Variable(2.0), tf.Variable(3.0)

    with tf.GradientTape() as tape:
        x_sq = x * x
        with tape.stop_recording():
            y_sq = y * y
        z = x_sq + y_sq

    gradients = tape.gradient(z, {"x": x, "y": y})
    assert (float(gradients["x"]), gradients["y"]) == (4.0, None)


def test_reset_starts_over():
    x, y = tf.Variable(2.0), tf.Variable(3.0)
    reset = True

    with tf.GradientTape() as tape:
        y_sq = y * y
        if reset:
            tape.reset()
        z = x * x + y_sq

    gradients = tape.gradient(z, {"x": x, "y": y})
    assert (float(gradients["x"]), gradients["y"]) == (4.0, None)


def test_stop_gradient():
    x, y = tf.Variable(2.0), tf.Variable(3.0)

    with tf.GradientTape() as tape:
        z = x**2 + tf.stop_gradient(y**2)

    gradients = tape.gradient(z, {"x": x, "y": y})
    assert (float(gradients["x"]), gradients["y"]) == (4.0, None)


def test_a_custom_gradient_that_clips():
    @tf.custom_gradient
    def clip_gradients(y):
        def backward(dy):
            return tf.clip_by_norm(dy, 0.5)

        return y, backward

    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        output = clip_gradients(v * v)

    assert tape.gradient(output, v).numpy() == 2.0  # the 1 that arrives is clipped to 0.5


def test_several_tapes_with_fine_grained_watching():
    x0, x1 = tf.constant(0.0), tf.constant(0.0)

    with tf.GradientTape() as tape0, tf.GradientTape() as tape1:
        tape0.watch(x0)
        tape1.watch(x1)
        y0 = tf.math.sin(x0)
        y1 = tf.nn.sigmoid(x1)
        total = y0 + y1
        ys = tf.reduce_sum(total)

    assert tape0.gradient(ys, x0).numpy() == 1.0
    assert tape1.gradient(ys, x1).numpy() == 0.25


def test_higher_order_gradients():
    x = tf.Variable(1.0)

    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            y = x * x * x
        dy_dx = t1.gradient(y, x)
    d2y_dx2 = t2.gradient(dy_dx, x)

    assert (dy_dx.numpy(), d2y_dx2.numpy()) == (3.0, 6.0)


def test_input_gradient_regularisation():
    x = tf.random.normal([7, 5])
    layer = Dense(5, 10, tf.nn.relu)

    with tf.GradientTape() as t2:
        with tf.GradientTape(watch_accessed_variables=False) as t1:
            t1.watch(x)
            out = tf.reduce_sum(layer(x) ** 2)
        g1 = t1.gradient(out, x)
        magnitude = tf.norm(g1)

    d_magnitude = t2.gradient(magnitude, layer.trainable_variables)
    assert [tuple(g.shape) for g in d_magnitude] == [(10,), (5, 10)]
    assert all(float(tf.reduce_max(tf.abs(g))) > 0 for g in d_magnitude)


def test_the_jacobian_of_a_scalar_source():
    x = tf.linspace(-1.0, 1.0, 5)
    delta = tf.Variable(0.0)

    with tf.GradientTape() as tape:
        y = tf.nn.sigmoid(x + delta)

    dy_dx = tape.jacobian(y, delta)
    assert dy_dx.shape == y.shape
    assert close(dy_dx, (y * (1 - y)).numpy())


def test_the_jacobian_of_a_tensor_source():
    x = tf.random.normal([7, 5])
    layer = Dense(5, 10, tf.nn.relu)

    with tf.GradientTape(persistent=True) as tape:
        y = layer(x)

    j = tape.jacobian(y, layer.w)
    assert j.shape == (7, 10, 5, 10)
    assert close(tf.reduce_sum(j, axis=[0, 1]), tape.gradient(y, layer.w).numpy(), 1e-4)


def test_a_newton_step_from_the_hessian_of_a_small_network():
    x = tf.random.normal([7, 5])
    layers = [Dense(5, 8, tf.nn.tanh), Dense(8, 6, tf.nn.tanh)]
    w = layers[0].w

    def loss_at():
        return tf.reduce_mean(layers[1](layers[0](x)) ** 2)

    with tf.GradientTape() as t2:
        with tf.GradientTape() as t1:
            loss = loss_at()
        g = t1.gradient(loss, w)
    h = t2.jacobian(g, w)

    assert h.shape == (5, 8, 5, 8)
    count = 40
    h_mat = tf.reshape(h, [count, count])
    assert close(h_mat, tf.transpose(h_mat).numpy())
    # Damped, because far from a minimum the Hessian is not positive.
    damped = h_mat + tf.eye(count) * (1e-3 - float(tf.reduce_min(tf.linalg.eigvalsh(h_mat))))
    update = tf.linalg.solve(damped, tf.reshape(g, [count, 1]))
    w.assign_sub(0.1 * tf.reshape(update, w.shape))

    assert float(loss_at()) < float(loss)


def test_the_batch_jacobian():
    x = tf.random.normal([7, 5])
    layers = [Dense(5, 8, tf.nn.elu), Dense(8, 6, tf.nn.elu)]

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = layers[1](layers[0](x))

    full = tape.jacobian(y, x)
    batch = tape.batch_jacobian(y, x)

    assert (full.shape, batch.shape) == ((7, 6, 7, 5), (7, 6, 5))
    assert close(batch, tf.stack([full[i, :, i] for i in range(7)]).numpy())
    assert close(batch, tf.einsum("bxby->bxy", full).numpy())


# Introduction to variables


def test_variables_behave_like_tensors_and_are_assigned_to():
    a = tf.Variable([2.0, 3.0])
    b = tf.Variable(a)
    a.assign([5, 6])

    assert (a.numpy().tolist(), b.numpy().tolist()) == ([5.0, 6.0], [2.0, 3.0])
    assert a.assign_add([2, 3]).numpy().tolist() == [7.0, 9.0]
    assert a.assign_sub([7, 9]).numpy().tolist() == [0.0, 0.0]
    assert tf.argmax(b).numpy() == 1
    assert tf.reshape(tf.Variable([[1.0, 2.0]]), [2, 1]).shape == (2, 1)
    with pytest.raises(ValueError, match="expects shape"):
        a.assign([1.0, 2.0, 3.0])


def test_bool_and_complex_variables():
    assert tf.Variable([False, True]).dtype == tf.bool
    assert tf.Variable([5 + 4j, 6 + 1j]).dtype == tf.complex128


def test_variables_are_placed_on_a_device():
    with tf.device("CPU:0"):
        a = tf.Variable([[1.0, 2.0, 3.0]])
        b = tf.constant([[1.0], [2.0], [3.0]])

    assert tf.matmul(a, b).numpy().tolist() == [[14.0]]


# Tensors and slicing


def test_slices():
    t1 = tf.constant([0, 1, 2, 3, 4, 5, 6, 7])
    t2 = tf.reshape(tf.range(20), [4, 5])

    assert tf.slice(t1, begin=[1], size=[3]).numpy().tolist() == t1[1:4].numpy().tolist()
    assert t1[-3:].numpy().tolist() == [5, 6, 7]
    assert t2[:-1, 1:3].numpy().tolist() == [[1, 2], [6, 7], [11, 12]]
    assert tf.gather(t1, indices=[0, 3, 6]).numpy().tolist() == t1[::3].numpy().tolist()
    assert tf.gather_nd(t2, indices=[[2], [3], [0]])[:, 0].numpy().tolist() == [10, 15, 0]
    assert t2[..., tf.newaxis].shape == (4, 5, 1)


def test_scatter():
    indices = tf.constant([[2], [4], [6]])
    tensor = tf.zeros([8])

    added = tf.tensor_scatter_nd_add(tensor, indices, [5.0, 10.0, 15.0])
    back = tf.tensor_scatter_nd_sub(added, indices, [5.0, 10.0, 15.0])

    assert added.numpy().tolist() == [0, 0, 5, 0, 10, 0, 15, 0]
    assert not back.numpy().any()
    assert tf.scatter_nd(indices, [1, 2, 3], [8]).numpy().tolist() == [0, 0, 1, 0, 2, 0, 3, 0]


# Basic training loops


TRUE_W, TRUE_B = 3.0, 2.0


def line_data(count=201):
    x = tf.linspace(-2, 2, count)
    x = tf.cast(x, tf.float32)
    return x, x * TRUE_W + TRUE_B + 0.1 * tf.random.normal(shape=[count])


class Line(tf.Module):
    def __init__(self, **options):
        super().__init__(**options)
        self.w = tf.Variable(5.0)
        self.b = tf.Variable(0.0)

    def __call__(self, x):
        return self.w * x + self.b


def mean_squared(target, predicted):
    return tf.reduce_mean(tf.square(target - predicted))


def test_linear_regression_by_hand():
    x, y = line_data()
    model = Line()
    losses = []

    for _ in range(60):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        dw, db = tape.gradient(loss, [model.w, model.b])
        model.w.assign_sub(0.1 * dw)
        model.b.assign_sub(0.1 * db)
        losses.append(float(loss))

    assert losses[-1] < 0.02 < losses[0]
    assert abs(float(model.w) - TRUE_W) < 0.05
    assert abs(float(model.b) - TRUE_B) < 0.05


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.optimizers.SGD(0.1),
        lambda: tf.optimizers.SGD(0.05, momentum=0.9),
        lambda: tf.optimizers.Adam(0.2),
        lambda: tf.optimizers.RMSprop(0.1),
    ],
    ids=["sgd", "momentum", "adam", "rmsprop"],
)
def test_linear_regression_with_an_optimizer(optimizer):
    x, y = line_data()
    model, optimizer = Line(name="line"), optimizer()

    for _ in range(120):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    assert abs(float(model.w) - TRUE_W) < 0.15
    assert abs(float(model.b) - TRUE_B) < 0.15
