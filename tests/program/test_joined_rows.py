"""Sums of sums by index become one; the results do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.joined_rows import with_joined_rows
from tests.program.recorded_graphs import assert_same_results, recorded

I = np.array([3, 0, 3, 7])  # noqa: E741
J = np.array([[1, 3], [9, 3]])
MANY = np.arange(40) % 10

CASES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "two places": (lambda t: tf.gather(t, I)[0] * 2.0 + tf.reduce_sum(tf.gather(t, J) ** 2), 1),
    "three places": (lambda t: sum(tf.reduce_sum(tf.gather(t, k) ** 2) for k in (I, J, I[:2])), 1),
    "also read whole": (lambda t: tf.reduce_sum(tf.gather(t, I) * tf.gather(t, I[::-1])) + t**2, 1),
    "more rows than the table": (
        lambda t: tf.reduce_sum(tf.gather(t, MANY) ** 2) * tf.reduce_sum(tf.gather(t, I)),
        2,
    ),
    "one place": (lambda t: tf.reduce_sum(tf.gather(t, I) ** 2), 1),
}


@pytest.mark.parametrize("shape", [(10,), (10, 3), (10, 2, 3)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_gathered_from_one_table(name: str, shape: tuple[int, ...]) -> None:
    function, count = CASES[name]
    table = np.random.default_rng(2).standard_normal(shape)

    def gradient(table: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(table)
            loss = tf.reduce_sum(function(table))
        return loss, tape.gradient(loss, table)

    before = recorded(gradient, [table])
    after = with_joined_rows(before)

    assert_same_results(before, after, [table])
    assert sum(call.primitive.name == "take_add" for call in after.calls) == count


def test_the_compiled_gradient_is_that_of_eager_code() -> None:
    rng = np.random.default_rng(3)
    table, x = rng.standard_normal((50, 4)), rng.standard_normal((4, 4))

    def gradient(table: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(table)
            one, other = tf.gather(table, I), tf.gather(table, J.ravel())
            loss = tf.reduce_sum(tf.tanh(one @ x) * other)
        return tape.gradient(loss, table)

    arguments = tf.constant(table), tf.constant(x)
    found = tf.function(gradient)(*arguments)

    np.testing.assert_allclose(found, gradient(*arguments), rtol=1e-12, atol=1e-13)
