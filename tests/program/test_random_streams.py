"""A function that creates variables in its first call draws the random numbers of eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

Decorator = Callable[[Any], Any]
layers: Any = tf.keras.layers
CASES: dict[str, Callable[[Decorator], Any]] = {}


def case(make: Callable[[Decorator], Any]) -> Callable[[Decorator], Any]:
    """Register a function that makes the function to test; it gets the decorator."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


def lazily(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that creates a value at the first call and returns it at every call."""
    kept: list[Any] = []

    def get() -> Any:
        if not kept:
            kept.append(make())
        return kept[0]

    return get


def weight() -> Any:
    return tf.Variable(tf.random.normal([3]))


@case
def an_initial_value(function: Decorator) -> Any:
    w = lazily(weight)
    return function(lambda x: w() * x + tf.random.normal([3]))


@case
def nested_functions(function: Decorator) -> Any:
    first, second = lazily(weight), lazily(weight)
    inner = function(lambda x: first() * x + tf.random.normal([3]))
    return function(lambda x: inner(x) + second() + tf.random.uniform([3]))


@case
def a_function_inside_eager_code(function: Decorator) -> Any:
    first, second = lazily(weight), lazily(weight)
    inner = function(lambda x: first() * x + tf.random.normal([3]))
    return lambda x: inner(x) + second() + tf.random.uniform([3])


@case
def layers_with_seeds_and_dropout(function: Decorator) -> Any:
    def make() -> Any:
        initializer = tf.keras.initializers.GlorotUniform(seed=3)
        dense = layers.Dense(4, kernel_initializer=initializer)
        return tf.keras.Sequential([dense, layers.Dropout(0.5, seed=4), layers.Dense(3)])

    model = lazily(make)
    return function(lambda x: model()(tf.reshape(x, [1, 3]), training=True))


@case
def layers_and_dropout_under_a_tape(function: Decorator) -> Any:
    model = tf.keras.Sequential([layers.Dense(4), layers.Dropout(0.5), layers.Dense(3)])
    forward = function(lambda x: tf.reduce_sum(model(tf.reshape(x, [1, 3]), training=True)))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward(x)
        return tape.gradient(y, x) + tf.random.normal([3])

    return step


@case
def a_generator_from_outside(function: Decorator) -> Any:
    generator = tf.random.Generator.from_seed(5)
    w = lazily(lambda: tf.Variable(generator.normal([3])))
    return function(lambda x: w() * x + generator.uniform([3]))


@case
def a_generator_from_inside(function: Decorator) -> Any:
    generator = lazily(lambda: tf.random.Generator.from_seed(5))
    w = lazily(lambda: tf.Variable(generator().normal([3])))
    return function(lambda x: w() * x + generator().uniform([3]))


@case
def a_seed_generator(function: Decorator) -> Any:
    seed = tf.keras.random.SeedGenerator(3)
    w = lazily(lambda: tf.Variable(tf.keras.random.normal([3], seed=seed)))
    return function(lambda x: w() * x + tf.keras.random.normal([3], seed=seed))


@case
def an_initial_value_that_is_used_too(function: Decorator) -> Any:
    kept: dict[str, Any] = {}

    def body(x: Any) -> Any:
        if "w" not in kept:
            drawn = tf.random.normal([3])
            kept["w"] = tf.Variable(drawn)
            x = x + drawn
        return kept["w"] * x + tf.random.normal([3])

    return function(body)


@case
def the_same_under_a_tape(function: Decorator) -> Any:
    forward = an_initial_value_that_is_used_too(function)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward(x)
        return y + tape.gradient(y, x) + tf.random.normal([3])

    return step


@case
def a_draw_that_is_dropped_in_the_first_call(function: Decorator) -> Any:
    kept: dict[str, Any] = {}

    def body(x: Any) -> Any:
        if "w" not in kept:
            tf.random.normal([3])
            kept["w"] = tf.Variable([1.0, 2.0, 3.0])
        return kept["w"] * x + tf.random.normal([3])

    return function(body)


@case
def a_draw_that_is_dropped_in_every_call(function: Decorator) -> Any:
    w = lazily(weight)

    def body(x: Any) -> Any:
        tf.random.normal([3])
        return w() * x + tf.random.normal([3])

    return function(body)


@case
def a_draw_that_is_assigned_to_a_new_variable(function: Decorator) -> Any:
    kept: dict[str, Any] = {}

    def body(x: Any) -> Any:
        if "w" not in kept:
            kept["w"] = tf.Variable(tf.zeros([3]))
            kept["w"].assign(tf.random.normal([3]))
        return kept["w"] * x + tf.random.normal([3])

    return function(body)


@case
def a_seed_that_is_set_inside(function: Decorator) -> Any:
    w = lazily(weight)

    def body(x: Any) -> Any:
        tf.random.set_seed(11)
        return w() * x + tf.random.normal([3])

    return function(body)


def results(make: Callable[[Decorator], Any], function: Decorator) -> list[np.ndarray]:
    tf.random.set_seed(1)
    f = make(function)
    found = [np.asarray(f(tf.constant([1.0, 2.0, 3.0]) + float(n))) for n in range(4)]
    return [*found, tf.random.normal([2]).numpy()]


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("name", CASES)
def test_each_call_draws_what_eager_code_draws(name: str) -> None:
    expected = results(CASES[name], lambda f: f)

    found = results(CASES[name], tf.function)

    for call, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=f"call {call}")


def test_a_special_first_call_is_recorded_again_once() -> None:
    runs: list[int] = []
    inner = an_initial_value_that_is_used_too(lambda f: f)

    def body(x: Any) -> Any:
        runs.append(1)
        return inner(x)

    f = tf.function(body)
    x = tf.constant([1.0, 2.0, 3.0])

    f(x)
    assert "random_normal" in str(f.program(x))
    for _ in range(3):
        f(x)
    assert len(runs) == 2
    assert str(f.program(x)).count("random_normal") == 1
