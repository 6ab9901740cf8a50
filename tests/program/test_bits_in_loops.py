"""Bitwise operations on integers are parts of loops, with NumPy's results for all shifts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]

OF_BITS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: (x & y) | (x ^ y),
    lambda x, y: ~x & (y | 5),
]
SHIFTS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: (x << y) ^ y,
    lambda x, y: (x >> y) + 1,
    lambda x, y: (x << 3) ^ (y >> 2),
]


def numbers(dtype: str, seed: int) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, 200, dtype, endpoint=True)


def check(function: Callable[[Any, Any], Any], x: Any, y: Any) -> None:
    expected = function(x, y)
    compiled = tf.function(function)
    given = tf.constant(x), tf.constant(y)
    compiled(*given)
    tf.wait_for_programs()

    result = compiled(*given)

    assert result.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected)
    assert "loop over" in str(compiled.program(*given))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", OF_BITS)
def test_bits_of_all_integers(function: Callable[[Any, Any], Any], dtype: str) -> None:
    check(function, numbers(dtype, 1), numbers(dtype, 2))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", SHIFTS)
def test_shifts_beyond_the_width_leave_the_sign(
    function: Callable[[Any, Any], Any], dtype: str
) -> None:
    places = np.random.default_rng(3).integers(0, 80, 200).astype(dtype)

    check(function, numbers(dtype, 1), places)


def test_booleans_have_logical_operations() -> None:
    x, y = numbers("int8", 1) > 0, numbers("int8", 2) > 0

    check(lambda a, b: (a & ~b) | (a ^ b), x, y)


def test_bits_beside_floats_are_computed_in_one_loop() -> None:
    def hashed(x: Any) -> Any:
        cell = tf.cast(tf.floor(x * 16.0), tf.int32)
        return tf.cast((cell * 73856093) & 1023, tf.float32) + x

    x = np.random.default_rng(0).uniform(-4, 4, 500).astype(np.float32)
    compiled = tf.function(hashed)
    compiled(tf.constant(x))
    tf.wait_for_programs()

    result = compiled(tf.constant(x))

    cell = np.floor(x * np.float32(16)).astype(np.int32) * np.int32(73856093)
    np.testing.assert_array_equal(result.numpy(), (cell & 1023).astype(np.float32) + x)
    assert str(compiled.program(tf.constant(x))).count("loop over") == 1
