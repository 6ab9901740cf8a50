"""Kernels that overwrite their first operand run only if no later step reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests import capabilities
from tests.program.reference_loops import Reference


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A kernel for `sort` that destroys its operand, and the operands that it got."""
    seen: list[Any] = []

    def sort_over(x: Any, *, axis: int, descending: bool) -> Any:
        seen.append(x)
        result = np.sort(x, axis=axis)[..., :: -1 if descending else 1].copy()
        x[...] = result
        return x

    overwriting = capabilities.Overwriting(sort=sort_over)
    capabilities.use(monkeypatch, in_place=overwriting, loops=Reference())
    return seen


def check(function: Any, calls: list[Any], times: int) -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=8))
    given = x.numpy()
    expected = tf.nest.flatten(function(x))
    recorded = tf.function(function)
    recorded(x)
    calls.clear()
    for _ in range(3):
        found = tf.nest.flatten(recorded(x))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)

    assert len(calls) == 3 * times
    np.testing.assert_array_equal(x.numpy(), given)


def test_a_value_that_nobody_needs_later_is_written_over(calls: list[Any]) -> None:
    check(lambda x: tf.sort(tf.exp(x)), calls, times=1)


def test_an_input_is_not(calls: list[Any]) -> None:
    check(lambda x: tf.sort(x) * 2.0, calls, times=0)


def test_a_value_that_is_read_later_is_not(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = tf.exp(x)
        return tf.cumsum(tf.sort(y)) + tf.cumsum(y)

    check(function, calls, times=0)


def test_a_result_is_not(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = tf.cumsum(x)
        return tf.sort(y), y

    check(function, calls, times=0)


def test_what_a_view_shows_is_not(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        y = tf.cumsum(x)
        view = tf.reshape(y, [2, 4])
        return tf.sort(y), tf.cumsum(view, axis=1)

    check(function, calls, times=0)


def test_the_memory_plan_counts_a_value_that_is_written_over_once(calls: list[Any]) -> None:
    def function(x: Any) -> Any:
        return tf.reduce_sum(tf.cumsum(tf.sort(tf.cumsum(x))))

    x = tf.constant(np.ones(1000))
    recorded = tf.function(function)
    recorded(x)

    # Sorted in place, then the last sums beside it.
    assert recorded.program(x).memory().peak == 16_000
    assert len(recorded.program(x).memory().held) == 2


def _updated(p: Any, rows: Any, indices: Any, rate: Any, over: bool = False) -> tuple[Any]:
    new = p if over else p.copy()
    np.subtract.at(new, indices, rate * rows)
    return (new,)


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A kernel for updates of rows that changes the table, and the tables that it got."""
    seen: list[Any] = []

    def over(p: Any, rows: Any, indices: Any, rate: Any) -> tuple[Any]:
        seen.append(p)
        return _updated(p, rows, indices, rate, over=True)

    overwriting = capabilities.Overwriting(sgd_rows_update=over)
    capture = capabilities.Capture(_owning)
    capabilities.use(monkeypatch, in_place=overwriting, loops=Reference(), capture=capture)
    return seen


def _owning(run: Any, written: Any, in_place: Any) -> Any:
    """Pass copies of the arrays that a program overwrites."""

    def on_copies(inputs: Any, variables: Any) -> Any:
        own = [v.copy() if k in in_place else v for k, v in enumerate(variables)]
        return run(inputs, own)

    return on_copies


def _trained(step: Any, table: Any, recorded: bool) -> np.ndarray:
    run = tf.function(step) if recorded else step
    for k in range(4):
        run(tf.constant([1, 49, 1, k]))
    return table.numpy()


@pytest.mark.parametrize("reads_after", [False, True])
def test_rows_of_a_table_are_updated_in_place_unless_it_is_read_later(
    updates: list[Any], reads_after: bool
) -> None:
    results = []
    for recorded in (False, True):
        table = tf.Variable(np.linspace(-1, 1, 150).reshape(50, 3))
        optimizer = tf.optimizers.SGD(0.1)

        def step(ids: Any, table: Any = table, optimizer: Any = optimizer) -> Any:
            with tf.GradientTape() as tape:
                rows = tf.gather(table, ids)
                loss = tf.reduce_sum(tf.exp(rows) * rows)
            before = tf.convert_to_tensor(table)
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            return (loss, tf.cumsum(before)) if reads_after else loss

        results.append(_trained(step, table, recorded))

    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)
    # The first call records, and may run the program as well.
    assert len(updates) in ([0] if reads_after else [3, 4])
