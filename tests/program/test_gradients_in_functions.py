"""`gradients`: derivatives inside a function, without a tape in the user's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, TapeError

POINTS = np.linspace(0.1, 1.0, 4)


def test_gradients_of_arguments_of_every_order() -> None:
    @tf.function
    def orders(x: Any) -> Any:
        (first,) = tf.gradients(tf.sin(x), x)
        (second,) = tf.gradients([first], [x])
        return first, second, tf.gradients(second, x, grad_ys=2.0 * tf.ones_like(x))[0]

    for _ in range(2):  # the recording, then the program
        first, second, third = orders(POINTS)
        np.testing.assert_allclose(first, np.cos(POINTS))
        np.testing.assert_allclose(second, -np.sin(POINTS))
        np.testing.assert_allclose(third, -2.0 * np.cos(POINTS))


def test_gradients_of_variables_and_of_tensors_from_outside() -> None:
    scale, fixed = tf.Variable(3.0), tf.Variable(2.0, trainable=False)
    outside = tf.constant([1.0, 2.0])

    @tf.function
    def f(x: Any) -> Any:
        y = scale * x + fixed * tf.reduce_sum(outside**2)
        middle = y * y
        return tf.gradients(middle, [scale, fixed, outside, y, x])

    for _ in range(2):
        found = [float(tf.reduce_sum(g)) for g in f(tf.constant(2.0))]
        assert found == [2 * 16 * 2, 2 * 16 * 5, 2 * 16 * 2 * 2 * 3, 2 * 16, 2 * 16 * 3]


def test_what_is_unconnected_has_none_or_zeros() -> None:
    @tf.function
    def f(x: Any, other: Any, count: Any) -> Any:
        none = tf.gradients(x * 2.0, [other, count])
        return none, tf.gradients(x * 2.0, [other], unconnected_gradients="zero")

    with pytest.warns(UserWarning, match="dtype int32"):
        none, zeros = f(tf.constant(1.0), tf.constant([1.0, 2.0]), tf.constant(3))

    assert none == [None, None]
    assert zeros[0].tolist() == [0.0, 0.0]


def test_a_tape_around_the_function_differentiates_the_gradients() -> None:
    slope = tf.Variable(2.0)

    @tf.function
    def residual(x: Any) -> Any:
        (first,) = tf.gradients(tf.sin(slope * x), x)
        return tf.reduce_sum(first)

    x = tf.constant(POINTS.astype(np.float32))
    for _ in range(2):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = residual(x)
        np.testing.assert_allclose(tape.gradient(y, x), -4 * np.sin(2 * POINTS), rtol=1e-5)
        by_slope = np.sum(np.cos(2 * POINTS) - 2 * POINTS * np.sin(2 * POINTS))
        np.testing.assert_allclose(tape.gradient(y, slope), by_slope, rtol=1e-5)


def test_an_inner_function_gets_arrays_as_tensors_and_may_differentiate() -> None:
    kinds = []

    @tf.function
    def inner(x: Any) -> Any:
        kinds.append(type(x))
        return tf.gradients(x**3, x)[0]

    @tf.function
    def outer(weight: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weight)
            y = weight * tf.reduce_sum(inner(POINTS))
        return tape.gradient(y, weight)

    np.testing.assert_allclose(outer(tf.constant(1.0, tf.float64)), np.sum(3 * POINTS**2))
    assert set(kinds) == {tf.Tensor}


def test_effects_happen_once_and_decisions_are_recorded(capsys: Any) -> None:
    count = tf.Variable(0)

    @tf.function
    def f(x: Any) -> Any:
        count.assign_add(1)
        tf.print("seen")
        y = x**2 if tf.reduce_sum(x) > 0 else -x
        return tf.gradients(y, x)[0]

    assert f(tf.constant(3.0)).numpy() == 6.0
    assert f(tf.constant(-3.0)).numpy() == -1.0
    assert count.numpy() == 2
    assert "".join(capsys.readouterr()).count("seen") == 2


def test_errors_name_what_is_possible() -> None:
    with pytest.raises(TapeError, match=r"only while a tapegrad.function is recorded. Use Grad"):
        tf.gradients(tf.constant(1.0), tf.constant(1.0))

    @tf.function
    def constant(x: Any) -> Any:
        made = tf.constant(2.0)
        return tf.gradients(made * x, made)

    with pytest.raises(TapeError, match=r"neither an argument of the function"):
        constant(tf.constant(1.0))

    @tf.function
    def stopped(x: Any) -> Any:
        return tf.gradients(x * x, x, stop_gradients=[x])

    with pytest.raises(ArgumentError, match=r"Use tapegrad.stop_gradient"):
        stopped(tf.constant(1.0))


def test_functions_without_autograph_differentiate() -> None:
    @tf.function(autograph=False)
    def f(x: Any) -> Any:
        return tf.gradients(x**3, x)[0]

    assert f(tf.constant(2.0)).numpy() == 12.0
