"""Calls that change something, for the injection of failures: steps, files and pipelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad import keras


@dataclass
class Case:
    """A call, and a function that returns all that it may change, as plain arrays."""

    call: Callable[[], Any]
    state: Callable[[], list[Any]]


def _arrays(variables: list[Any]) -> list[Any]:
    return [np.array(variable.numpy()) for variable in variables]


def _batch() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(4, 2)))


def eager_step(folder: Path) -> Case:
    """A tape, noise and an optimizer, without a function."""
    return _step(folder, is_recorded=False, calls=1)


def first_call(folder: Path) -> Case:
    """The call of a function that records."""
    return _step(folder, is_recorded=True, calls=0)


def replay(folder: Path) -> Case:
    """A call of a function that is compiled."""
    return _step(folder, is_recorded=True, calls=2)


def _step(folder: Path, is_recorded: bool, calls: int) -> Case:
    tf.random.set_seed(7)
    w, b = tf.Variable(np.ones((3, 2))), tf.Variable(np.zeros(2))
    optimizer = tf.optimizers.Adam(0.1)
    optimizer.build([w, b])
    x, y = _batch()

    def step() -> Any:
        # Eager code draws before it fails, and that is no fault.
        noise = tf.random.normal([4, 3], dtype="float64") if is_recorded else 0.5
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh((x + 0.1 * noise) @ w + b) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b]))
        return loss

    function = tf.function(step) if is_recorded else step
    for _ in range(calls):
        function()
    generator = tf.random.get_global_generator()
    return Case(function, lambda: _arrays([w, b, *optimizer.variables, generator.state]))


def loop_replay(folder: Path) -> Case:
    """A compiled loop that assigns variables after it."""
    return _loop(calls=2)


def loop_recording(folder: Path) -> Case:
    """The recording of a loop."""
    return _loop(calls=0)


def _loop(calls: int) -> Case:
    state, total = tf.Variable(np.linspace(0.0, 1.0, 5)), tf.Variable(0.0, dtype="float64")

    @tf.function
    def step(xs: Any) -> Any:
        with tf.GradientTape() as tape:
            states = tf.scan(lambda s, x: tf.tanh(0.9 * s + x), xs, state.value())
            loss = tf.reduce_sum(states * states)
        gradient = tape.gradient(loss, state)
        state.assign_sub(0.1 * gradient)
        total.assign_add(loss)
        return loss

    xs = tf.constant(np.random.default_rng(0).normal(size=(9, 5)))
    for _ in range(calls):
        step(xs)
    return Case(lambda: step(xs), lambda: _arrays([state, total]))


def outer_tape(folder: Path) -> Case:
    """A function under a tape, and an update by hand."""
    w = tf.Variable(np.ones((3, 2)))
    x, y = _batch()

    @tf.function
    def loss(x: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.nn.softplus(x @ w) - y))

    def call() -> None:
        with tf.GradientTape() as tape:
            value = loss(x)
        w.assign_sub(0.1 * tape.gradient(value, w))

    call()
    return Case(call, lambda: _arrays([w]))


def persistent_tape(folder: Path) -> Case:
    """A second gradient of a tape; the tape stays usable."""
    x = tf.constant([0.5, 1.5])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sin(x) * tf.exp(x))
    seen = tf.Variable(tf.zeros(2))

    def call() -> None:
        seen.assign_add(tape.gradient(y, x))

    return Case(call, lambda: _arrays([seen]))


def transforms(folder: Path) -> Case:
    """Batching, forward mode and jacobians leave nothing behind."""
    seen = tf.Variable(np.zeros(3))

    def call() -> None:
        x = tf.constant(np.array([0.1, 0.2, 0.3]))
        rows = tf.vectorized_map(lambda t: tf.sin(t) * t, x)
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = tf.exp(x) * rows
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.tanh(x) * y
        seen.assign_add(accumulator.jvp(y) + tf.reduce_sum(tape.jacobian(z, x), axis=0))

    return Case(call, lambda: _arrays([seen]))


def normalization(folder: Path) -> Case:
    """A layer with moving averages, in a function."""
    layer = keras.layers.BatchNormalization()
    x = tf.constant(np.random.default_rng(1).normal(size=(6, 3)).astype("f4"))
    layer(x)
    run = tf.function(lambda x: layer(x, training=True))
    run(x)
    return Case(lambda: run(x), lambda: _arrays(layer.weights))


def _saved(folder: Path, save: Callable[[Any], Any], load: Callable[[], Any]) -> Case:
    """A call that loads values, changes them and saves them; the state is what can be loaded."""
    variable = tf.Variable(np.arange(2000.0))
    save(variable)

    def call() -> None:
        variable.assign(np.asarray(load(), "f8").reshape(-1) * 0.5 + 1.0)
        save(variable)

    return Case(call, lambda: [np.asarray(load())])


def checkpoint(folder: Path) -> Case:
    """Writing a checkpoint over an older one."""
    other = tf.Variable(np.zeros(2000))

    def load() -> Any:
        tf.train.Checkpoint(v=other).read(str(folder / "ckpt")).assert_consumed()
        return other.numpy()

    return _saved(folder, lambda v: tf.train.Checkpoint(v=v).write(str(folder / "ckpt")), load)


def tensor_file(folder: Path) -> Case:
    """Writing weights over older ones."""
    model = keras.Sequential([keras.layers.Input((20,)), keras.layers.Dense(100, use_bias=False)])
    other = keras.Sequential([keras.layers.Input((20,)), keras.layers.Dense(100, use_bias=False)])
    path = folder / "a.safetensors"

    def save(v: Any) -> None:
        model.set_weights([v.numpy().reshape(20, 100).astype("f4")])
        model.save_weights(path)

    def load() -> Any:
        other.load_weights(path)
        return other.get_weights()[0]

    return _saved(folder, save, load)


def model_file(folder: Path) -> Case:
    """Writing a whole model over an older one."""
    model = keras.Sequential([keras.layers.Input((20,)), keras.layers.Dense(100, use_bias=False)])
    path = folder / "a.keras"

    def save(v: Any) -> None:
        model.set_weights([v.numpy().reshape(20, 100).astype("f4")])
        model.save(path)

    return _saved(folder, save, lambda: keras.models.load_model(path).get_weights()[0])


def saved_model(folder: Path) -> Case:
    """Writing a saved model over an older one."""

    class Holder(tf.Module):
        def __init__(self, v: Any) -> None:
            super().__init__()
            self.v = tf.Variable(v.numpy())

        @tf.function(input_signature=[tf.TensorSpec([], "float64")])
        def __call__(self, x: Any) -> Any:
            return self.v * x

    path = str(folder / "saved")
    return _saved(
        folder,
        lambda v: tf.saved_model.save(Holder(v), path),
        lambda: tf.saved_model.load(path)(tf.constant(1.0, dtype="float64")),
    )


def saved_dataset(folder: Path) -> Case:
    """Writing a dataset over an older one."""
    path = str(folder / "data")
    return _saved(
        folder,
        lambda v: tf.data.Dataset.from_tensor_slices(v.numpy().reshape(20, 100)).save(path),
        lambda: np.stack([one.numpy() for one in tf.data.Dataset.load(path)]),
    )


def pipeline(folder: Path) -> Case:
    """A dataset with all kinds of steps; a second reader begins at the beginning."""
    data = tf.data.Dataset.range(20).shuffle(20, seed=3, reshuffle_each_iteration=False)
    data = data.map(lambda x: x * 2, num_parallel_calls=2).batch(3).cache().prefetch(2)
    seen = tf.Variable(np.zeros(20))

    def call() -> None:
        rows = np.concatenate([one.numpy() for one in data])
        seen.assign_add(rows.astype("f8"))

    return Case(call, lambda: _arrays([seen]))


CASES = (
    eager_step, first_call, replay, loop_replay, loop_recording, outer_tape, persistent_tape,
    transforms, normalization, checkpoint, tensor_file, model_file, saved_model, saved_dataset,
    pipeline,
)  # fmt: skip
