"""Steps that select or repeat elements without changing them: take, skip, repeat, zip."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.plan import (
    END,
    Above,
    Passing,
    Plan,
    Rows,
    Run,
    Source,
    State,
    plans_with_memory,
)
from tapegrad.data.structure import concatenated, mapped
from tapegrad.errors import ArgumentTypeError


def inner(state: State | None) -> State | None:
    """Return the state of the input, from the state of a step with one input."""
    return None if state is None else state["input"]


# Take, skip and shard


class Part(Passing):
    """Every `stride`-th element from `start` up to `stop` (None: all): take, skip and shard."""

    def __init__(
        self, step: str, plan: Plan, start: int = 0, stop: int | None = None, stride: int = 1
    ) -> None:
        super().__init__(plan)
        self.step = step
        self._start = start
        self._stop = stop
        self._stride = stride

    def open(self, run: Run, state: State | None) -> Source:
        # Elements pass through unchanged, so an earlier step may place them on the device.
        at = 0 if state is None else state["at"]
        source = self._input.start(run, inner(state))
        return _Part(self.step, source, at, (self._start, self._stop, self._stride))

    def size(self) -> int:
        size = self._input.size()
        if size == UNKNOWN_CARDINALITY:
            return 0 if self._stop == 0 else size
        if size == INFINITE_CARDINALITY:
            return size if self._stop is None else len(range(self._start, self._stop, self._stride))
        return len(self._indices(size))

    def _indices(self, size: int) -> range:
        return range(size)[self._start : self._stop : self._stride]

    def rows(self) -> Rows | None:
        rows = self._input.rows()
        return None if rows is None else _SomeRows(rows, self._indices(len(rows)))


class _OtherRows(Rows):
    """Rows that are read through another object."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.ready = rows.ready

    def gathers(self, like: Any) -> bool:
        return self._rows.gathers(like)


class _SomeRows(_OtherRows):
    def __init__(self, rows: Rows, indices: range) -> None:
        super().__init__(rows)
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def at(self, index: int) -> Any:
        return self._rows.at(self._indices[index])

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        if isinstance(indices, range):
            chosen = self._indices[indices.start : indices.stop : indices.step]
            return self._rows.block(chosen, step, like)
        start, stride = self._indices.start, self._indices.step
        return self._rows.block((start + stride * np.asarray(indices)).tolist(), step, like)


class _Part(Above):
    def __init__(
        self, step: str, source: Source, at: int, limits: tuple[int, int | None, int]
    ) -> None:
        super().__init__(source)
        self._step = step
        self._at = at
        self._start, self._stop, self._stride = limits

    def next(self) -> Any:
        while self._stop is None or self._at < self._stop:
            element = self._source.next()
            if element is END:
                return END
            place = self._at - self._start
            self._at += 1
            if place >= 0 and place % self._stride == 0:
                return element
        return END

    def block(self, count: int, step: str, like: Any = None) -> tuple[int, Any]:
        if self._stride != 1 or self._at < self._start:
            return super().block(count, step, like)
        if self._stop is not None:
            count = min(count, self._stop - self._at)
        found, block = self._source.block(count, step, like) if count > 0 else (0, None)
        self._at += found
        return found, block

    def gathers(self, like: Any) -> bool:
        return self._source.gathers(like)

    def is_gathered(self) -> bool:
        return self._source.is_gathered()

    def state(self) -> State:
        return {"step": self._step, "at": self._at, "input": self._source.state()}


# Repetition


class Repeat(Passing):
    """Repeats all elements `count` times, or indefinitely if that is None."""

    step = "repeat"

    def __init__(self, plan: Plan, count: int | None) -> None:
        super().__init__(plan)
        self._count = count

    def open(self, run: Run, state: State | None) -> Source:
        return _Repeated(self._input, run, self._count, state)

    def size(self) -> int:
        size = self._input.size()
        if self._count == 0 or size == 0:
            return 0
        if size == INFINITE_CARDINALITY or self._count is None:
            return INFINITE_CARDINALITY
        return size if size == UNKNOWN_CARDINALITY else size * self._count

    def rows(self) -> Rows | None:
        rows = self._input.rows()
        return None if rows is None else _RepeatedRows(rows, self._count)


class _RepeatedRows(_OtherRows):
    """Rows repeated `count` times, or up to the largest length that Python allows."""

    def __init__(self, rows: Rows, count: int | None) -> None:
        super().__init__(rows)
        self._round = len(rows)
        whole = sys.maxsize if count is None else self._round * count
        self._length = min(whole, sys.maxsize) if self._round else 0

    def __len__(self) -> int:
        return self._length

    def at(self, index: int) -> Any:
        return self._rows.at(index % self._round)

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        first = indices[0] % self._round
        stop = first + len(indices)
        if isinstance(indices, range) and indices.step == 1 and stop <= self._round:
            return self._rows.block(range(first, stop), step, like)
        return self._rows.block([index % self._round for index in indices], step, like)


