"""The core of programs like TensorFlow's tutorials."""

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


def test_two_models_and_two_tapes():
    generator, discriminator = Dense(4, 3), Dense(3, 1)
    noise, images = tf.random.normal([8, 4]), tf.random.normal([8, 3], mean=2.0)
    steps = [tf.optimizers.Adam(1e-2), tf.optimizers.Adam(1e-2)]

    def cross_entropy(labels, logits):
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(losses)

    for _ in range(5):
        with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
            fake = discriminator(generator(noise))
            real = discriminator(images)
            gen_loss = cross_entropy(tf.ones_like(fake), fake)
            disc_loss = cross_entropy(tf.ones_like(real), real) + cross_entropy(
                tf.zeros_like(fake), fake
            )
        pairs = [(gen_tape, gen_loss, generator), (disc_tape, disc_loss, discriminator)]
        for (tape, loss, model), optimizer in zip(pairs, steps):
            gradients = tape.gradient(loss, model.trainable_variables)
            assert None not in gradients
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    assert [int(optimizer.iterations) for optimizer in steps] == [5, 5]


def test_a_variational_autoencoder_step():
    encoder, decoder = Dense(6, 4), Dense(2, 6)
    x = tf.cast(tf.random.uniform([5, 6]) > 0.5, tf.float32)

    def log_normal(sample, mean, logvar):
        log2pi = tf.math.log(2.0 * math.pi)
        return tf.reduce_sum(
            -0.5 * ((sample - mean) ** 2.0 * tf.exp(-logvar) + logvar + log2pi), axis=1
        )

    def loss_of(x):
        mean, logvar = tf.split(encoder(x), num_or_size_splits=2, axis=1)
        z = tf.random.normal(shape=mean.shape) * tf.exp(logvar * 0.5) + mean
        logits = decoder(z)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=x)
        log_px_z = -tf.reduce_sum(entropy, axis=[1])
        return -tf.reduce_mean(log_px_z + log_normal(z, 0.0, 0.0) - log_normal(z, mean, logvar))

    variables = [*encoder.trainable_variables, *decoder.trainable_variables]
    optimizer = tf.optimizers.Adam(1e-2)
    losses = []
    for _ in range(60):
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        losses.append(float(loss))

    assert sum(losses[-10:]) < sum(losses[:10])


def test_a_gradient_penalty():
    critic = Dense(3, 1, tf.nn.tanh)
    real, fake = tf.random.normal([4, 3]), tf.random.normal([4, 3])
    alpha = tf.random.uniform([4, 1])

    with tf.GradientTape() as tape:
        mixed = real + alpha * (fake - real)
        with tf.GradientTape() as inner:
            inner.watch(mixed)
            score = critic(mixed)
        slope = inner.gradient(score, mixed)
        penalty = tf.reduce_mean((tf.norm(slope, axis=1) - 1.0) ** 2)

    assert all(g is not None for g in tape.gradient(penalty, [critic.w, critic.b]))


def test_a_straight_through_estimator():
    x = tf.Variable([0.2, 0.7])

    with tf.GradientTape() as tape:
        rounded = x + tf.stop_gradient(tf.round(x) - x)
        loss = tf.reduce_sum(rounded * [2.0, 3.0])

    assert float(loss) == 3.0
    assert tape.gradient(loss, x).numpy().tolist() == [2.0, 3.0]


@pytest.mark.filterwarnings("ignore:Calling gradient.. on a persistent tape inside its block")
def test_physics_informed_derivatives():
    x = tf.reshape(tf.linspace(0.0, 1.0, 5), [5, 1])
    net = [Dense(1, 8, tf.nn.tanh), Dense(8, 1)]

    with tf.GradientTape() as outer:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            u = net[1](net[0](x))
            u_x = tape.gradient(u, x)
        u_xx = tape.gradient(u_x, x)
        residual = tf.reduce_mean((u_xx + u) ** 2)

    gradients = outer.gradient(residual, [net[0].w, net[0].b, net[1].w])
    assert all(g is not None for g in gradients)


def test_adversarial_examples():
    layer = Dense(3, 2)
    image, label = tf.random.normal([1, 3]), tf.constant([0])

    def loss_of(image):
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=layer(image))
        )

    with tf.GradientTape() as tape:
        tape.watch(image)
        loss = loss_of(image)
    signed = tf.sign(tape.gradient(loss, image))

    assert float(loss_of(image + 0.1 * signed)) > float(loss)


def test_integrated_gradients_add_up_to_the_difference():
    layer = Dense(3, 1, tf.nn.tanh)
    image, baseline = tf.constant([[1.0, -0.5, 0.3]]), tf.zeros([1, 3])
    alphas = tf.linspace(0.0, 1.0, 101)

    path = baseline + alphas[:, tf.newaxis] * (image - baseline)
    with tf.GradientTape() as tape:
        tape.watch(path)
        scores = layer(path)
    gradients = tape.gradient(scores, path)
    average = tf.reduce_mean((gradients[:-1] + gradients[1:]) / 2.0, axis=0)
    attributions = (image - baseline) * average

    difference = layer(image) - layer(baseline)
    assert close(tf.reduce_sum(attributions), float(difference[0, 0]), 1e-3)


def test_per_example_gradients():
    layer = Dense(3, 2)
    x = tf.random.normal([4, 3])

    def squared_norm(example):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(example[tf.newaxis]) ** 2)
        return tf.reduce_sum(tape.gradient(loss, layer.w) ** 2)

    together = tf.vectorized_map(squared_norm, x)
    one_by_one = [float(squared_norm(x[i])) for i in range(4)]

    assert close(together, one_by_one, 1e-3)
