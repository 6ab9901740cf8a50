"""Sort once where a program needs both the sorted values and their order.

The gradient of a sort needs the order of the elements. The values in that order are a gather, which
takes less time than to sort them as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph
from tapegrad.program.passes.new_calls import NewCalls


def with_one_sort(graph: Graph) -> Graph:
    """Replace sorts of values whose order is needed by gathers in that order."""
    ordered = {_key(call) for call in graph.calls if call.primitive.name == "argsort"}
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        is_known = call.primitive.name == "sort" and _key(call) in ordered
        calls.extend(_gathered(call, numbers) if is_known else (call,))
    return replace(graph, calls=tuple(calls))


def _key(call: Call) -> tuple[Any, ...]:
    stable = call.params.get("stable", True)
    values = tuple(value.number for value in call.reads)
    return values, call.params["axis"], call.params["descending"], stable, call.region


def _gathered(call: Call, numbers: Iterator[int]) -> list[Call]:
    x, result, axis = call.reads[0], call.results[0], call.params["axis"]
    making = NewCalls(replace(call, results=(replace(result, dtype=np.dtype(np.int64)),)), numbers)
    order = making.add("argsort", (x,), {**call.params, "stable": True}, x.shape)
    gather = NewCalls(call, numbers)
    gather.add("take_along_axis", (x, order), {"axis": axis, "unique": True}, x.shape)
    return [*making.calls, *gather.ending_in(result)]
