"""Steps start sums over all processes early and wait for them late."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.collective.parts import sum_over_replicas_p
from tapegrad.program.emit.late_waits import MOST, is_wait, with_late_waits
from tapegrad.program.graph.graph import Call, Value


def _value(number: int) -> Value:
    return Value(number, (3,), np.dtype("float32"))


def _call(name: str, result: int, *operands: int) -> Call:
    params = {"group": None} if "sum_over" in name else {}
    given = tuple([_value(number) for number in operands])
    return Call(PRIMITIVES[name], given, params, (_value(result),), np.ndarray)


def _names(steps: list[Any]) -> list[str]:
    return [step.primitive.name for step in steps]


SUM = sum_over_replicas_p.name
tf.sort(tf.exp([1.0]) + 1.0)  # declares the others


def test_a_wait_comes_before_the_first_reader() -> None:
    steps = [
        _call(SUM, 1, 0),
        _call("exp", 2, 0),
        _call("add", 3, 1, 2),
        _call("exp", 4, 1),
    ]

    found = with_late_waits(steps, [0], frozenset())

    assert _names(found) == ["start_sum", "exp", "wait", "add", "exp"]
    start, wait = found[0], found[2]
    # A new value has what is not there yet; the wait keeps the operand alive.
    assert start.results[0].number == 5
    assert [value.number for value in wait.reads] == [5, 0]
    assert wait.results == steps[0].results
    assert wait.aliases
    assert [is_wait(step) for step in found] == [False, False, True, False, False]


def test_results_that_nothing_reads_are_waited_for_last() -> None:
    found = with_late_waits([_call(SUM, 1, 0), _call("exp", 2, 0)], [7], frozenset())

    assert _names(found) == ["start_sum", "exp", "wait"]
    assert found[0].results[0].number == 8


def test_few_sums_travel_at_once() -> None:
    steps = [_call(SUM, 10 + k, 0) for k in range(MOST + 2)]

    names = _names(with_late_waits(steps, [0], frozenset()))

    assert names == [*["start_sum"] * MOST, *["wait", "start_sum"] * 2, *["wait"] * MOST]


def test_a_graph_contains_both_parts() -> None:
    # Printing and sorting are no part of the graph before them.
    steps = [_call(SUM, 1, 0), _call("exp", 2, 0), _call("sort", 3, 0), _call("exp", 4, 1)]

    found = with_late_waits(steps, [0], frozenset({"sort"}))

    assert _names(found) == ["start_sum", "exp", "wait", "sort", "exp"]


def test_calls_that_run_between_graphs_stay_whole() -> None:
    steps = [_call(SUM, 1, 0), _call("exp", 2, 1)]

    assert with_late_waits(steps, [0], frozenset({SUM})) == steps
