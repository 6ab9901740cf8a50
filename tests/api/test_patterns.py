"""Common programs with TensorFlow's tape."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def random():
    return np.random.default_rng(0)


def dense(random, inputs, outputs):
    """Weights and bias of a layer."""
    weights = random.normal(size=(inputs, outputs)) / np.sqrt(inputs)
    return tf.Variable(weights), tf.Variable(np.zeros(outputs))


def mlp(layers, x):
    for w, b in layers[:-1]:
        x = tf.tanh(tf.matmul(x, w) + b)
    w, b = layers[-1]
    return tf.matmul(x, w) + b


def variables_of(layers):
    return [variable for layer in layers for variable in layer]


def numeric(function, x, step=1e-6):
    """Central differences of a scalar function of an array."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


def test_plain_training_loop(random):
    layers = [dense(random, 2, 8), dense(random, 8, 1)]
    x = tf.constant(random.normal(size=(64, 2)))
    y = tf.constant(np.sin(x.numpy()[:, :1]) + x.numpy()[:, 1:])
    losses = []
    for _ in range(200):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(mlp(layers, x) - y))
        gradients = tape.gradient(loss, variables_of(layers))
        for variable, gradient in zip(variables_of(layers), gradients, strict=True):
            variable.assign_sub(0.2 * gradient)
        losses.append(float(loss))

    assert losses[-1] < 0.1 * losses[0]


def test_training_loop_with_an_optimizer(random):
    layers = [dense(random, 2, 8), dense(random, 8, 1)]
    optimizer = tf.optimizers.SGD(learning_rate=0.2)
    x = tf.constant(random.normal(size=(64, 2)))
    losses = []
    for _ in range(50):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(mlp(layers, x) - x[:, :1]))
        gradients = tape.gradient(loss, tape.watched_variables())
        optimizer.apply_gradients(zip(gradients, tape.watched_variables(), strict=True))
        losses.append(float(loss))

    assert losses[-1] < 0.5 * losses[0]


def test_two_models_and_two_tapes_in_one_with(random):
    generator, critic = [dense(random, 2, 3)], [dense(random, 3, 1)]
    noise, real = tf.constant(random.normal(size=(4, 2))), tf.constant(random.normal(size=(4, 3)))
    with tf.GradientTape() as generator_tape, tf.GradientTape() as critic_tape:
        fake = mlp(generator, noise)
        on_fake, on_real = mlp(critic, fake), mlp(critic, real)
        generator_loss = -tf.reduce_mean(on_fake)
        critic_loss = tf.reduce_mean(on_fake) - tf.reduce_mean(on_real)
    of_generator = generator_tape.gradient(generator_loss, generator[0][0])
    of_critic = critic_tape.gradient(critic_loss, critic[0][0])

    expected = -noise.numpy().mean(0)[:, None] * critic[0][0].numpy()[:, 0]
    np.testing.assert_allclose(of_generator.numpy(), expected)
    difference = fake.numpy().mean(0) - real.numpy().mean(0)
    np.testing.assert_allclose(of_critic.numpy()[:, 0], difference)


def test_one_persistent_tape_and_several_losses(random):
    w = tf.Variable(random.normal(size=3))
    with tf.GradientTape(persistent=True) as tape:
        shared = w * w
        first = tf.reduce_sum(shared)
        second = tf.reduce_sum(shared * w)

    np.testing.assert_allclose(tape.gradient(first, w).numpy(), 2 * w.numpy())
    np.testing.assert_allclose(tape.gradient(second, w).numpy(), 3 * w.numpy() ** 2)


def test_gradient_penalty(random):
    layers = [dense(random, 2, 4), dense(random, 4, 1)]
    x = random.normal(size=(5, 2))

    def penalty(weights):
        changed = [(weights, layers[0][1]), layers[1]]
        points = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(points)
            y = mlp(changed, points)
        slope = tape.gradient(y, points)
        norm = tf.sqrt(tf.reduce_sum(tf.square(slope), axis=1))
        return tf.reduce_mean(tf.square(norm - 1.0))

    w = layers[0][0]
    with tf.GradientTape() as outer:
        loss = penalty(w)
    gradient = outer.gradient(loss, w)

    expected = numeric(lambda value: float(penalty(tf.constant(value))), w.numpy())
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Calling gradient")
def test_physics_informed_net_with_a_persistent_tape(random):
    layers = [dense(random, 2, 8), dense(random, 8, 1)]
    t, x = tf.constant(random.normal(size=(6, 1))), tf.constant(random.normal(size=(6, 1)))

    def residual():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([t, x])
            u = mlp(layers, tf.concat([t, x], axis=1))
            u_x = tape.gradient(u, x)
        u_t, u_xx = tape.gradient(u, t), tape.gradient(u_x, x)
        return u_t + u * u_x - 0.1 * u_xx

    w = layers[0][0]
    with tf.GradientTape() as outer:
        loss = tf.reduce_mean(tf.square(residual()))
    gradient = outer.gradient(loss, w)

    def loss_at(value):
        w.assign(value)
        return float(tf.reduce_mean(tf.square(residual())))

    expected = numeric(loss_at, w.numpy())
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-4, atol=1e-7)


