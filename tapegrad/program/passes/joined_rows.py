"""Add rows to one array of zeros where several arrays of such sums are added up.

A table that is gathered from more than once has a gradient with a sum by index for each of them.
Each fills an array of the size of the table, and their sum passes over all of them. If the rows
and their indices are joined first, the table is filled once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from tapegrad.program.graph.addition_trees import Sum, sums_of
from tapegrad.program.graph.dependence import in_order, makers_of, unused_numbers, use_counts
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls


class _Joined(NamedTuple):
    """The sums by index among the leaves of a tree of additions that become one."""

    tree: Sum
    sums: list[Call]

    @property
    def numbers(self) -> set[int]:
        return {call.results[0].number for call in self.sums}


def with_joined_rows(graph: Graph) -> Graph:
    """Replace sums of sums by index by one sum by index."""
    if sum(map(_adds_rows, graph.calls)) < 2:
        return graph
    makers, uses = makers_of(graph.calls), use_counts(graph)
    found = {
        tree.root: joined
        for tree in sums_of(graph.calls, makers, uses)
        if (joined := _joined(tree, graph.calls, makers, uses)) is not None
    }
    if not found:
        return graph
    numbers = unused_numbers(graph)
    gone = {place for joined in found.values() for place in joined.tree.calls}
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        if place in found:
            calls.extend(_calls(found[place], call, numbers))
        elif place not in gone:
            calls.append(call)
    return without_dead_calls(replace(graph, calls=in_order(calls)))


def _adds_rows(call: Call) -> bool:
    """Whether a call adds rows along the first axis of an array of zeros."""
    is_sum = call.primitive.name == "take_add" and not call.region
    return is_sum and call.params["axis"] == 0 and len(call.reads) == 2


def _joined(
    tree: Sum, calls: Sequence[Call], makers: Mapping[int, int], uses: Counter[int]
) -> _Joined | None:
    """Return the leaves that are sums by index with indices of one dtype, if they are several.

    Joined rows are copied, which takes longer than another pass over a small table.
    """
    if any(calls[place].region for place in tree.calls):
        return None
    by_dtype: dict[Any, list[Call]] = defaultdict(list)
    for leaf in tree.leaves:
        place = makers.get(leaf.number)
        if place is not None and uses[leaf.number] == 1 and _adds_rows(calls[place]):
            by_dtype[calls[place].reads[1].dtype].append(calls[place])
    sums = max(by_dtype.values(), key=len, default=[])
    copied = sum(call.reads[0].size for call in sums)
    is_worth_it = len(sums) > 1 and copied <= tree.leaves[0].size
    return _Joined(tree, sums) if is_worth_it else None


def _calls(joined: _Joined, root: Call, numbers: Iterator[int]) -> list[Call]:
    """Return the calls that make the sum of a tree."""
    making = NewCalls(root, numbers)
    table = root.results[0].shape
    rows = [_as_rows(making, call, table[1:]) for call in joined.sums]
    indices = [_as_list(call.reads[1], joined.sums[0], numbers) for call in joined.sums]
    making.calls += [call for call, _ in indices if call is not None]
    counts = [prod(value.shape) for _, value in indices]
    params = {"axis": 0, "sizes": tuple(counts)}
    both = making.add("concat", rows, params, (sum(counts), *table[1:]))
    like = indices[0][1]
    places = replace(like, number=next(numbers), shape=(sum(counts),))
    making.add("concat", [value for _, value in indices], params, places.shape, places)
    found = making.add("take_add", (both, places), {"axis": 0, "size": table[0]}, table)
    for leaf in joined.tree.leaves:
        if leaf.number not in joined.numbers:
            found = making.add("add", (found, leaf), {}, table)
    return making.ending_in(root.results[0])


def _as_rows(making: NewCalls, call: Call, row: tuple[int, ...]) -> Value:
    """Return what a sum by index adds, one row for each index."""
    shape = (prod(call.reads[1].shape), *row)
    value = call.reads[0]
    return (
        value if value.shape == shape else making.add("reshape", (value,), {"shape": shape}, shape)
    )


def _as_list(indices: Value, like: Call, numbers: Iterator[int]) -> tuple[Call | None, Value]:
    """Return indices along one axis, and the call that makes them so if there is one."""
    if len(indices.shape) == 1:
        return None, indices
    shape = (prod(indices.shape),)
    making = NewCalls(replace(like, results=(indices,)), numbers)
    flat = making.add("reshape", (indices,), {"shape": shape}, shape)
    return making.calls[0], flat