class _Repeated(Source):
    def __init__(self, plan: Plan, run: Run, count: int | None, state: State | None) -> None:
        self._plan = plan
        self._run = run
        self._count = count
        self._round = 0 if state is None else state["round"]
        self._is_empty = state is None or state["is_empty"]
        self._left = None if state is None else state["input"]
        self._remembering = plans_with_memory(plan, state)
        self._source: Source | None = None
        if self._left is not None:
            self._current()  # opened now, so that a state that does not fit raises here

    def _current(self) -> Source | None:
        """Return the source of this repetition, or None after the last."""
        if self._source is None and (self._count is None or self._round < self._count):
            self._source = self._plan.start(self._run, self._left)
        return self._source

    def _end_round(self) -> None:
        assert self._source is not None
        self._source.close()
        self._source = self._left = None
        # An empty repetition would be followed by empty ones, perhaps forever.
        if self._is_empty:
            self._count = self._round
        self._round += 1
        self._is_empty = True

    def next(self) -> Any:
        while (source := self._current()) is not None:
            element = source.next()
            if element is not END:
                self._is_empty = False
                return element
            self._end_round()
        return END

    def block(self, count: int, step: str, like: Any = None) -> tuple[int, Any]:
        blocks, found = [], 0
        while found < count and (source := self._current()) is not None:
            more, block = source.block(count - found, step, like)
            if more:
                self._is_empty = False
                blocks.append(block)
                found += more
            if found < count:
                self._end_round()
        return found, concatenated(blocks, step) if blocks else None

    def gathers(self, like: Any) -> bool:
        source = self._current()
        return source is not None and source.gathers(like)

    def is_gathered(self) -> bool:
        source = self._current()
        return source is not None and source.is_gathered()

    def state(self) -> State:
        inside = self._left if self._source is None else self._source.state()
        return {
            "step": "repeat",
            "round": self._round,
            "is_empty": self._is_empty,
            "memories": [one.memory for one in self._remembering],
            "input": inside,
        }

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


# Several datasets


class Concatenate(Plan):
    """Appends the elements of one dataset to those of another."""

    step = "concatenate"

    def __init__(self, first: Plan, second: Plan) -> None:
        self.inputs = (first, second)

    def open(self, run: Run, state: State | None) -> Source:
        return _Concatenated(self, run, state)

    def size(self) -> int:
        sizes = [plan.size() for plan in self.inputs]
        if INFINITE_CARDINALITY in sizes:
            return INFINITE_CARDINALITY
        return UNKNOWN_CARDINALITY if UNKNOWN_CARDINALITY in sizes else sum(sizes)

    def spec(self) -> Any:
        return self.inputs[0].spec()


class _Concatenated(Above):
    def __init__(self, plan: Concatenate, run: Run, state: State | None) -> None:
        self._plans = plan.inputs
        self._run = run
        self._turn = 0 if state is None else state["turn"]
        self._remembering = plans_with_memory(plan, state)
        super().__init__(self._plans[self._turn].start(run, inner(state)))

    def next(self) -> Any:
        element = self._source.next()
        if element is not END or self._turn == len(self._plans) - 1:
            return element
        self._source.close()
        self._turn += 1
        self._source = self._plans[self._turn].start(self._run)
        return self.next()

    def state(self) -> State:
        return {
            "step": "concatenate",
            "turn": self._turn,
            "memories": [one.memory for one in self._remembering],
            "input": self._source.state(),
        }


class Zip(Plan):
    """Combines one element of each dataset, until the first of them ends.

    `plans` is a structure of plans; the elements have the same structure.
    """

    def __init__(self, plans: Any, step: str = "zip") -> None:
        self._inputs: list[Plan] = nest.flatten(plans)
        if not self._inputs:
            raise ArgumentTypeError("zip takes at least one dataset. Got none.")
        self.step = step
        # Each leaf is an index into the list of inputs.
        self._places = nest.pack_sequence_as(plans, range(len(self._inputs)))

    def open(self, run: Run, state: State | None) -> Source:
        states = [None] * len(self._inputs) if state is None else state["inputs"]
        sources = [plan.start(run, state) for plan, state in zip(self._inputs, states, strict=True)]
        return _Zipped(self.step, self._places, sources)

    def size(self) -> int:
        sizes = [plan.size() for plan in self._inputs]
        finite = [size for size in sizes if size >= 0]
        if UNKNOWN_CARDINALITY in sizes:
            return 0 if 0 in sizes else UNKNOWN_CARDINALITY
        return min(finite) if finite else INFINITE_CARDINALITY

    def spec(self) -> Any:
        return mapped(lambda place: self._inputs[place].spec(), self._places)

    def rows(self) -> Rows | None:
        found = [rows for plan in self._inputs if (rows := plan.rows()) is not None]
        return _ZippedRows(self._places, found) if len(found) == len(self._inputs) else None


class _ZippedRows(Rows):
    def __init__(self, places: Any, parts: Sequence[Rows]) -> None:
        self._places = places
        self._parts = parts
        self.ready = all(part.ready for part in parts)

    def __len__(self) -> int:
        return min(len(part) for part in self._parts)

    def at(self, index: int) -> Any:
        return mapped(lambda place: self._parts[place].at(index), self._places)

    def block(self, indices: range | Sequence[int], step: str, like: Any = None) -> Any:
        return mapped(lambda place: self._parts[place].block(indices, step, like), self._places)

    def gathers(self, like: Any) -> bool:
        return all(part.gathers(like) for part in self._parts)


class _Zipped(Source):
    def __init__(self, step: str, places: Any, sources: Sequence[Source]) -> None:
        self._step = step
        self._places = places
        self._sources = sources
        self._ended = False

    def next(self) -> Any:
        elements = []
        for source in self._sources:
            element = END if self._ended else source.next()
            if element is END:
                self._ended = True
                return END
            elements.append(element)
        return mapped(lambda place: elements[place], self._places)

    def state(self) -> State:
        return {"step": self._step, "inputs": [source.state() for source in self._sources]}

    def close(self) -> None:
        for source in self._sources:
            source.close()