def test_functional_maml_step(random):
    layers = [dense(random, 1, 4), dense(random, 4, 1)]
    x, y = tf.constant(random.normal(size=(5, 1))), tf.constant(random.normal(size=(5, 1)))

    def loss_of(weights):
        return tf.reduce_mean(tf.square(mlp(weights, x) - y))

    def adapted_loss(first_weights):
        weights = [(first_weights, layers[0][1]), layers[1]]
        flat = [tf.convert_to_tensor(value) for value in variables_of(weights)]
        with tf.GradientTape() as inner:
            inner.watch(flat)
            loss = loss_of([flat[:2], flat[2:]])
        gradients = inner.gradient(loss, flat)
        fast = [value - 0.1 * slope for value, slope in zip(flat, gradients, strict=True)]
        return loss_of([fast[:2], fast[2:]])

    w = layers[0][0]
    with tf.GradientTape() as outer:
        loss = adapted_loss(w)
    gradient = outer.gradient(loss, w)

    expected = numeric(lambda value: float(adapted_loss(tf.constant(value))), w.numpy())
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-5, atol=1e-8)


def test_input_attribution_by_integrated_gradients(random):
    layers = [dense(random, 3, 5), dense(random, 5, 1)]
    x = random.normal(size=3)
    steps = (np.arange(200) + 0.5)[:, None] / 200
    path = tf.constant(steps * x)
    with tf.GradientTape() as tape:
        tape.watch(path)
        y = mlp(layers, path)
    attribution = tape.gradient(y, path).numpy().mean(0) * x

    ends = mlp(layers, tf.constant(np.stack([x, np.zeros(3)]))).numpy()[:, 0]
    assert attribution.sum() == pytest.approx(ends[0] - ends[1], rel=1e-4)


def test_input_attribution_through_an_intermediate(random):
    layers = [dense(random, 3, 5), dense(random, 5, 1)]
    x = tf.constant(random.normal(size=(1, 3)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        features = tf.tanh(tf.matmul(x, layers[0][0]) + layers[0][1])
        score = tf.matmul(features, layers[1][0])
    of_features, of_x = tape.gradient(score, [features, x])

    np.testing.assert_allclose(of_features.numpy()[0], layers[1][0].numpy()[:, 0])
    expected = (of_features.numpy() * (1 - features.numpy() ** 2)) @ layers[0][0].numpy().T
    np.testing.assert_allclose(of_x.numpy(), expected)


def test_batch_jacobian_of_a_layer(random):
    layers = [dense(random, 3, 5), dense(random, 5, 2)]
    x = tf.constant(random.normal(size=(4, 3)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = mlp(layers, x)
    jacobians = tape.batch_jacobian(y, x, check_independence=True)

    per_example = tf.vmap(tf.jacobian(lambda row: mlp(layers, row[None])[0], mode="reverse"))(x)
    np.testing.assert_allclose(jacobians.numpy(), per_example.numpy())


def test_newton_step_from_a_hessian():
    target = np.array([1.0, -2.0])

    def loss_of(x):
        difference = x - target
        return tf.reduce_sum(tf.square(difference)) + difference[0] * difference[1]

    x = tf.Variable(np.array([5.0, 7.0]))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = loss_of(x)
        gradient = inner.gradient(loss, x)
    hessian = outer.jacobian(gradient, x)
    step = tf.linalg.solve(hessian, gradient[:, None])[:, 0]
    x.assign_sub(step)

    np.testing.assert_allclose(x.numpy(), target, atol=1e-12)


def test_straight_through_estimator_with_stop_gradient(random):
    codes = tf.Variable(random.normal(size=(4, 2)))
    encoded = tf.Variable(random.normal(size=(3, 2)))
    with tf.GradientTape() as tape:
        distances = tf.reduce_sum(tf.square(encoded[:, None] - codes), axis=2)
        chosen = tf.gather(codes, tf.argmin(distances, axis=1))
        quantized = encoded + tf.stop_gradient(chosen - encoded)
        loss = tf.reduce_sum(quantized * [[1.0, 10.0]])
    of_encoded, of_codes = tape.gradient(loss, [encoded, codes])

    np.testing.assert_allclose(quantized.numpy(), chosen.numpy())
    assert of_encoded.numpy().tolist() == [[1.0, 10.0]] * 3
    assert of_codes is None


def test_straight_through_estimator_with_grad_pass_through():
    x = tf.Variable([0.2, 1.7])
    with tf.GradientTape() as tape:
        y = tf.grad_pass_through(tf.round)(x) * 3.0

    assert y.numpy().tolist() == [0.0, 6.0]
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]


def test_embedding_training_touches_only_the_rows_that_were_used(random):
    table = tf.Variable(random.normal(size=(5, 2)))
    before = table.numpy()
    optimizer = tf.optimizers.SGD(learning_rate=0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 3, 3]))
    gradient = tape.gradient(loss, table)
    optimizer.apply_gradients([(gradient, table)])

    assert isinstance(gradient, tf.IndexedSlices)
    changed = np.zeros((5, 2))
    changed[1], changed[3] = 0.1, 0.2
    np.testing.assert_allclose(before - table.numpy(), changed, atol=1e-12)
