"""One function in many threads, tasks and processes gives the results that it gives alone."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.house.sources import ROOT

THREADS = 8
ROUNDS = 30


def chain(x: Any) -> Any:
    """Elementwise loops, a product and a sum: steps of one sequence."""
    y = tf.tanh(x @ tf.transpose(x)) * 0.5
    return tf.reduce_sum(tf.nn.softmax(y + tf.reduce_mean(x)) @ x, axis=0)


def loop(x: Any) -> Any:
    """A loop whose rounds run in one call."""
    return tf.scan(lambda s, row: tf.tanh(0.7 * s + row), x, tf.zeros_like(x[0]))


def slope(x: Any) -> Any:
    """A gradient inside of the function."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(loop(x) ** 2) + tf.reduce_sum(chain(x))
    return tape.gradient(y, x)


def inputs(count: int, length: int = 12) -> list[np.ndarray]:
    return [np.random.default_rng(k).normal(size=(length, 4)) for k in range(count)]


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """Run work in threads that begin together."""
    barrier = threading.Barrier(THREADS)

    def begin(k: int) -> Any:
        barrier.wait(60)
        return work(k)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


@pytest.mark.parametrize("python", [chain, loop, slope], ids=lambda f: f.__name__)
@pytest.mark.parametrize("is_recorded", [False, True], ids=["first", "replayed"])
def test_a_function_in_eight_threads(python: Any, is_recorded: bool) -> None:
    arrays = inputs(THREADS)
    wanted = [python(tf.constant(x)).numpy() for x in arrays]
    function = tf.function(python, wait=True)
    if is_recorded:
        function(tf.constant(arrays[0]))

    def work(k: int) -> Any:
        x = tf.constant(arrays[k])
        return [function(x).numpy() for _ in range(ROUNDS)]

    for found, expected in zip(in_threads(work), wanted):
        for one in found:
            np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-14)


def test_tapes_around_one_function_in_eight_threads() -> None:
    arrays = inputs(THREADS)
    wanted = [slope(tf.constant(x)).numpy() for x in arrays]
    function = tf.function(lambda x: tf.reduce_sum(loop(x) ** 2) + tf.reduce_sum(chain(x)))

    def work(k: int) -> Any:
        x, found = tf.constant(arrays[k]), []
        for _ in range(ROUNDS):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            found.append(tape.gradient(y, x).numpy())
        return found

    for found, expected in zip(in_threads(work), wanted):
        for one in found:
            np.testing.assert_allclose(one, expected, rtol=1e-11, atol=1e-13)


def test_functions_of_several_lengths_in_eight_threads() -> None:
    function = tf.function(chain)

    def work(k: int) -> Any:
        x = inputs(1, length=3 + k % 4)[0]
        return [(function(tf.constant(x)).numpy(), x) for _ in range(ROUNDS)]

    for rows in in_threads(work):
        for found, x in rows:
            np.testing.assert_allclose(found, chain(tf.constant(x)), rtol=1e-12, atol=1e-14)


def test_tasks_of_asyncio_share_a_function() -> None:
    arrays = inputs(6)
    wanted = [slope(tf.constant(x)).numpy() for x in arrays]
    function = tf.function(lambda x: tf.reduce_sum(loop(x) ** 2) + tf.reduce_sum(chain(x)))

    async def work(x: Any) -> Any:
        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            await asyncio.sleep(0)
            y = function(x)
            await asyncio.sleep(0)
        return tape.gradient(y, x).numpy()

    async def run() -> Any:
        return await asyncio.gather(*[work(x) for x in arrays])

    for found, expected in zip(asyncio.run(run()), wanted):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def in_child(connection: Any, x: np.ndarray, function: Any) -> None:
    """Call a function in another process: one that the parent made, or a new one."""
    function = tf.function(slope) if function is None else function
    connection.send([function(tf.constant(x)).numpy() for _ in range(2)])
    connection.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_calls_and_records(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    x = inputs(1)[0]
    function = tf.function(slope)
    wanted = function(tf.constant(x)).numpy()
    context: Any = multiprocessing.get_context(method)

    for given in [None, function][: 2 if method == "fork" else 1]:
        ours, theirs = context.Pipe()
        child = context.Process(target=in_child, args=(theirs, x, given))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
            child.start()
        assert ours.poll(120)
        for found in ours.recv():
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
        child.join(60)
        assert child.exitcode == 0
    np.testing.assert_allclose(function(tf.constant(x)), wanted, rtol=1e-12, atol=1e-14)


COMPILE = """
import sys
import numpy as np
import tapegrad as tf
from tests.program.test_concurrency import inputs, slope
sys.stdin.readline()
x = tf.constant(inputs(1)[0])
function = tf.function(slope, wait=True)
print([float(np.sum(function(x).numpy() ** 2)) for _ in range(2)])
"""


def test_two_processes_compile_one_program_into_one_cache(tmp_path: Path) -> None:
    paths = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "TAPEGRAD_CACHE": str(tmp_path / "cache"),
        "TAPEGRAD_CFLAGS": "-O0",
    }
    command = [sys.executable, "-c", COMPILE]
    processes = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    texts = [process.communicate("go\n", timeout=240)[0] for process in processes]
    third = subprocess.run(
        command, env=environment, input="go\n", capture_output=True, text=True, check=True
    )

    wanted = float(np.sum(slope(tf.constant(inputs(1)[0])).numpy() ** 2))
    for text in [*texts, third.stdout]:
        np.testing.assert_allclose(json.loads(text), wanted, rtol=1e-12)
    # What a compilation has written is complete: nothing with a name of its own is left.
    assert not [path for path in (tmp_path / "cache").rglob("*") if "tmp" in path.name]
