"""The user's line that each recorded call comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive


def line_of(function: Callable[..., Any], text: str) -> int:
    """The number of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return next(first + k for k, line in enumerate(lines) if text in line)


def lines(function: Callable[..., Any], name: str) -> set[int]:
    """The lines from which the calls of a primitive come, in the gradient by a vector."""
    recorded = tf.function(function)
    x = tf.constant(np.linspace(0.1, 1.0, 3))
    recorded(x)
    calls = recorded.program(x).recorded.calls
    return {int(c.site.rpartition(":")[2]) for c in calls if c.primitive.name == name}


def test_calls_of_a_sweep_come_from_the_line_that_asks_for_the_gradient() -> None:
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(tf.sin(x))  # the values
        return tape.gradient(y, x)  # the gradient

    assert lines(function, "sin") == {line_of(function, "# the values")}
    assert lines(function, "cos") == {line_of(function, "# the gradient")}


def test_two_sweeps_have_two_lines() -> None:
    def function(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, z = tf.sin(x), tf.sin(2.0 * x)
        first = tape.gradient(y, x)  # one
        return first, tape.gradient(z, x)  # two

    expected = {line_of(function, "# one"), line_of(function, "# two")}
    assert lines(function, "cos") == expected


def test_the_user_s_gradient_has_lines_of_its_own() -> None:
    @tf.custom_gradient
    def sine(x: Any) -> Any:
        def grad(t: Any) -> Any:
            return t * tf.cos(x)  # the user's rule

        return tf.sin(x), grad

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(sine(x))
        return tape.gradient(y, x)

    assert lines(function, "cos") == {line_of(sine, "# the user's rule")}


def test_only_rules_of_the_package_run_no_code_of_the_user() -> None:
    primitive = object.__new__(Primitive)  # not registered
    primitive.vjps(lambda t, x: t * x)

    assert not primitive.has_own_rules
    assert PRIMITIVES["sin"].has_own_rules
