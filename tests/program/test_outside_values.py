"""Values outside of a function: tensors of closures, attributes of layers and optimizers."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.explanation import MANY_PROGRAMS

# Tensors of a closure under a tape


def test_the_gradient_follows_a_captured_tensor() -> None:
    w = tf.Variable(3.0)
    for _ in range(3):
        with tf.GradientTape() as tape:
            c = w * w
            y = tf.function(lambda x, c=c: x * c)(w.value())
        assert float(tape.gradient(y, w)) == 27.0


def test_the_gradient_follows_a_captured_tensor_that_is_new_at_each_call() -> None:
    w = tf.Variable(3.0)
    held: dict[str, Any] = {}
    f = tf.function(lambda x: x * held["c"] + tf.square(held["c"]))

    for value in (3.0, 2.0, 1.0):
        w.assign(value)
        with tf.GradientTape() as tape:
            held["c"] = w * w
            y = f(tf.constant(5.0))
        assert float(y) == 5.0 * value**2 + value**4
        assert float(tape.gradient(y, w)) == 10.0 * value + 4.0 * value**3


def test_a_captured_tensor_that_is_computed_with_before_it_meets_an_argument() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        c = tf.exp(x)
        y = tf.function(lambda z: z * tf.reduce_sum(c * c))(x)
        direct = x * tf.reduce_sum(c * c)
    found, expected = tape.gradient(y, x), tape.gradient(direct, x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(y, c), tape.gradient(direct, c), rtol=1e-6)


def test_a_captured_tensor_that_is_returned_as_it_is() -> None:
    w = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        c = w * w
        y, z = tf.function(lambda x: (c, x))(w.value())
    assert float(tape.gradient([y, z], w)) == 7.0


def test_a_captured_tensor_that_a_later_tape_watches() -> None:
    c = tf.constant(2.0)
    f = tf.function(lambda x: x * c * c)
    x = tf.constant(5.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        f(x)
    with tf.GradientTape() as tape:
        tape.watch([x, c])
        y = f(x)
    assert [float(g) for g in tape.gradient(y, [x, c])] == [4.0, 20.0]


def test_second_derivatives_of_a_captured_tensor() -> None:
    w = tf.Variable(2.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            c = w * w * w
            y = tf.function(lambda x: x * c)(w.value())
        first = inner.gradient(y, w)
    assert (float(first), float(outer.gradient(first, w))) == (32.0, 48.0)


def test_captures_of_a_function_that_is_recorded_inside_another() -> None:
    w = tf.Variable(3.0)

    @tf.function
    def outer(x: Any) -> Any:
        c = w * w
        return tf.function(lambda z: z * c)(x)

    with tf.GradientTape() as tape:
        y = outer(w.value())
    assert float(tape.gradient(y, w)) == 27.0


# Tensors of a closure without a tape


def test_a_captured_tensor_that_is_replaced() -> None:
    held = {"c": tf.constant(2.0)}
    f = tf.function(lambda x: x * held["c"])

    assert [float(f(tf.constant(3.0))) for _ in range(2)] == [6.0, 6.0]
    held["c"] = tf.constant(5.0)
    assert [float(f(tf.constant(3.0))) for _ in range(2)] == [15.0, 15.0]


def test_a_captured_tensor_that_is_written_to() -> None:
    c = tf.constant([1.0, 2.0])
    f = tf.function(lambda x: x + c)

    f(tf.zeros([2]))
    c[0] = 10.0
    assert f(tf.zeros([2])).numpy().tolist() == [10.0, 2.0]


def test_a_captured_tensor_that_changes_at_each_call_ends_in_eager_calls() -> None:
    held: dict[str, Any] = {}
    runs: list[int] = []

    def body(x: Any) -> Any:
        runs.append(1)
        return x * held["c"]

    f = tf.function(body)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(MANY_PROGRAMS + 5):
            held["c"] = tf.constant(float(k))
            assert float(f(tf.constant(2.0))) == 2.0 * k
    assert any("a tensor from outside that keeps changing" in str(w.message) for w in caught)


def test_a_captured_tensor_is_kept_as_long_as_its_owner_keeps_it() -> None:
    held = {"c": tf.constant(np.ones(100))}
    f = tf.function(lambda x: x * tf.reduce_sum(held["c"]))
    f(tf.constant(1.0))
    gone = weakref.ref(held["c"])
    del held["c"]
    gc.collect()

    assert gone() is None


# Attributes of optimizers


def steps(change: Callable[[Any], None], wrapper: Callable[[Any], Any], **options: Any) -> Any:
    """The values of a variable after steps before and after a change to the optimizer."""
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.optimizers.SGD(0.5, **options)

    def step(g: Any) -> None:
        optimizer.apply_gradients([(g, v)])

    step = wrapper(step)
    found = []
    for k in range(6):
        if k == 3:
            change(optimizer)
        step(tf.constant([3.0, 4.0]))
        found.append(v.numpy())
    return np.array(found)


def set_schedule(optimizer: Any) -> None:
    optimizer.learning_rate = tf.keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)


CHANGES: dict[str, Callable[[Any], None]] = {
    "clipvalue": lambda o: setattr(o, "clipvalue", 0.5),
    "clipnorm": lambda o: setattr(o, "clipnorm", 0.5),
    "global_clipnorm": lambda o: setattr(o, "global_clipnorm", 0.5),
    "weight_decay": lambda o: setattr(o, "weight_decay", 0.1),
    "momentum": lambda o: setattr(o, "momentum", 0.9),
    "rate": lambda o: setattr(o, "learning_rate", 0.01),
    "lr": lambda o: setattr(o, "lr", 0.01),
    "schedule": set_schedule,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_attribute_of_an_optimizer_is_seen(name: str) -> None:
    options = {"momentum": 0.5} if name == "momentum" else {}
    recorded = steps(CHANGES[name], tf.function, **options)
    eager = steps(CHANGES[name], lambda f: f, **options)

    np.testing.assert_allclose(recorded, eager, rtol=1e-6)


def test_attributes_that_change_back_and_forth_are_recorded_once_each() -> None:
    runs: list[int] = []
    v = tf.Variable(0.0)
    optimizer = tf.optimizers.SGD(1.0)

    @tf.function
    def step() -> None:
        runs.append(1)
        optimizer.apply_gradients([(tf.constant(10.0), v)])

    for k in range(6):
        optimizer.clipvalue = 1.0 if k % 2 else None
        step()
    assert float(v) == -33.0
    assert len(runs) == 2


def test_a_schedule_whose_attribute_changes() -> None:
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(1.0, 1, 1.0)
    optimizer, v = tf.optimizers.SGD(schedule), tf.Variable(0.0)
    step = tf.function(lambda: optimizer.apply_gradients([(tf.constant(1.0), v)]))

    step()
    schedule.initial_learning_rate = 10.0
    step()
    assert float(v) == -11.0


# Attributes of layers, modules and variables


class Scaled(tf.Module):
    """A module with plain attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.parts: list[Any] = [tf.Variable(1.0)]
        self.options = {"shift": 0.0}
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        extra = getattr(self, "extra", 0.0)
        return x * self.scale * self.parts[0] + self.options["shift"] + extra

    @property
    def double(self) -> float:
        return 2.0 * self.scale


