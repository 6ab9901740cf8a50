"""Programs that must stay on their device, for the stand-in in CI and for a real GPU.

Each entry of `STEPS` prepares its data and variables on the current device and returns a function
that makes one step without reading anything back; what it returns is compared with the CPU's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tapegrad as tf

Step = Callable[[], list[Any]]

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.optimizers.SGD(0.1),
    "sgd-momentum": lambda: tf.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: tf.optimizers.Adam(0.01),
    "adam-amsgrad": lambda: tf.optimizers.Adam(0.01, amsgrad=True, clipnorm=1.0),
    "adamw": lambda: tf.optimizers.AdamW(0.01, global_clipnorm=1.0),
    "rmsprop": lambda: tf.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: tf.optimizers.Adagrad(0.1, clipvalue=0.5),
    "schedule": lambda: tf.optimizers.SGD(lambda step: 0.1 / (1.0 + tf.cast(step, "float32"))),
    "averages": lambda: tf.optimizers.SGD(0.1, use_ema=True, weight_decay=0.01),
}


def _values(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def _training(make_optimizer: Callable[[], Any]) -> Step:
    x, labels = tf.constant(_values(0, 8, 4)), tf.constant([0, 2, 1, 1, 0, 2, 2, 1])
    w1, b1 = tf.Variable(_values(1, 4, 5)), tf.Variable(np.zeros(5, "float32"))
    w2 = tf.Variable(_values(2, 5, 3))
    variables = [w1, b1, w2]
    optimizer = make_optimizer()

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(x @ w1 + b1)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, hidden @ w2)
            )
        gradients = tape.gradient(loss, variables)
        gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return [loss, norm, *variables]

    return step


def _embedding(make_optimizer: Callable[[], Any]) -> Step:
    table, ids = tf.Variable(_values(3, 6, 2)), tf.constant([[4, 1], [4, 0]])
    optimizer = make_optimizer()

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            rows = tf.gather(table, ids)
            last = tf.gather(table, [5, 5])
            loss = tf.reduce_sum(rows * rows) + tf.reduce_sum(last)
        gradient = tape.gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices)
        (clipped,), norm = tf.clip_by_global_norm([gradient], 1.0)
        optimizer.apply_gradients([(clipped, table)])
        return [loss, norm, table]

    return step


def _layers() -> Step:
    image = tf.constant(_values(4, 2, 6, 6, 3))
    kernel = tf.Variable(_values(5, 3, 3, 3, 4) * 0.3)
    gain, bias = tf.Variable(np.ones(4, "float32")), tf.Variable(np.zeros(4, "float32"))
    seed = tf.constant(np.array([1, 2], "int64"))

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            x = tf.nn.conv2d(image, kernel, strides=1, padding="SAME")
            x = tf.nn.max_pool2d(tf.nn.gelu(x), 2, 2, "VALID")
            x = tf.nn.layer_norm(x, gain, bias)
            x = tf.nn.stateless_dropout(tf.reshape(x, (2, 9, 4)), 0.25, seed)
            x = tf.nn.scaled_dot_product_attention(x, x, x)
            loss = tf.reduce_mean(tf.square(x)) + tf.reduce_logsumexp(x)
        return [loss, *tape.gradient(loss, [kernel, gain, bias])]

    return step


def _dropout() -> Step:
    x, generator = tf.Variable(_values(6, 4, 3)), tf.random.Generator.from_seed(3)

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            y = tf.nn.dropout(x, 0.5, rng=generator) + generator.normal((4, 3))
        return [y, tape.gradient(y, x)]

    return step


def _loop() -> Step:
    """A recurrent loop over slices, written in Python."""
    inputs, w = tf.constant(_values(7, 5, 2, 3)), tf.Variable(_values(8, 3, 3))

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            state, states = tf.zeros((2, 3)), []
            for k in range(5):
                state = tf.tanh(state @ w + inputs[k])
                states.append(state)
            loss = tf.reduce_sum(tf.stack(states)[:, 0] ** 2)
        return [loss, tape.gradient(loss, w)]

    return step


def _jacobians() -> Step:
    x, w = tf.constant(_values(9, 3, 2)), tf.constant(_values(10, 2, 4))

    def step() -> list[Any]:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, w])
            y = tf.tanh(x @ w)
            loss = tf.reduce_sum(y)
        return [tape.jacobian(y, w), tape.batch_jacobian(y, x), tape.hessian(loss, w)]

    return step


def _transforms() -> Step:
    x, v = tf.constant(_values(11, 4)), tf.constant(_values(12, 4))

    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.sin(x) * x)

    def step() -> list[Any]:
        value, gradient = tf.value_and_grad(f)(x)
        _, tangent = tf.jvp(f, (x,), (v,))
        each = tf.vmap(tf.grad(f))(tf.stack([x, v]))
        second = tf.hvp(f, x, v)
        return [value, gradient, tangent, each, second, tf.vectorized_map(f, tf.stack([x, v]))]

    return step


def _custom_gradient() -> Step:
    x = tf.Variable(_values(13, 4))

    @tf.custom_gradient
    def clipped(x: Any) -> Any:
        return x * 1.0, lambda upstream: tf.clip_by_value(upstream, -1.0, 1.0)

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(clipped(x) * 3.0) + tf.recompute_grad(tf.reduce_sum)(x * x)
        return [y, tape.gradient(y, x)]

    return step


def _writes() -> Step:
    x, v = tf.constant(_values(14, 3, 2)), tf.Variable(_values(15, 4))

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            y[1:] = y[:2] * 2.0
            y[0, 1] = 5.0
            total = tf.reduce_sum(y * y)
        v[1:3].assign([1.0, 2.0])
        v.scatter_add(tf.IndexedSlices(tf.constant([1.0]), tf.constant([3]), (4,)))
        v.assign_add(tf.ones((4,)))
        return [y, tape.gradient(total, x), v]

    return step


def _indices() -> Step:
    """Indices that the host knows, and some that only the device knows."""
    x, places = tf.constant(_values(16, 4, 3)), tf.constant([2, 0])

    def step() -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            parts = [
                tf.reduce_sum(x[[1, 3]]),
                tf.reduce_sum(x[places, 1:]),
                tf.reduce_sum(tf.gather_nd(x, [[0, 1], [3, 2]])),
                tf.reduce_sum(tf.one_hot(places, 3) @ tf.transpose(x)),
                tf.reduce_sum(tf.sort(x, axis=0)[:2]),
                tf.reduce_sum(tf.where(x > 0.0, x, x * 0.1)),
            ]
            total = tf.add_n(parts)
        return [total, tape.gradient(total, x), tf.argmax(x, 1), tf.unravel_index(places, (2, 2))]

    return step


STEPS: dict[str, Callable[[], Step]] = {
    **{f"training-{name}": partial(_training, make) for name, make in OPTIMIZERS.items()},
    **{
        f"embedding-{name}": partial(_embedding, OPTIMIZERS[name])
        for name in ("sgd", "adam", "adagrad")
    },
    "layers": _layers,
    "dropout": _dropout,
    "loop": _loop,
    "jacobians": _jacobians,
    "transforms": _transforms,
    "custom-gradient": _custom_gradient,
    "writes": _writes,
    "indices": _indices,
}


def results(name: str, place: str, guard: Callable[[], Any], rounds: int = 3) -> list[Any]:
    """Run the steps of a program on a device, each inside `guard()`; return what came out, read."""
    with tf.device(place):
        step = STEPS[name]()
        for _ in range(rounds):
            with guard():
                outputs = step()
        assert {output.device for output in outputs} == {place}
        return [output.numpy() for output in outputs]
