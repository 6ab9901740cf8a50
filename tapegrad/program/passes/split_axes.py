"""Compute elementwise calls in the shape that a reshape gives their values.

A group norm splits the axis of the channels, reduces along some of the new axes, and joins them
again. Loops do not reach beyond a reshape that splits or joins axes, since their iteration spaces
differ. So calls on both sides of it are made calls in the shape that both are split into: elements
stay in their order, and arrays in the other shapes are views. The reshape is then inside of one
iteration space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value, without_dead_calls
from tapegrad.program.graph.iteration_spaces import space_of

Split = tuple[Shape, ...]
"""The lengths into which each axis is split."""

LEAST = 1 << 10
"""The fewest elements of an array that is worth the calls."""


def with_split_axes(graph: Graph, loops: LoopCompiler) -> Graph:
    """Split the axes of elementwise calls that a reshape parts from other loops."""
    reshapes = [call for call in graph.calls if _changes_space(call)]
    if not reshapes:
        return graph
    spaces = _Spaces(graph, loops)
    splits = spaces.splits(reshapes)
    if not splits:
        return graph
    splitting = _Splitting(graph, spaces, splits)
    for call in graph.calls:
        splitting.add(call)
    return without_dead_calls(replace(graph, calls=tuple(splitting.calls)))


def _changes_space(call: Call) -> bool:
    if call.primitive.name != "reshape" or call.region:
        return False
    source, result = call.reads[0], call.results[0]
    return source.size >= LEAST and space_of(source.shape) != space_of(result.shape)


def common_splits(first: Shape, second: Shape) -> tuple[Split, Split] | None:
    """Return how two shapes of the same elements are split into one; None if they cannot be.

    >>> common_splits((6, 1, 32), (6, 4, 8))
    (((6,), (1,), (4, 8)), ((6,), (4,), (8,)))
    >>> common_splits((2, 3, 8), (6, 2, 4))
    (((2,), (3,), (2, 4)), ((2, 3), (2,), (4,)))
    >>> common_splits((6, 32), (8, 24)) is None
    True
    """
    ends = sorted({*accumulate(first, mul), *accumulate(second, mul)})
    if any(end % before for before, end in pairwise(ends)):
        return None
    return _split_at(first, ends), _split_at(second, ends)


def _split_at(shape: Shape, ends: Sequence[int]) -> Split:
    """Split axes where the number of elements of all axes up to there is one of `ends`."""
    found: list[Shape] = []
    before = 1
    for length in shape:
        inner = [end for end in ends if before < end <= before * length]
        found.append(tuple(end // last for last, end in pairwise([before, *inner])) or (1,))
        before *= length
    return tuple(found)


class _Spaces:
    """The values that elementwise calls of one shape connect with each other."""

    def __init__(self, graph: Graph, loops: LoopCompiler) -> None:
        self._loops = loops
        self._parents: dict[int, int] = {}
        self._in_loops: set[int] = set()
        """Values that an elementwise call makes, or a call of a loop reads in their shape."""
        for call in graph.calls:
            if self.is_elementwise(call):
                shape = call.results[0].shape
                same = [v for v in (*call.reads, *call.results) if v.shape == shape]
                self._in_loops.update(value.number for value in same)
                for value in same:
                    self._parents[self.group_of(value)] = self.group_of(same[-1])
            elif self.is_reduction(call):
                self._in_loops.add(call.reads[0].number)

    def is_elementwise(self, call: Call) -> bool:
        """Whether a loop may compute a call for each element."""
        if call.region or not call.results or weight_of(call) is None:
            return False
        values = (*call.reads, *call.results)
        dtypes = self._loops.dtypes
        return dtypes is None or all(value.dtype.name in dtypes for value in values)

    def is_reduction(self, call: Call) -> bool:
        """Whether a loop may reduce the operand of a call."""
        return not call.region and is_combining(call)

    def group_of(self, value: Value) -> int:
        """Return the number that stands for all values that are connected with this one."""
        number = value.number
        while (parent := self._parents.setdefault(number, number)) != number:
            self._parents[number] = self._parents.get(parent, parent)
            number = parent
        return number

    def splits(self, reshapes: Sequence[Call]) -> dict[int, Split]:
        """Return how the axes of groups are split; of several splits, that into most axes."""
        found: dict[int, Split] = {}
        for call in reshapes:
            source, result = call.reads[0], call.results[0]
            splits = common_splits(source.shape, result.shape)
            if splits is None or not {source.number, result.number} <= self._in_loops:
                continue
            for value, split in zip((source, result), splits):
                known = found.get(self.group_of(value))
                has_more = known is None or len(_flat(known)) < len(_flat(split))
                if has_more and any(len(lengths) > 1 for lengths in split):
                    found[self.group_of(value)] = split
        return found


def _flat(split: Split) -> Shape:
    return tuple(n for lengths in split for n in lengths)


class _Splitting:
    """The calls of a graph in which elementwise calls have split axes."""

    def __init__(self, graph: Graph, spaces: _Spaces, splits: Mapping[int, Split]) -> None:
        self.calls: list[Call] = []
        self._spaces, self._splits = spaces, splits
        self._numbers: Iterator[int] = unused_numbers(graph)
        self._makers: dict[int, Call] = {}
        self._split: dict[tuple[int, Shape], Value] = {}

    def add(self, call: Call) -> None:
        """Add a call, with split axes if its operands have them."""
        split = self._split_for(call)
        if split is None:
            self._append(call)
        elif self._spaces.is_reduction(call):
            self._add_reduction(call, split)
        else:
            self._add_elementwise(call, split)

    def _split_for(self, call: Call) -> Split | None:
        if self._spaces.is_reduction(call):
            return self._splits.get(self._spaces.group_of(call.reads[0]))
        if not self._spaces.is_elementwise(call):
            return None
        return self._splits.get(self._spaces.group_of(call.results[0]))

    def _add_elementwise(self, call: Call, split: Split) -> None:
        operands = tuple(
            self._parted(call, one, split) if isinstance(one, Value) else one
            for one in call.operands
        )
        params = dict(call.params)
        if "shape" in params:  # of a filled array
            params["shape"], operands = _flat(split), call.operands
        made = tuple(self._new(_flat(split), value) for value in call.results)
        self._append(replace(call, operands=operands, params=params, results=made))
        for value, one in zip(call.results, made, strict=True):
            self._split[value.number, _flat(split)] = one
            self._reshape(call, one, value.shape, value)

    def _add_reduction(self, call: Call, split: Split) -> None:
        operand, (result,) = call.reads[0], call.results
        first = [sum(len(one) for one in split[:axis]) for axis in range(len(split))]
        axes = tuple(
            place
            for axis in sorted(call.params["axis"])
            for place in range(first[axis], first[axis] + len(split[axis]))
        )
        shape = tuple(n for place, n in enumerate(_flat(split)) if place not in axes)
        total = self._new(shape, result)
        operands = (self._parted(call, operand, split),)
        params = {**call.params, "axis": axes, "keepdims": False}
        self._append(replace(call, operands=operands, params=params, results=(total,)))
        self._reshape(call, total, result.shape, result)

    def _parted(self, call: Call, value: Value, split: Split) -> Value:
        """Return an operand with split axes; those of length 1 stay."""
        value = self._before_broadcast(value)
        own = split[len(split) - len(value.shape) :]
        shape = tuple(
            n for length, parts in zip(value.shape, own, strict=True)
            for n in (parts if length != 1 else (1,) * len(parts))
        )  # fmt: skip
        known = self._split.get((value.number, shape))
        if known is None:
            known = self._split[value.number, shape] = self._reshape(call, value, shape)
        return known

    def _before_broadcast(self, value: Value) -> Value:
        """Return the value that was broadcast to this one."""
        maker = self._makers.get(value.number)
        while maker is not None and maker.primitive.name == "broadcast_to" and not maker.region:
            value = maker.reads[0]
            maker = self._makers.get(value.number)
        return value

    def _reshape(
        self, call: Call, value: Value, shape: Shape, result: Value | None = None
    ) -> Value:
        """Return a value in another shape, without the reshapes that were before it."""
        maker = self._makers.get(value.number)
        while maker is not None and maker.primitive.name == "reshape" and not maker.region:
            value = maker.reads[0]
            maker = self._makers.get(value.number)
        if value.shape == shape and result is None:
            return value
        made = result or self._new(shape, value)
        view: dict[str, Any] = {"shape": shape}
        primitive = PRIMITIVES["reshape"]
        self._append(
            replace(
                call, primitive=primitive, operands=(value,), params=view, results=(made,),
                aliases=True,
            )
        )  # fmt: skip
        return made

    def _new(self, shape: Shape, like: Value) -> Value:
        return replace(like, number=next(self._numbers), shape=shape)

    def _append(self, call: Call) -> None:
        if call.primitive.name == "reshape" and not call.region:
            call = self._with_one_reshape(call)
        self.calls.append(call)
        self._makers.update((value.number, call) for value in call.results)

    def _with_one_reshape(self, call: Call) -> Call:
        source = call.reads[0]
        maker = self._makers.get(source.number)
        while maker is not None and maker.primitive.name == "reshape" and not maker.region:
            source = maker.reads[0]
            maker = self._makers.get(source.number)
        return call if source is call.reads[0] else replace(call, operands=(source,))