MODULE_CHANGES: dict[str, Callable[[Any], None]] = {
    "number": lambda m: setattr(m, "scale", 3.0),
    "sign of zero": lambda m: setattr(m, "scale", -0.0),
    "entry of a list": lambda m: m.parts.__setitem__(0, tf.Variable(7.0)),
    "entry of a dictionary": lambda m: m.options.update(shift=5.0),
    "new attribute": lambda m: setattr(m, "extra", 9.0),
}


@pytest.mark.parametrize("name", MODULE_CHANGES)
def test_a_changed_attribute_of_a_module_is_seen(name: str) -> None:
    module = Scaled()
    f = tf.function(lambda x: module(x))
    x = tf.constant(1.0)

    f(x)
    f(x)
    assert module.calls == 1
    MODULE_CHANGES[name](module)
    found = f(x).numpy()
    assert module.calls == 2
    expected = module(x).numpy()
    assert (found, np.signbit(found)) == (expected, np.signbit(expected))


def test_an_attribute_that_is_not_read_changes_nothing() -> None:
    module = Scaled()
    f = tf.function(lambda x: module(x))
    for k in range(5):
        module.step = k
        f(tf.constant(1.0))
    assert module.calls == 1


def test_an_attribute_that_the_call_itself_sets_does_not_record_again() -> None:
    class Lazy(tf.Module):
        built = False
        runs = 0

        def __call__(self, x: Any) -> Any:
            self.runs = self.runs + 1
            if not self.built:
                self.w = tf.Variable(2.0)
                self.built = True
            return x * self.w

    lazy = Lazy()
    f = tf.function(lambda x: lazy(x))
    assert [float(f(tf.constant(3.0))) for _ in range(4)] == [6.0] * 4
    assert lazy.runs == 1


def test_a_property_of_a_module_is_seen() -> None:
    module = Scaled()
    f = tf.function(lambda x: x * module.double)

    assert float(f(tf.constant(1.0))) == 4.0
    module.scale = 5.0
    assert float(f(tf.constant(1.0))) == 10.0


