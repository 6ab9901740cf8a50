"""Large results reuse the memory of earlier ones, never of one that is still held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

pytest.importorskip("tapegrad_numpy.loops.compile")
SIZE = 1 << 18


@pytest.fixture
def step() -> Any:
    return tf.function(lambda x: (tf.exp(x) * 2.0, tf.reduce_sum(x)))


def draw(number: float) -> Any:
    return tf.constant(np.full(SIZE, number))


def test_results_that_are_kept_keep_their_values(step: Any) -> None:
    kept = [step(draw(number))[0] for number in range(6)]

    for number, result in enumerate(kept):
        np.testing.assert_allclose(result.numpy(), 2.0 * np.exp(number))


def test_views_of_a_result_keep_its_values(step: Any) -> None:
    step(draw(0.0))
    views = [step(draw(number))[0][10:20] for number in range(5)]

    for number, view in enumerate(views):
        np.testing.assert_allclose(view.numpy(), 2.0 * np.exp(number))


def test_a_result_that_a_tape_or_a_variable_keeps_stays(step: Any) -> None:
    step(draw(0.0))
    v = tf.Variable(step(draw(1.0))[0])
    x = step(draw(2.0))[0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    del x
    for _ in range(4):
        step(draw(5.0))

    np.testing.assert_allclose(v.numpy(), 2.0 * np.exp(1.0))
    np.testing.assert_allclose(y.numpy(), 4.0 * np.exp(4.0))
    del tape


def test_memory_that_nobody_holds_is_used_again(step: Any) -> None:
    addresses = set()
    for number in range(10):
        result = step(draw(number))[0]
        addresses.add(result.array.__array_interface__["data"][0])

    # The first call is recorded; after it two arrays alternate.
    assert len(addresses) <= 3
