"""Join the parts of an array that are padded with zeros and added up.

The gradient of `x[0], x[1], ...` is a sum of arrays that are zero but for one part each. If the
parts are next to each other, they are joined instead, and nothing is added.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from tapegrad.program.graph.addition_trees import Sum, sums_of
from tapegrad.program.graph.dependence import in_order, makers_of, unused_numbers, use_counts
from tapegrad.program.graph.graph import Call, Graph, Shape, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls

FEWEST = 3
"""The fewest parts that are joined."""


class _Span(NamedTuple):
    """A range of positions along an axis."""

    axis: int
    start: int
    stop: int


@dataclass(frozen=True)
class _Joined:
    """The parts, by their spans in order, that replace some leaves of a sum."""

    tree: Sum
    axis: int
    parts: dict[_Span, list[Value]]
    leaves: set[int]


def with_joined_parts(graph: Graph) -> Graph:
    """Replace sums of parts among zeros by the joined parts."""
    if sum(call.primitive.name == "unslice" for call in graph.calls) < FEWEST:
        return graph
    makers, uses = makers_of(graph.calls), use_counts(graph)
    found = [
        joined
        for tree in sums_of(graph.calls, makers, uses)
        if (joined := _joined(tree, graph.calls, makers, uses))
    ]
    if not found:
        return graph
    numbers = unused_numbers(graph)
    gone = {place for joined in found for place in joined.tree.calls}
    early: dict[int, list[Call]] = defaultdict(list)
    found = [_with_sums(joined, graph, makers, numbers, early) for joined in found]
    new = {joined.tree.root: _calls(joined, graph, numbers) for joined in found}
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        calls.extend(new.get(place, ()))
        if place not in gone:
            calls.append(call)
        calls.extend(early.get(place, ()))
    return without_dead_calls(replace(graph, calls=in_order(calls)))


def _joined(
    tree: Sum, calls: Sequence[Call], makers: Mapping[int, int], uses: Counter[int]
) -> _Joined | None:
    """Return the parts along the axis that has most of them, None if they are few or overlap."""
    if any(calls[place].region for place in tree.calls):
        return None
    by_axis: dict[int, list[tuple[_Span, Value, int]]] = defaultdict(list)
    for leaf in tree.leaves:
        place = makers.get(leaf.number)
        if place is None or uses[leaf.number] != 1:
            continue
        call = calls[place]
        span = _span(call) if call.primitive.name == "unslice" and not call.region else None
        if span is not None:
            by_axis[span.axis].append((span, call.reads[0], leaf.number))
    some = _apart(max(by_axis.values(), key=len, default=[]))
    parts: dict[_Span, list[Value]] = defaultdict(list)
    for span, part, _ in sorted(some, key=lambda item: item[0]):
        parts[span].append(part)
    spans = [*parts]
    if len(spans) < FEWEST or any(a.stop > b.start for a, b in pairwise(spans)):
        return None
    covered = sum(span.stop - span.start for span in spans)
    axis = spans[0].axis
    if 2 * covered < tree.leaves[0].shape[axis]:
        return None
    return _Joined(tree, axis, dict(parts), {number for _, _, number in some})


Part = tuple[_Span, Value, int]


def _apart(parts: list[Part]) -> list[Part]:
    """Return the parts, or if they overlap those of the most common length."""
    spans = sorted({span for span, _, _ in parts})
    if not any(a.stop > b.start for a, b in pairwise(spans)):
        return parts
    ((length, _),) = Counter(span.stop - span.start for span, _, _ in parts).most_common(1)
    return [part for part in parts if part[0].stop - part[0].start == length]


def _span(call: Call) -> _Span | None:
    """Return where the operand of a call is placed, None if along several axes or in steps."""
    shape, index = call.params["shape"], call.params["index"]
    if len(index) != len(shape) or 0 in shape or not call.reads[0].size:
        return None
    found = None
    for axis, (part, length) in enumerate(zip(index, shape)):
        if isinstance(part, int):
            span = _Span(axis, part % length, part % length + 1)
        elif isinstance(part, slice):
            start, stop, step = part.indices(length)
            if (start, stop, step) == (0, length, 1):
                continue
            if step != 1 or stop <= start:
                return None
            span = _Span(axis, start, stop)
        else:
            return None
        if found is not None:
            return None
        found = span
    return found


def _with_sums(
    joined: _Joined,
    graph: Graph,
    makers: Mapping[int, int],
    numbers: Iterator[int],
    early: dict[int, list[Call]],
) -> _Joined:
    """Return the parts with one value each; several of one part are added where they are made.

    The sums of an unrolled loop are then made in its rounds. `early` gets the calls that are new
    behind the calls at some positions.
    """
    root = graph.calls[joined.tree.root]
    parts: dict[_Span, list[Value]] = {}
    for span, values in joined.parts.items():
        parts[span] = values
        if len(values) > 1:
            making = NewCalls(root, numbers)
            lengths = _with_length(root.results[0].shape, joined.axis, span.stop - span.start)
            if any(value.shape != values[0].shape for value in values):
                values = [_of_shape(value, lengths, making) for value in values]
            total = values[0]
            for value in values[1:]:
                total = making.add("add", (total, value), {}, total.shape)
            place = max([makers.get(value.number, -1) for value in joined.parts[span]])
            early[place if place >= 0 else joined.tree.calls[0]] += making.calls
            parts[span] = [total]
    return replace(joined, parts=parts)


def _calls(joined: _Joined, graph: Graph, numbers: Iterator[int]) -> list[Call]:
    """Return the calls that join parts and add the other leaves."""
    root = graph.calls[joined.tree.root]
    target = root.results[0]
    making = NewCalls(root, numbers)
    rest = [leaf for leaf in joined.tree.leaves if leaf.number not in joined.leaves]
    total = _whole(joined, making, target)
    for leaf in rest:
        total = making.add("add", (total, leaf), {}, target.shape)
    return making.ending_in(target)


def _whole(joined: _Joined, making: NewCalls, target: Value) -> Value:
    """Return the joined parts, with zeros in between where there are gaps."""
    axis, shape = joined.axis, target.shape
    pieces: list[Value] = []
    sizes: list[int] = []

    def append(piece: Value, size: int) -> None:
        pieces.append(piece)
        sizes.append(size)

    def zeros(size: int) -> None:
        if size:
            lengths = _with_length(shape, axis, size)
            params = {"shape": lengths, "value": 0, "dtype": target.dtype}
            first = next(iter(joined.parts.values()))[0]
            append(making.add("full_like", (first,), params, lengths), size)

    end = 0
    for span, parts in joined.parts.items():
        zeros(span.start - end)
        size, end = span.stop - span.start, span.stop
        append(_of_shape(parts[0], _with_length(shape, axis, size), making), size)
    zeros(shape[axis] - end)
    return making.add("concat", pieces, {"axis": axis, "sizes": tuple(sizes)}, shape)


def _of_shape(x: Value, shape: Shape, making: NewCalls) -> Value:
    return x if x.shape == shape else making.add("reshape", (x,), {"shape": shape}, shape)


def _with_length(shape: Shape, axis: int, length: int) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])