def test_a_layer_that_is_replaced_after_predict() -> None:
    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.head = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x: Any) -> Any:
            return self.head(x)

    net, x = Net(), np.ones((2, 3), "float32")
    assert net.predict(x, verbose=0).ravel().tolist() == [3.0, 3.0]
    net.head = tf.keras.layers.Dense(1, kernel_initializer="zeros", bias_initializer="ones")
    assert net.predict(x, verbose=0).ravel().tolist() == [1.0, 1.0]
    net.head.activation = tf.negative
    assert net.predict(x, verbose=0).ravel().tolist() == [-1.0, -1.0]


def test_a_variable_that_is_no_longer_trainable() -> None:
    a, b = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            y = a * a * b
        return tape.gradient(y, [a, b], unconnected_gradients="zero")

    assert [float(g) for g in gradients()] == [4.0, 1.0]
    b.trainable = False
    assert [float(g) for g in gradients()] == [4.0, 0.0]
    b.trainable = True
    assert [float(g) for g in gradients()] == [4.0, 1.0]


def test_a_layer_that_is_frozen_after_training_began() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
    model.build((None, 2))
    optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x)) + 0.0 * tf.reduce_sum(model.variables[0])
        weights = model.trainable_variables
        if weights:
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

    x = tf.ones([1, 2])
    step(x)
    before = model.variables[0].numpy()
    model.layers[0].trainable = False
    step(x)
    np.testing.assert_array_equal(model.variables[0].numpy(), before)


def test_programs_do_not_keep_the_objects_that_they_read() -> None:
    module = Scaled()
    f = tf.function(lambda m, x: m(x))
    f(module, tf.constant(1.0))
    gone = weakref.ref(module)
    del module
    gc.collect()

    assert gone() is None


# Constants in results


def test_a_constant_that_is_returned_is_new_at_each_call() -> None:
    table = np.arange(4.0)
    f = tf.function(lambda x: (tf.constant(table), tf.reshape(tf.constant(table), [2, 2]), x))

    first = f(tf.constant(1.0))
    for tensor in first[:2]:
        tensor.array[...] = -1.0  # as a consumer of DLPack could do
    second = f(tf.constant(1.0))
    assert second[0].numpy().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert second[1].numpy().tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_lists_that_calls_append_to_do_not_record_again() -> None:
    class Log(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = []
            self.last: Any = None

        def __call__(self, x: Any, scale: float) -> Any:
            self.seen.append(scale)
            self.last = self.last if self.last is not None else tf.Variable(1.0)
            return x * scale * self.last

    log = Log()
    f = tf.function(lambda x, scale: log(x, scale))
    for _ in range(3):
        assert [float(f(tf.constant(1.0), s)) for s in (1.0, 2.0)] == [1.0, 2.0]
    assert log.seen == [1.0, 2.0]
    log.last = tf.Variable(5.0)
    assert float(f(tf.constant(1.0), 2.0)) == 10.0


def test_a_layer_that_is_added_to_or_removed_from_a_sequential_model() -> None:
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential([dense(2, kernel_initializer="ones")])
    f = tf.function(lambda x: model(x))
    x = tf.ones([1, 2])

    assert f(x).numpy().tolist() == [[2.0, 2.0]]
    model.add(dense(1, kernel_initializer="ones"))
    assert f(x).numpy().tolist() == [[4.0]]
    model.pop()
    assert f(x).numpy().tolist() == [[2.0, 2.0]]


def test_training_loops_record_each_step_once() -> None:
    layers, runs = tf.keras.layers, []
    generator = tf.keras.Sequential([layers.Dense(4), layers.Dropout(0.5)])
    critic = tf.keras.Sequential([layers.BatchNormalization(), layers.Dense(1)])
    optimizers = [tf.keras.optimizers.Adam(0.01, clipnorm=1.0) for _ in range(2)]
    mean, x = tf.keras.metrics.Mean(), tf.ones([8, 4])

    @tf.function
    def improve(name: str) -> None:
        runs.append(name)
        model, optimizer = (
            (critic, optimizers[0]) if name == "critic" else (generator, optimizers[1])
        )
        with tf.GradientTape() as tape:
            made = generator(tf.random.normal([8, 2]), training=True)
            loss = tf.reduce_mean(critic(made, training=True)) - tf.reduce_mean(critic(x))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        mean.update_state(loss)

    for _ in range(4):
        mean.reset_state()
        critic.trainable = True
        improve("critic")
        critic.trainable = False
        improve("generator")
        optimizers[0].learning_rate = 0.5 * float(optimizers[0].learning_rate)
        generator(x[:, :2])
        assert np.isfinite(float(mean.result()))
    assert runs == ["critic", "generator"]
