"""Recordings that differ by Python numbers share one compiled program."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import tapegrad as tf


def values() -> Any:
    return tf.constant(np.linspace(-2.0, 2.0, 5), "float32")


def penalty(x: Any, rate: Any, shift: Any = 1) -> Any:
    """Compute with numbers in all ways that arrays allow."""
    if rate > 0.65:  # Python's own branch
        x = x + shift
    y = tf.where(x > rate, x * rate, tf.maximum(x, -rate) / (1.0 + rate))
    return tf.reduce_sum(y - shift * math.exp(-rate)) + rate - tf.norm(x) * shift


def programs(function: Any, calls: list[tuple[Any, ...]]) -> int:
    """Compare calls with eager code, also when they are repeated; return how many programs ran."""
    for _ in range(2):
        for call in calls:
            found = function(values(), *call).numpy()
            expected = function.python_function(values(), *call).numpy()
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    return len({id(function.program(values(), *call)) for call in calls})


def test_numbers_share_a_program() -> None:
    function = tf.function(penalty, wait=True)
    assert programs(function, [(0.1,), (0.2,), (0.3,), (-0.4,), (0.5,)]) == 2
    assert len(function.explain().recordings) == 5


def test_other_branches_and_numbers_have_programs_of_their_own() -> None:
    function = tf.function(penalty, wait=True)
    calls = [(0.1, 1), (0.2, 1), (0.7, 1), (0.8, 1), (0.3, 1), (0.9, 1)]
    assert programs(function, calls) == 4


def test_numbers_that_change_later_become_inputs_too() -> None:
    function = tf.function(penalty, wait=True)
    assert programs(function, [(0.1, 1), (0.2, 1), (0.3, 2), (0.4, 3), (0.5, 4.5)]) == 3


@pytest.mark.parametrize("number", [0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, 1e-300, 3])
def test_numbers_of_all_kinds(number: Any) -> None:
    def scaled(x: Any, scale: Any) -> Any:
        return tf.stack([x * scale, x + scale, x / scale, scale - x])

    function = tf.function(scaled, wait=True)
    with np.errstate(all="ignore"):
        for scale in (0.5, 0.25, number, 2.0, number):
            expected = scaled(values(), scale).numpy()
            np.testing.assert_array_equal(function(values(), scale).numpy(), expected)


def test_whole_numbers_that_are_no_element_stay_constants() -> None:
    function = tf.function(lambda x, n: x * n, wait=True)
    large = (1 << 24) + 1
    assert programs(function, [(large,), (large + 2,), (large + 4,)]) == 3


def test_steps_with_gradients_and_attributes() -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(np.ones(5, "float32"))
            self.decay = 0.5

        @tf.function(wait=True)
        def step(self, x: Any, rate: float) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((self.w * x - 1.0) ** 2) + self.decay * tf.norm(self.w)
            self.w.assign_sub(rate * tape.gradient(loss, self.w))
            return loss

    model, other = Model(), Model()
    for k in range(6):
        model.decay = other.decay = 0.5 + 0.1 * (k // 3)
        found = model.step(values(), 0.1 / (k + 1))
        expected = Model.step.python_function(other, values(), 0.1 / (k + 1))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    np.testing.assert_allclose(model.w.numpy(), other.w.numpy(), rtol=1e-5)


def test_tensors_from_outside_are_compared_and_not_kept() -> None:
    table = tf.constant(np.ones(5000, "float32"))
    reference = weakref.ref(table.array)
    tables = [table]
    function = tf.function(lambda x, rate: tf.reduce_sum(tables[0]) * rate + x, wait=True)
    for rate in (0.5, 0.25):
        np.testing.assert_allclose(function(values(), rate), values() + 5000.0 * rate, rtol=1e-6)
    tables[0] = tf.constant(np.full(5000, 2.0, "float32"))
    for rate in (0.125, 0.75):
        np.testing.assert_allclose(function(values(), rate), values() + 10000.0 * rate, rtol=1e-6)
    del function, table
    gc.collect()
    assert reference() is None
