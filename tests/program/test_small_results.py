"""Sequences flush small results on x86-64; other steps and other machines keep them."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy import switches
from tapegrad_numpy.loops import compiler
from tests.program.native_calls import sequences_of

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

IS_X86 = platform.machine() in ("x86_64", "AMD64")
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def compiled(function: Any, *arrays: Any) -> Any:
    run = tf.function(function)
    tensors = [tf.constant(array) for array in arrays]
    run(*tensors)
    return run(*tensors).numpy(), sequences_of(run, *tensors)


@DTYPES
def test_steps_outside_of_sequences_keep_small_results(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "SEQUENCES", False)
    tiny = np.finfo(dtype).tiny
    x = np.array([tiny, 3 * tiny, 1.0], dtype)
    result, sequences = compiled(lambda x: tf.abs(x * 0.25) + 0.0, x)
    assert not sequences
    np.testing.assert_array_equal(result, x * dtype(0.25))


@DTYPES
def test_sequences_flush_results_but_no_operands(dtype: Any) -> None:
    info = np.finfo(dtype)
    tiny = dtype(info.tiny)
    x = np.array([[tiny, 1.0, -tiny], [2.0, tiny, 0.5]], dtype)
    y = np.eye(3, dtype=dtype)

    def step(x: Any, y: Any) -> Any:
        return tf.matmul(tf.matmul(x * 0.25, y) + 0.0, y) * 4.0

    result, sequences = compiled(step, x, y)
    assert len(sequences) == 1
    small = np.abs(x) == tiny
    np.testing.assert_array_equal(result[~small], x[~small])
    np.testing.assert_array_equal(result[small], 0 if IS_X86 else x[small])
    below = x / dtype(2)  # operands that are not normal
    grown, _ = compiled(lambda x, y: tf.matmul(x * 2.0**20, y) * 2.0**-19, below, y)
    np.testing.assert_array_equal(grown, x)


def test_the_mode_of_the_caller_comes_back() -> None:
    x = np.eye(3, dtype=np.float32)
    _, sequences = compiled(lambda x: tf.matmul(tf.exp(x) @ x, x) + 1.0, x)
    assert sequences
    assert np.float32(np.finfo(np.float32).tiny) / np.float32(2) > 0


def test_tasks_of_several_threads_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEGRAD_THREADS", "2")
    tiny = np.finfo(np.float32).tiny
    x = tf.constant(np.full((1 << 9, 1 << 10), tiny, np.float32))
    run = tf.function(lambda x: (tf.abs(x * 0.25), tf.matmul(x, x, transpose_a=True)[:2]))
    run(x)
    assert (run(x)[0].numpy() == (0 if IS_X86 else tiny / 4)).all()
