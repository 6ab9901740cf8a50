"""Make one call of equal calls that read the entries of an array.

An unrolled loop over `x[t]` reduces each entry, or adds them up. If the entries belong to one
array, one call reduces all of them, and what it returns is an array again. Elementwise calls before
and after are taken along, so that they are fused with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapegrad.core.exact_key import exact_key
from tapegrad.program.graph.addition_trees import Sum, sums_of
from tapegrad.program.graph.dependence import use_counts
from tapegrad.program.graph.formulas import is_combining, weight_of
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.recurrences import Entry
from tapegrad.program.passes.entry_calls import EntryCalls, entries

FEWEST = 4
"""The fewest calls that become one."""

MOST_BYTES = 1 << 22
"""The most bytes that one of the calls reads or returns; larger ones take longer than launches."""

MOST_READERS = 8
"""An entry that more calls of one primitive read is the same operand for all of them."""


@dataclass(frozen=True)
class _At:
    """An operand that is the entry of a source, so many positions after that of the call."""

    source: int
    offset: int


@dataclass
class _Source:
    """Entries that calls read: those of an array, or results of equal calls by their positions."""

    array: Value | None = None
    axis: int = 0
    operands: tuple[Any, ...] = ()
    places: dict[int, int] = field(default_factory=dict)
    """The positions of the calls in the graph."""
    start: int = 0
    stop: int = 0
    """The range of positions that one array has."""
    is_wanted: bool = False


def with_batched_calls(graph: Graph) -> Graph:
    """Replace equal calls on the entries of an array by one call, if something reduces them."""
    batches = _Batches(graph)
    return batches.made() if batches.find() else graph


class _Batches(EntryCalls):
    """A graph in which calls on arrays replace calls on entries."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._sources: list[_Source] = []
        self._numbers_of: dict[Any, int] = {}
        self._where: dict[int, tuple[int, int]] = {}
        """The source and the position of each value that is an entry, by its number."""
        self._readers = Counter([
            (value.number, call.primitive.name) for call in graph.calls for value in call.reads
        ])  # fmt: skip
        self._totals: list[tuple[Sum, int, list[Value]]] = []
        """Sums, the source of some of their leaves, and these leaves in order."""

    # What can be one call

    def find(self) -> bool:
        """Find equal calls, and whether any of them are worth it."""
        for number, entry in entries(self.calls).items():
            place = self._number(("array", entry.array.number, entry.axis))
            if place == len(self._sources):
                length = entry.array.shape[entry.axis]
                self._sources.append(_Source(entry.array, entry.axis, stop=length))
            self._where[number] = place, entry.position
        if len(self._where) < FEWEST:
            return False
        for place, call in enumerate(self.calls):
            if self._is_taken(call):
                self._note(place, call)
        for source in self._sources:
            self._limit(source)
        self._want()
        return any(source.is_wanted and source.array is None for source in self._sources)

    def _number(self, key: Any) -> int:
        return self._numbers_of.setdefault(key, len(self._sources))

    def _is_taken(self, call: Call) -> bool:
        if call.region or len(call.results) != 1 or call.results[0].number in self._where:
            return False
        if not any(self._is_entry(value, call) for value in call.reads):
            return False
        if max(value.nbytes for value in (*call.reads, *call.results)) > MOST_BYTES:
            return False
        return (
            call.primitive.name in ("permute_dims", "reshape", "broadcast_to")
            or is_combining(call)
            or weight_of(call) is not None
        )

    def _note(self, place: int, call: Call) -> None:
        """Add a call to those that are equal to it."""
        begin = next(self._where[v.number][1] for v in call.reads if self._is_entry(v, call))
        operands = tuple([self._operand(operand, call, begin) for operand in call.operands])
        params = tuple([(name, exact_key(value)) for name, value in call.params.items()])
        shapes = tuple([(v.shape, v.dtype) for v in (*call.reads, *call.results)])
        keys = tuple([exact_key(operand) for operand in operands])
        key = call.primitive.name, params, keys, shapes, call.array_type
        try:
            source = self._number(key)
        except TypeError:  # params that are not hashable
            return
        if source == len(self._sources):
            self._sources.append(_Source(operands=operands))
        if begin not in self._sources[source].places:
            self._sources[source].places[begin] = place
            self._where[call.results[0].number] = source, begin

    def _is_entry(self, value: Value, call: Call) -> bool:
        """Whether calls like this one read other entries in place of a value."""
        is_one = value.number in self._where
        return is_one and self._readers[value.number, call.primitive.name] <= MOST_READERS

    def _operand(self, operand: Any, call: Call, begin: int) -> Any:
        if not isinstance(operand, Value) or not self._is_entry(operand, call):
            return operand
        source, position = self._where[operand.number]
        return _At(source, position - begin)

    def _limit(self, source: _Source) -> None:
        """Set the range of positions for which all operands have entries."""
        if source.array is not None:
            return
        source.start, source.stop = max(
            _runs(sorted(source.places)), key=lambda run: run[1] - run[0]
        )
        for operand in source.operands:
            if isinstance(operand, _At):
                given = self._sources[operand.source]
                source.start = max(source.start, given.start - operand.offset)
                source.stop = min(source.stop, given.stop - operand.offset)
        if source.stop - source.start < FEWEST:
            source.start = source.stop = 0

    # What is worth it

    def _want(self) -> None:
        """Choose reductions, joins and totals of entries, and what they are made of."""
        for source in self._sources:
            if source.stop and source.array is None:
                source.is_wanted = is_combining(self.calls[source.places[source.start]])
        for call in self.calls:
            if call.primitive.name in ("stack", "concat") and not call.region:
                self._want_joined(call)
        for tree in sums_of(self.calls, self.makers, use_counts(self._graph)):
            self._want_total(tree)
        for source in reversed(self._sources):
            if source.is_wanted:
                for operand in source.operands:
                    if isinstance(operand, _At):
                        self._sources[operand.source].is_wanted = True

    def _want_joined(self, call: Call) -> None:
        axis: int = call.params["axis"]
        parts = [self._joined_part(x, call, axis) for x in call.operands]
        for source, run in _entry_runs(parts):
            if len(run) >= FEWEST and self._covers(source, run):
                self._sources[source].is_wanted = True

    def _joined_part(self, operand: Any, call: Call, axis: int) -> tuple[int, int] | None:
        if not isinstance(operand, Value):
            return None
        if call.primitive.name == "concat":
            row = self.row_of(operand, axis)
            return None if row is None else self._where.get(row.number)
        return self._where.get(operand.number)

    def _covers(self, source: int, positions: Sequence[int]) -> bool:
        given = self._sources[source]
        return given.start <= min(positions) and max(positions) < given.stop

    def _want_total(self, tree: Sum) -> None:
        found: dict[int, dict[int, Value]] = {}
        if len(tree.leaves) < FEWEST or self.calls[tree.root].region:
            return
        for leaf in tree.leaves:
            at = self._where.get(leaf.number)
            if at is not None and self._covers(at[0], [at[1]]):
                found.setdefault(at[0], {}).setdefault(at[1], leaf)
        for source, leaves in found.items():
            start, stop = max(_runs(sorted(leaves)), key=lambda run: run[1] - run[0])
            if stop - start >= FEWEST and tree.leaves[0].dtype.itemsize >= 4:
                self._sources[source].is_wanted = True
                self._totals.append((tree, source, [leaves[p] for p in range(start, stop)]))
                return

    # The calls that are made instead

    def made(self) -> Graph:
        """Return the graph with the calls on arrays."""
        arrays: dict[int, Value] = {}
        for number, source in enumerate(self._sources):
            if source.is_wanted and source.array is None and source.stop:
                arrays[number] = self._batched(source, arrays)
        for tree, number, leaves in self._totals:
            self._total(tree, self._sources[number], arrays, number, leaves)
        return self.graph()

    def _batched(self, source: _Source, arrays: dict[int, Value]) -> Value:
        """Add the call that makes all results of equal calls, and return its result."""
        like, count = self.calls[source.places[source.start]], source.stop - source.start
        given = []
        for operand in source.operands:
            if isinstance(operand, _At):
                first = source.start + operand.offset
                x = self._entries(operand.source, first, first + count, like, arrays)
                given.append(self.aligned(x, like))
            else:
                given.append(self.now(operand, like))
        array = self.batched(like, given, count)
        for k in range(count):
            place = source.places[source.start + k]
            self.gone.add(place)
            self.home[self.calls[place].results[0].number] = Entry(array, 0, k)
        return array

    def _entries(
        self, number: int, start: int, stop: int, like: Call, arrays: dict[int, Value]
    ) -> Value:
        """Return entries of a source, one after the other along the first axis."""
        source = self._sources[number]
        if source.array is None:
            return self.part(like, arrays[number], 0, start - source.start, stop - source.start)
        array = self.now(source.array, like)
        return self.moved(like, self.part(like, array, source.axis, start, stop), source.axis, 0)

    def _total(
        self, tree: Sum, source: _Source, arrays: dict[int, Value], number: int, leaves: list[Value]
    ) -> None:
        """Replace a total of entries by the sum of an array along its first axis."""
        root = self.calls[tree.root]
        start = self._where[leaves[0].number][1]
        x = self._entries(number, start, start + len(leaves), root, arrays)
        total = self.new_value(leaves[0], leaves[0].shape)
        self.add(root, "sum", (x,), {"axis": (0,), "keepdims": False}, (total,))
        gone = {leaf.number for leaf in leaves}
        for leaf in tree.leaves:
            if leaf.number in gone:
                gone.remove(leaf.number)
                continue
            before, total = total, self.new_value(total, total.shape)
            self.add(root, "add", (before, self.now(leaf, root)), {}, (total,))
        self.gone.update(tree.calls)
        self.final[root.results[0].number] = total


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive numbers among sorted ones."""
    start = 0
    for k in range(1, len(positions) + 1):
        if k == len(positions) or positions[k] != positions[k - 1] + 1:
            yield positions[start], positions[k - 1] + 1
            start = k


def _entry_runs(parts: Sequence[tuple[int, int] | None]) -> Iterator[tuple[int, list[int]]]:
    """Yield consecutive entries of one source, by the source and their positions."""
    run: list[int] = []
    here = -1
    for part in [*parts, None]:
        if part is not None and run and part == (here, run[-1] + 1):
            run.append(part[1])
            continue
        if run:
            yield here, run
        run = [] if part is None else [part[1]]
        here = -1 if part is None else part[0]
