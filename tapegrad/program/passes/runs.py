"""Turn gathers by known index arrays into gathers of runs, and their gradients into sums of slices.

Loops read a gather of a few runs in place. The gradient is the sum of the runs, each padded with
zeros, which loops read in place as well, instead of a scatter into zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.indexing.runs import Run, length_of, runs_of
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.windows import WINDOWS
from tapegrad.program.passes.new_calls import NewCalls

_BY_INDEX = {"take": "take_runs", "gather_rows": "take_runs", "take_add": "take_runs_add"}

MOST_SUMMED = 5
"""The most runs that a loop adds up."""

_STEPS = (-1, 0, 1)
"""Steps of runs that a loop adds up."""

SHORTEST = 2
"""The least mean length of runs; shorter ones are read faster by their indices."""


def with_known_runs(graph: Graph) -> Graph:
    """Replace gathers by constant index vectors that consist of a few runs, if loops read them."""
    if not any(call.primitive.name in _BY_INDEX for call in graph.calls):
        return graph
    in_loops = {
        value.number for call in graph.calls if _may_be_in_loop(call) for value in call.reads
    }
    known: dict[tuple[int, int], Any] = {}
    calls = [_with_runs(call, graph.constants, in_loops, known) for call in graph.calls]
    return replace(graph, calls=tuple(calls))


def _may_be_in_loop(call: Call) -> bool:
    """Whether a loop may make the call, or look through it."""
    name = call.primitive.name
    is_window = name in WINDOWS or name in _BY_INDEX or is_view(call)
    return is_window or is_combining(call) or weight_of(call) is not None


def _with_runs(
    call: Call,
    constants: dict[int, Any],
    in_loops: Collection[int],
    known: dict[tuple[int, int], Any],
) -> Call:
    """Return a gather of runs in place of a gather by an index array, or the call itself."""
    name = _BY_INDEX.get(call.primitive.name)
    if name is None or len(call.reads) != 2 or call.region:
        return call
    if call.results[0].number not in in_loops:
        return call
    table, index = call.reads
    positions = constants.get(index.number)
    # Values of constants on other devices are not read: programs are built in the background.
    if not isinstance(positions, np.ndarray) or positions.ndim != 1:
        return call
    axis = call.params.get("axis", 0)
    size = call.params["size"] if "size" in call.params else table.shape[axis]
    if (index.number, size) not in known:
        inside = len(positions) and positions.min() >= 0 and positions.max() < size
        known[index.number, size] = runs_of(positions) if inside else None
    runs = known[index.number, size]
    if runs is None or len(runs) * SHORTEST > len(positions) + SHORTEST:
        return call
    params = {"axis": axis, "runs": runs}
    if name == "take_runs_add":
        if not _are_summed_in_loops(runs):
            return call
        params["size"] = size
    return replace(call, primitive=PRIMITIVES[name], operands=(table,), params=params)


def _are_summed_in_loops(runs: tuple[Run, ...]) -> bool:
    return len(runs) <= MOST_SUMMED and all(step in _STEPS for _, step, _ in runs)


def with_summed_runs(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace sums of runs by additions of slices that are padded with zeros."""
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        calls.extend(_summed(call, numbers, loops) or (call,))
    return replace(graph, calls=tuple(calls))


def _summed(call: Call, numbers: Iterator[int], loops: LoopCompiler) -> list[Call]:
    """Return the additions that a sum of runs consists of, none if it stays."""
    if call.primitive.name != "take_runs_add" or call.region:
        return []
    t, result = call.reads[0], call.results[0]
    runs, axis, size = (call.params[name] for name in ("runs", "axis", "size"))
    if len(runs) == 1 or not _are_summed_in_loops(runs):
        return []
    if 0 in t.shape or (loops.dtypes is not None and t.dtype.name not in loops.dtypes):
        return []
    if t.dtype.kind != "f" or length_of(runs) != t.shape[axis]:
        return []
    making = NewCalls(call, numbers)
    begin, total = 0, None
    for run in runs:
        term = _placed_run(making, t, axis, begin, run, size)
        is_first = total is None
        total = term if is_first else making.add("add", (total, term), {}, result.shape)
        begin += run[2]
    return making.ending_in(result)


def _placed_run(making: NewCalls, t: Value, axis: int, begin: int, run: Run, size: int) -> Value:
    """Return the part of a value that belongs to a run, at its place among zeros."""
    first, step, count = run
    before, after = (slice(None),) * axis, (slice(None),) * (len(t.shape) - axis - 1)
    part = making.part(t, (*before, slice(begin, begin + count), *after))
    if step == -1:
        part = making.add("flip", (part,), {"axis": (axis,)}, part.shape)
        first -= count - 1
    elif step == 0:
        shape = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
        part = making.add("sum", (part,), {"axis": (axis,), "keepdims": True}, shape)
        count = 1
    whole = (*t.shape[:axis], size, *t.shape[axis + 1 :])
    return making.placed(part, (*before, slice(first, first + count), *after), whole)
