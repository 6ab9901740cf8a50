"""Steps start collective calls early and wait for them late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.collective.parts import gather_shards_p, scatter_shards_p, sum_over_replicas_p
from tapegrad.program.emit.buffer_reuse import overwriting_calls
from tapegrad.program.emit.late_gathers import is_gather, with_late_gathers
from tapegrad.program.emit.late_waits import MOST, with_late_waits
from tapegrad.program.graph.graph import Call, Graph, Value, is_wait


def _value(number: int) -> Value:
    return Value(number, (3,), np.dtype("float32"))


def _call(name: str, result: int, *operands: int) -> Call:
    params: dict[str, Any] = {"group": None} if "sum_over" in name else {}
    if "shards" in name:
        params = {"group": None, "shape": (3,)}
    given = tuple([_value(number) for number in operands])
    return Call(PRIMITIVES[name], given, params, (_value(result),), np.ndarray)


def _names(steps: list[Any]) -> list[str]:
    return [step.primitive.name for step in steps]


def _split(steps: list[Any], uncaptured: str = "", constants: Sequence[int] = ()) -> list[Any]:
    """Split the steps of a program whose inputs are the values 0 to 2, without constants."""
    graph = Graph((_value(0), _value(1), _value(2)), {}, {}, (), ())
    return with_late_waits(graph, steps, constants, frozenset({uncaptured}))


SUM = sum_over_replicas_p.name
tf.sort(tf.exp([1.0]) + 1.0)  # declares the others


def test_a_wait_comes_before_the_first_reader() -> None:
    steps = [
        _call(SUM, 1, 0),
        _call("exp", 2, 0),
        _call("add", 3, 1, 2),
        _call("exp", 4, 1),
    ]

    found = _split(steps)

    assert _names(found) == ["start_sum", "exp", "wait", "add", "exp"]
    start, wait = found[0], found[2]
    # A new value has what is not there yet; the wait keeps the operand alive.
    assert start.results[0].number == 5
    assert [value.number for value in wait.reads] == [5, 0]
    assert wait.results == steps[0].results
    assert wait.aliases
    assert [is_wait(step) for step in found] == [False, False, True, False, False]


def test_results_that_nothing_reads_are_waited_for_last() -> None:
    found = _split([_call(SUM, 1, 0), _call("exp", 2, 0)], constants=[7])

    assert _names(found) == ["start_sum", "exp", "wait"]
    assert found[0].results[0].number == 8


def test_few_sums_travel_at_once() -> None:
    steps = [_call(SUM, 10 + k, 0) for k in range(MOST + 2)]

    names = _names(_split(steps))

    assert names == [*["start_sum"] * MOST, *["wait", "start_sum"] * 2, *["wait"] * MOST]


def test_a_graph_contains_both_parts() -> None:
    # Printing and sorting are no part of the graph before them.
    steps = [_call(SUM, 1, 0), _call("exp", 2, 0), _call("sort", 3, 0), _call("exp", 4, 1)]

    found = _split(steps, "sort")

    assert _names(found) == ["start_sum", "exp", "wait", "sort", "exp"]


def test_calls_that_run_between_graphs_stay_whole() -> None:
    steps = [_call(SUM, 1, 0), _call("exp", 2, 1)]

    assert _split(steps, SUM) == steps


def test_a_sum_is_written_over_an_operand_that_nothing_else_reads() -> None:
    steps = [_call("exp", 3, 0), _call(SUM, 4, 3), _call("exp", 5, 4)]

    dying = _split(steps)
    read_again = _split([*steps, _call("exp", 6, 3)])

    assert _names(dying) == ["exp", "start_sum", "wait", "exp"]
    assert [value.number for value in dying[2].reads] == [6]
    assert overwriting_calls(Graph((_value(0),), {}, {}, (), (_value(5),)), dying, [0] * 4) == {1}
    # A loop could write over the operand while it travels, if the wait did not read it.
    assert [value.number for value in read_again[2].reads] == [7, 3]


GATHER, SCATTER = gather_shards_p.name, scatter_shards_p.name


def _layers(count: int) -> list[Any]:
    """Return a program of sharded layers, recorded in this order: forward, backward.

    The weights of layer k are the values 10 + k, gathered as 20 + k and 30 + k, and its gradient
    is 50 + k.
    """
    steps = []
    for k in range(count):
        steps += [_call(GATHER, 20 + k, 10 + k), _call("add", 41 + k, 40 + k, 20 + k)]
    for k in reversed(range(count)):
        steps += [_call(GATHER, 30 + k, 10 + k), _call("add", 50 + k, 51 + k, 30 + k)]
        steps += [_call(SCATTER, 60 + k, 50 + k)]
    return steps


def _gathered_first(steps: list[Any]) -> list[Any]:
    """Return the steps as fusion orders them: all gathers as early as possible."""
    return [*[s for s in steps if is_gather(s)], *[s for s in steps if not is_gather(s)]]


def test_the_weights_of_one_more_layer_are_gathered_ahead() -> None:
    for steps in (_layers(3), _gathered_first(_layers(3))):
        found = _split(with_late_gathers(steps))

        live, most, starts = 0, 0, []
        for step in found:
            name = step.primitive.name
            if name == "start_gather_shards":
                starts.append(step.operands[0].number - 10)
            live += name == "start_gather_shards"
            most = max(most, live)
            live -= name == "add"
        assert starts == [0, 1, 2, 2, 1, 0]
        assert most == 2
        # The next weights travel while a layer computes.
        names = [name for name in _names(found) if name != "start_scatter_shards"]
        assert names[:6] == [
            *2 * ["start_gather_shards"],
            "wait",
            "add",
            "start_gather_shards",
            "wait",
        ]


def test_the_order_of_collective_calls_follows_from_their_recorded_order() -> None:
    steps = _layers(4)
    rng = np.random.default_rng(0)
    orders = set()
    for _ in range(50):
        # What other processes may have: another order of the steps that are no effects.
        waiting, mixed, made = [*steps], [], set(range(20)) | {40, 54}
        while waiting:
            effects = [step for step in waiting if step.effects][:1]
            ready = [
                step
                for step in [*[s for s in waiting if not s.effects], *effects]
                if all(value.number in made for value in step.reads)
            ]
            step = ready[rng.integers(len(ready))]
            waiting.remove(step)
            mixed.append(step)
            made.update(value.number for value in step.results)
        found = with_late_gathers(mixed)
        orders.add(tuple((s.primitive.name, s.results[0].number) for s in found if s.effects))

    assert len(orders) == 1
    assert [number for _, number in next(iter(orders))][:9] == [20, 21, 22, 23, 33, 32, 63, 31, 62]


def test_gathers_do_not_pass_other_effects() -> None:
    steps = [_call(GATHER, 20, 10), _call("exp", 40, 20)]
    steps += [_call("sum_in_group", 30, 40), _call(GATHER, 21, 11), _call("add", 41, 40, 21)]

    assert with_late_gathers(steps) == steps
