"""The threads of compiled loops: same bits for any number, forks, several callers, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler, pool

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

N = 300_000


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Restore the number of threads; tests set it."""
    before = tf.config.threading.get_intra_op_parallelism_threads()
    tf.config.threading.set_intra_op_parallelism_threads(3)
    yield
    tf.config.threading.set_intra_op_parallelism_threads(before)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def with_threads(count: int, function: Callable[[], Any]) -> Any:
    tf.config.threading.set_intra_op_parallelism_threads(count)
    return function()


X, W = tf.constant(numbers(600, 512)), tf.constant(numbers(512, seed=1))


def elementwise() -> Any:
    return tf.tanh(X * W) + tf.sigmoid(X)


def softmax() -> Any:
    return tf.nn.softmax(X)


def dropout() -> Any:
    tf.random.set_seed(5)
    return tf.nn.dropout(X, 0.25)


def normal() -> Any:
    tf.random.set_seed(5)
    return tf.random.normal([N])


def adam() -> Any:
    variable = tf.Variable(X)
    optimizer = tf.optimizers.Adam(0.1)
    for _ in range(2):
        optimizer.apply_gradients([(tf.sin(X), variable)])
    return variable.numpy()


@pytest.mark.parametrize("function", [elementwise, softmax, dropout, normal, adam])
def test_eager_results_have_the_same_bits_with_any_number_of_threads(function: Any) -> None:
    one, two, five = [np.asarray(with_threads(count, function)) for count in (1, 2, 5)]

    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)


@tf.function
def step(x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        loss = tf.reduce_sum(tf.nn.softmax(tf.tanh(x * w)) ** 2)
    return loss, *tape.gradient(loss, [x, w])


def test_programs_have_the_same_bits_with_any_number_of_threads() -> None:
    results = [with_threads(count, lambda: step(X, W)) for count in (1, 2, 5)]

    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)
    assert pool.threads_started() >= 1


def test_the_number_of_threads_counts_for_functions_that_exist() -> None:
    step(X, W)

    for count in (1, 4):
        tf.config.threading.set_intra_op_parallelism_threads(count)
        assert pool.current_threads() == count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_its_own_threads() -> None:
    code = """
import os, sys, numpy as np, tapegrad as tf
from tapegrad_numpy.loops import pool
x = tf.constant(np.linspace(-3, 3, 500_000).astype("float32"))
before = np.asarray(tf.tanh(x) * 2.0)
assert pool.threads_started() == 1, pool.threads_started()
child = os.fork()
if child == 0:
    same = np.array_equal(before, tf.tanh(x) * 2.0)
    os._exit(0 if same and pool.threads_started() == 1 else 1)
_, status = os.waitpid(child, 0)
assert np.array_equal(before, tf.tanh(x) * 2.0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    env = {**os.environ, "TAPEGRAD_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_several_python_threads_share_them() -> None:
    arrays = [tf.constant(numbers(N, seed=k)) for k in range(4)]
    expected = [np.asarray(tf.exp(x)) for x in arrays]
    before = pool.threads_started()

    def run(k: int) -> bool:
        return all(np.array_equal(tf.exp(arrays[k]), expected[k]) for _ in range(15))

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(run, range(4)))
    assert pool.threads_started() == before  # `expected` has started what one caller needs


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_interrupts_leave_the_threads_at_work() -> None:
    assert threading.current_thread() is threading.main_thread()
    x = tf.constant(numbers(N))
    expected = np.asarray(tf.sin(x))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for k in range(10):
            signal.setitimer(signal.ITIMER_REAL, 0.0007 + 0.0003 * k)
            try:
                while True:
                    tf.sin(x)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert interrupted == 10
    np.testing.assert_array_equal(tf.sin(x), expected)


def test_an_error_in_a_loop_leaves_the_threads_at_work() -> None:
    x = tf.constant(numbers(600, 512))
    expected = np.asarray(tf.nn.softmax(x))

    with pytest.raises(ValueError, match="labels must be from 0 to 511"):
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=np.full(600, 512), logits=x)
    np.testing.assert_array_equal(tf.nn.softmax(x), expected)
