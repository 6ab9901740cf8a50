"""Loops that differ by numbers are one loop, which reads the numbers, and compute the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.fusion import shared_numbers

Function = Callable[..., Any]
RNG = np.random.default_rng(3)


def array(*shape: int) -> Any:
    return tf.constant(RNG.normal(size=shape))


def loops_of(function: Any, *args: Any) -> int:
    """Return how many different loops the program of a function has."""
    steps = function.program(*args).steps
    return len({id(step.run) for step in steps if hasattr(step, "made_of")})


def gradients(f: Function) -> Function:
    def both(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = f(*inputs)
        return [y, *tape.gradient(y, inputs)]

    return both


def runge_kutta(rounds: int) -> Function:
    """Return the end of a path whose slope depends on the time, a Python number."""

    def f(y: Any, w: Any) -> Any:
        h = 1.0 / rounds
        for k in range(rounds):
            t = k * h
            first = tf.tanh(y @ w) * math.cos(t) + t
            middle = tf.tanh((y + h / 2 * first) @ w) * math.cos(t + h / 2) + t
            y = y + h * math.exp(-t) * middle
        return tf.reduce_sum(y * y)

    return f


def annealed(rounds: int) -> Function:
    """Return the loss after some steps with a rate and a temperature that change."""

    def f(y: Any, w: Any) -> Any:
        for k in range(rounds):
            heat = 1.0 / (k + 2.0)
            p = tf.nn.softmax((y @ w) / heat + 0.1 * k)
            y = y - 0.3 * 0.9**k * p * (1.0 - tf.reduce_mean(p * heat, 1, keepdims=True))
        return tf.reduce_mean(y * y)

    return f


def thresholds(rounds: int) -> Function:
    """Return sums with comparisons, powers and bounds that differ from round to round."""

    def f(y: Any, w: Any) -> Any:
        for k in range(rounds):
            z = y @ w
            z = tf.where(z > 0.1 * k - 0.3, z * (k - 2.0), -z / (k + 1.5))
            y = tf.clip_by_value(z, -1.0 - k, 2.0) + 0.01 * tf.abs(z + 3.0) ** (1.0 + k / 7.0)
        return tf.reduce_sum(tf.sin(y))

    return f


@pytest.mark.parametrize("rounds", [runge_kutta, annealed, thresholds])
def test_rounds_with_other_numbers_equal_eager_code(rounds: Callable[[int], Function]) -> None:
    y, w = array(5, 4), array(4, 4) * 0.3
    for count in (1, 2, 7):
        f = gradients(rounds(count))
        for found, wanted in zip(tf.function(f, wait=True)(y, w), f(y, w), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("rounds", [runge_kutta, annealed])
def test_more_rounds_have_no_more_loops(rounds: Callable[[int], Function]) -> None:
    y, w = array(5, 4), array(4, 4)
    few, many = (tf.function(gradients(rounds(count)), wait=True) for count in (10, 16))
    few(y, w), many(y, w)

    assert loops_of(many, y, w) <= loops_of(few, y, w) < 25


def test_whole_numbers_and_both_zeros_are_told_apart() -> None:
    x = tf.constant(np.array([[-1.0, 2.0], [0.5, -4.0]]))
    numbers = (0.0, -0.0, 1, 3.5, -7, 2**40)

    def f(x: Any) -> Any:
        results = []
        for number in numbers:
            x = tf.linalg.matmul(x, x) * 0.1
            results.append((x * 0.0 + number, tf.cast(x, "int32") * 2 + int(number) % 5))
        return results

    made = tf.function(f, wait=True)
    for (found, whole), (wanted, number) in zip(made(x), f(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        np.testing.assert_array_equal(whole, number)
    assert loops_of(made, x) < len(numbers)


def test_equal_numbers_in_a_loop_are_read_once() -> None:
    def f(x: Any) -> Any:
        for k in range(5):
            c = (k + 0.5) / 10.0
            x = 0.2 * tf.sin(x @ x * c) + c + tf.cos(x) * (k / 8.0)
        return x

    x = array(3, 3)
    made = tf.function(f, wait=True)
    np.testing.assert_allclose(made(x), f(x), rtol=1e-13)
    steps = [step for step in made.program(x).steps if hasattr(step, "made_of")]
    scalars = [[v for v in step.arguments if v.shape == ()] for step in steps]
    assert max(map(len, scalars)) == 2


def test_two_loops_and_long_rows_of_coefficients_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    shared = shared_numbers.with_shared_numbers

    def noted(steps: Any, numbers: Any) -> Any:
        made, constants = shared(steps, numbers)
        found.append(len(constants))
        return made, constants

    monkeypatch.setattr("tapegrad.program.program.with_shared_numbers", noted)

    def polynomials(count: int, degree: int) -> Function:
        def f(x: Any) -> Any:
            for k in range(count):
                y, x = tf.tanh(x @ x), x * 0.0
                for power in range(degree):
                    x = x * y + (k + 1.0) / (power + 1.5)
            return x

        return f

    x = array(3, 3)
    for count, degree in ((2, 3), (4, shared_numbers.MOST + 1)):
        f = polynomials(count, degree)
        np.testing.assert_allclose(tf.function(f, wait=True)(x), f(x), rtol=1e-10)
        assert not any(found)
    tf.function(polynomials(4, 3), wait=True)(x)
    assert any(found)
