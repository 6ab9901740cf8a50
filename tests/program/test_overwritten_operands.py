"""A kernel of a program may overwrite an intermediate only if nothing reads it afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf


def with_zeros(x: Any) -> Any:
    return tf.keras.ops.slice_update(x, (0, 0), tf.zeros((1, 4)))


def read_later(x: Any) -> Any:
    y = x @ x
    return with_zeros(y), y @ x


def read_before(x: Any) -> Any:
    y = x @ x
    after = y @ x
    return with_zeros(y), after


def returned(x: Any) -> Any:
    y = x @ x
    return with_zeros(y), y


def read_twice(x: Any) -> Any:
    y = x @ x
    return with_zeros(y), with_zeros(y) @ y


@pytest.mark.parametrize("f", [read_later, read_before, returned, read_twice])
def test_an_operand_keeps_its_value_for_its_readers(f: Any) -> None:
    x = np.arange(16.0).reshape(4, 4) / 10
    square = x @ x
    zeroed = np.concatenate([np.zeros((1, 4)), square[1:]])
    second = {"returned": square, "read_twice": zeroed @ square}.get(f.__name__, square @ x)
    compiled = tf.function(f)

    for _ in range(2):
        first, other = compiled(tf.constant(x))
        np.testing.assert_allclose(first, zeroed)
        np.testing.assert_allclose(other, second)
