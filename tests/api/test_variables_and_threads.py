"""Variables in several threads: reads are snapshots, and no update is lost."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras

TIMES = 200 if os.environ.get("TAPEGRAD_LONG") != "1" else 5000


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*functions: Callable[[], None]) -> None:
    """Run functions in threads of their own; raise the first error."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], None]) -> None:
        try:
            start.wait(10)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


UPDATES = [
    *("assign_add", "assign_sub", "slice", "scatter", "in place", "in place and eager"),
    *("replaced", "optimizer", "metric"),
]


def counted() -> dict[str, tuple[Any, Callable[[], None]]]:
    """Variables, and updates that add 1 to their elements."""
    v = {name: tf.Variable(np.zeros(3)) for name in ("add", "sub", "slice", "item", "scatter")}
    program, other, momentum = (tf.Variable(np.zeros(3)) for _ in range(3))
    mean = keras.metrics.Mean(dtype="float64")
    optimizer = tf.optimizers.SGD(1.0)
    optimizer.build([momentum])
    one, rows = tf.ones(3, "float64"), tf.constant([[0], [1], [2]])

    @tf.function
    def step() -> None:
        program.assign_add(one)

    @tf.function
    def chain() -> None:
        other.assign(tf.cumsum(other) * 0.0 + other + one)

    step()
    chain()
    program.assign(np.zeros(3))
    other.assign(np.zeros(3))
    return {
        "assign_add": (v["add"], lambda: v["add"].assign_add(one)),
        "assign_sub": (v["sub"], lambda: v["sub"].assign_sub(-one)),
        "slice": (v["slice"], lambda: v["slice"][:].assign_add(one)),
        "scatter": (v["scatter"], lambda: v["scatter"].scatter_nd_add(rows, one)),
        "in place": (program, step),
        "in place and eager": (program, lambda: program.assign_add(one)),
        "replaced": (other, chain),
        "optimizer": (momentum, lambda: optimizer.apply_gradients([(-one, momentum)])),
        "metric": (mean.count, lambda: mean.update_state(1.0)),
    }


@pytest.mark.parametrize("name", UPDATES)
def test_no_update_is_lost(name: str) -> None:
    everything = counted()
    variable, update = everything[name]
    updates = [update] * 4
    if name == "in place and eager":
        updates = [update, everything["in place"][1]] * 2

    def times(function: Callable[[], None]) -> Callable[[], None]:
        return lambda: [function() for _ in range(TIMES)] and None

    together(*map(times, updates))

    np.testing.assert_array_equal(variable.numpy(), np.full(variable.shape, 4.0 * TIMES))


@pytest.mark.parametrize("size", [1000, 400_000])
def test_reads_are_snapshots_while_a_program_writes_in_place(size: int) -> None:
    v = tf.Variable(np.zeros(size))
    twin = tf.Variable(np.zeros(size))

    @tf.function
    def step() -> None:
        v.assign_add(tf.ones(size, "float64"))
        twin.assign_add(tf.ones(size, "float64"))

    step()
    ended = threading.Event()
    torn: list[int] = []
    changed: list[int] = []

    written: list[None] = []

    def write() -> None:
        while len(written) < TIMES or (len(torn) < 50 and len(written) < 50 * TIMES):
            step()
            written.append(None)
        ended.set()

    def read() -> None:
        while not ended.is_set():
            tensor = v.value()
            first = tensor.numpy().copy()
            torn.append(int(first.min() != first.max()))
            changed.append(int(not np.array_equal(first, tensor.numpy())))

    together(write, read, read)

    assert len(torn) >= 50
    assert sum(torn) == 0
    assert sum(changed) == 0
    np.testing.assert_array_equal(v.numpy(), np.full(size, len(written) + 1.0))
    np.testing.assert_array_equal(twin.numpy(), v.numpy())


def test_a_program_reads_all_variables_at_one_moment() -> None:
    variables = [tf.Variable(0.0) for _ in range(8)]

    @tf.function
    def write() -> None:
        for variable in variables:
            variable.assign_add(1.0)

    read = tf.function(lambda: tf.stack([variable.value() for variable in variables]))
    write()
    read()
    mixed: list[int] = []

    def reads() -> None:
        mixed.extend(len(set(read().numpy().tolist())) for _ in range(TIMES))

    together(lambda: [write() for _ in range(TIMES)] and None, reads, reads)

    assert set(mixed) == {1}


def test_a_program_ends_although_others_keep_assigning() -> None:
    v = tf.Variable(np.zeros(3))
    slow = tf.Variable(np.zeros((64, 64)))

    @tf.function
    def step() -> None:
        product = slow
        for _ in range(20):
            product = product @ slow
        v.assign(v + 1.0 + tf.reduce_sum(product))

    step()
    ended = threading.Event()

    def assign() -> None:
        while not ended.is_set():
            v.assign_add(np.ones(3))

    def run() -> None:
        for _ in range(5):
            step()
        ended.set()

    together(run, assign)


def test_a_recording_inside_an_update_waits_for_no_thread_that_waits_for_it() -> None:
    """One thread records a step; another one records inside the update of a metric."""
    v = tf.Variable(0.0)
    ready = threading.Barrier(2)

    class Recording(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__()
            self.total = self.add_variable()

        def update_state(self, x: Any) -> None:
            ready.wait(10)
            self.total.assign_add(tf.function(lambda y: y + 1.0)(x))

        def result(self) -> Any:
            return self.total.value()

    @tf.function
    def step() -> None:
        ready.wait(10)
        for _ in range(200):
            v.assign_add(1.0)

    metric = Recording()
    together(step, lambda: metric.update_state(tf.constant(1.0)))

    assert float(v) == 200.0
    assert float(metric.result()) == 2.0
