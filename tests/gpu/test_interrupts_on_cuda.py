"""A training step on the GPU that is interrupted has changed all of its variables or none."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

STEPS = 30


@pytest.fixture(autouse=True)
def _alarms_interrupt() -> Iterator[None]:
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


def training(recorded: bool) -> tuple[Callable[[], Any], list[Any]]:
    rng = np.random.default_rng(0)
    with tf.device("cuda:0"):
        x = tf.constant(rng.normal(size=(64, 8)).astype("float32"))
        weights = [tf.Variable(rng.normal(size=(8, 8)).astype("float32")) for _ in range(4)]
        optimizer = tf.optimizers.Adam(0.01)
        optimizer.build(weights)

    def step() -> Any:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(y @ weight)
            loss = tf.reduce_mean(y * y)
        optimizer.apply_gradients(list(zip(tape.gradient(loss, weights), weights)))
        return loss

    return tf.function(step) if recorded else step, [*weights, *optimizer.variables]


def state_of(variables: list[Any]) -> list[Any]:
    return [variable.numpy().copy() for variable in variables]


# Python reports and drops an interrupt that arrives while it runs a destructor.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("recorded", [True, False])
def test_a_step_that_is_interrupted_is_whole(recorded: bool) -> None:
    step, variables = training(recorded)
    states = [state_of(variables)]
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
        states.append(state_of(variables))
    seconds = time.perf_counter() - begin
    numbers = random.Random(0)
    for _ in range(40):
        for variable, value in zip(variables, states[0]):
            variable.assign(value)
        try:
            signal.setitimer(signal.ITIMER_REAL, numbers.uniform(1e-5, seconds / 2))
            for _ in range(STEPS):
                step()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        now = state_of(variables)
        assert any(all(map(np.array_equal, now, state)) for state in states)


def test_no_update_of_a_thread_is_lost() -> None:
    with tf.device("cuda:0"):
        v = tf.Variable(np.zeros(1000))
        one = tf.ones(1000, "float64")
    step = tf.function(lambda: v.assign_add(one))
    step()
    v.assign(np.zeros(1000))

    def work() -> None:
        for _ in range(100):
            step()
            v.assign_add(one)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(v.numpy(), np.full(1000, 800.0))
