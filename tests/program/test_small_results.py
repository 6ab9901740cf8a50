"""Loops that reduce flush small results on x86-64; other loops and other machines keep them."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

IS_X86 = platform.machine() in ("x86_64", "AMD64")
TINY = np.finfo(np.float32).tiny


def compiled(function: Any, *arrays: Any) -> Any:
    run = tf.function(function)
    tensors = [tf.constant(array) for array in arrays]
    run(*tensors)
    return run(*tensors).numpy()


def test_loops_without_a_reduction_keep_small_results() -> None:
    x = np.float32([TINY, 3 * TINY, 1.0])
    np.testing.assert_array_equal(compiled(lambda x: x * 0.25 + 0.0, x), x * np.float32(0.25))


def test_rows_that_are_normalised_have_no_small_results() -> None:
    x = np.float32([[0.0, -90.0, -100.0, -1.0], [-95.0, 0.0, 1.0, -2.0]])

    def normalised(x: Any) -> Any:
        e = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
        return e / tf.reduce_sum(e, -1, keepdims=True)

    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    expected = wide / wide.sum(-1, keepdims=True)
    result = compiled(normalised, x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=TINY)
    assert (result[expected < TINY] == 0).all() == IS_X86


def test_double_precision_is_never_flushed() -> None:
    x = np.float64([[0.0, -720.0], [1.0, -740.0]])
    result = compiled(lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True), x)
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-322)
    assert (result > 0).all()


def test_operands_that_are_small_are_kept() -> None:
    x = np.float32([[1e-40, 2e-40], [1e-39, 5e-40]])
    result = compiled(lambda x: tf.reduce_sum(x * 1e30, -1), x)
    np.testing.assert_allclose(result, x.astype(np.float64).sum(-1) * 1e30, rtol=1e-4)


def test_the_mode_of_the_caller_comes_back() -> None:
    compiled(lambda x: tf.reduce_sum(tf.exp(x), -1), np.float32([[-90.0, 0.0]] * 3))
    half = np.float32([TINY]) / np.float32(2)
    assert half[0] > 0
