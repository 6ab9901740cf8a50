"""The switch for TensorFloat-32: programs depend on it, and results on the CPU do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.config import experimental


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = experimental.tensor_float_32_execution_enabled()
    yield
    experimental.enable_tensor_float_32_execution(before)


def test_a_function_has_one_program_for_each_setting() -> None:
    recordings = []

    @tf.function
    def product(x: Any) -> Any:
        recordings.append(experimental.tensor_float_32_execution_enabled())
        return x @ x

    x = tf.constant(np.eye(3, dtype="float32") / 3)
    for enabled in (False, True, False, True):
        experimental.enable_tensor_float_32_execution(enabled)
        for _ in range(2):
            np.testing.assert_array_equal(product(x), np.asarray(x) @ np.asarray(x))

    assert recordings == [False, True]


def test_gradients_outside_of_the_function_too() -> None:
    recordings = []

    @tf.function
    def product(x: Any) -> Any:
        recordings.append(experimental.tensor_float_32_execution_enabled())
        return x @ x

    x = tf.constant(np.eye(3, dtype="float32"))
    for enabled in (False, True, False):
        experimental.enable_tensor_float_32_execution(enabled)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = product(x)
        np.testing.assert_array_equal(tape.gradient(y, x), np.full((3, 3), 2))

    assert recordings == [False, True]
