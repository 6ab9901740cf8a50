"""Functions on the GPU: replays and CUDA graphs give what eager calls give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core import nest
from tapegrad_cupy import capture
from tests.steps import STEPS


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    with tf.device("cuda:0"):
        yield


def host(values: Any) -> list[Any]:
    return [np.asarray(value.numpy()) for value in nest.flatten(values)]


def captures_of(function: Any) -> Any:
    (entry,) = function._entries.values()
    return entry.program._run


@pytest.mark.parametrize("name", STEPS)
def test_a_recorded_step_equals_an_eager_one(name: str) -> None:
    tf.random.set_seed(1)
    eager = STEPS[name]()
    expected = [host(eager()) for _ in range(6)]

    tf.random.set_seed(1)
    recorded = tf.function(STEPS[name]())
    found = [host(recorded()) for _ in range(6)]

    for one, other in zip(found, expected):
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def training(size: int = 32) -> tuple[Callable[..., Any], list[Any]]:
    w = tf.Variable(np.linspace(-1, 1, size * size, dtype="float32").reshape(size, size))
    optimizer = tf.optimizers.Adam(0.01)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ w)))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step, [w]


def test_a_training_step_becomes_one_graph() -> None:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))

    losses = [float(step(x)) for _ in range(8)]

    run = captures_of(step)
    assert len(run._graphs) == 1
    assert run._captures == 1
    assert losses == pytest.approx(eager_losses(8), rel=1e-5)


def eager_losses(count: int) -> list[float]:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    return [float(step.python_function(x)) for _ in range(count)]


def test_a_graph_reads_new_inputs() -> None:
    step = tf.function(lambda x: tf.reduce_sum(x * 2.0))

    results = [float(step(tf.constant(np.full(5, k, "float32")))) for k in range(6)]

    assert results == [10.0 * k for k in range(6)]
    assert captures_of(step)._captures == 1


def test_large_inputs_are_read_where_they_lie() -> None:
    size = capture.SMALL
    x, y = (tf.convert_to_tensor(cupy.full(size, k, "float32")) for k in (1, 2))
    step = tf.function(lambda x: tf.reduce_sum(x))

    results = [float(step(value)) for value in (x, x, x, x, y, y, x)]

    assert results == [size, size, size, size, 2 * size, 2 * size, size]
    assert captures_of(step)._captures == 2


def test_a_value_read_before_a_step_keeps_its_value() -> None:
    step, (w,) = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    for _ in range(4):
        step(x)
    before = w.value()
    expected = before.numpy()

    step(x)
    step(x)

    np.testing.assert_array_equal(before.numpy(), expected)
    assert not np.array_equal(w.numpy(), expected)


def test_large_results_may_be_kept() -> None:
    x = tf.convert_to_tensor(cupy.arange(capture.SMALL, dtype="float32"))
    scale = tf.Variable(1.0)

    @tf.function
    def step() -> Any:
        scale.assign_add(1.0)
        return x * scale

    kept = [step() for _ in range(7)]

    for k, result in enumerate(kept):
        assert float(result[1]) == 2.0 + k


def test_an_assignment_outside_is_seen() -> None:
    w = tf.Variable(2.0)
    step = tf.function(lambda x: x * w)
    x = tf.constant(3.0)
    assert [float(step(x)) for _ in range(4)] == [6.0] * 4

    w.assign(5.0)

    assert [float(step(x)) for _ in range(4)] == [15.0] * 4


def test_exchanged_variables() -> None:
    a, b = tf.Variable([1.0]), tf.Variable([2.0])

    @tf.function
    def swap() -> None:
        first, second = a.value(), b.value()
        a.assign(second)
        b.assign(first)

    seen = []
    for _ in range(6):
        swap()
        seen.append((float(a[0]), float(b[0])))

    assert seen == [(2.0, 1.0), (1.0, 2.0)] * 3


def test_what_cannot_be_captured_runs_all_the_same() -> None:
    a = np.diag(np.arange(1.0, 5.0))
    step = tf.function(lambda x: tf.linalg.solve(x, x))

    for _ in range(5):
        np.testing.assert_allclose(step(tf.constant(a)).numpy(), np.eye(4), atol=1e-12)


def test_nothing_piles_up_over_many_steps() -> None:
    step, _ = training()
    x = tf.constant(np.ones((8, 32), "float32"))
    for _ in range(10):
        step(x)
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()

    for _ in range(2000):
        step(x)

    assert pool.used_bytes() <= before + 4096


def test_work_on_a_stream_of_the_user() -> None:
    step, _ = training()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = tf.constant(np.ones((8, 32), "float32"))
        losses = [float(step(x)) for _ in range(6)]
    assert losses == pytest.approx(eager_losses(6), rel=1e-5)
