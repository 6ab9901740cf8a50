"""Unbatching and windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.plan import (
    END,
    Above,
    ArrayRows,
    ListRows,
    Plan,
    Rows,
    Run,
    Source,
    State,
    peek,
    plan_and_inputs,
)
from tapegrad.data.selection import inner
from tapegrad.data.structure import Nested, concatenated_rows, has_composite, map_spec
from tapegrad.errors import ShapeError
from tapegrad.program.record.signature import TensorSpec

# Unbatch


class Unbatch(Plan):
    """The slices of each element along its first axis."""

    step = "unbatch"

    def __init__(self, plan: Plan) -> None:
        self._input = plan

    def open(self, run: Run, state: State | None) -> Source:
        return _Unbatched(self._input.start(run.on_host(), inner(state)), state)

    def size(self) -> int:
        size = self._input.size()
        if size in (0, INFINITE_CARDINALITY):
            return size
        # Other elements may have other lengths than the first.
        steps = {plan.step for plan in plan_and_inputs(self._input)}
        if size < 0 or steps & {"map", "window", "concatenate"}:
            return UNKNOWN_CARDINALITY
        lengths = {one.shape[0] if one.shape else None for one in nest.flatten(self._input.spec())}
        length = lengths.pop()
        return UNKNOWN_CARDINALITY if length is None else size * length

    def spec(self) -> Any:
        return map_spec(
            lambda one: TensorSpec(one.shape[1:] if one.shape else None, one.dtype),
            self._input.spec(),
            lambda one: one.unbatched(),
        )


class _Unbatched(Above):
    def __init__(self, source: Source, state: State | None) -> None:
        super().__init__(source)
        self._before = source.state()
        self._rows: Rows | None = None
        self._at = 0
        if state is not None and state["at"]:
            self._rows = self._next_rows()
            self._at = state["at"]

    def _next_rows(self) -> Rows | None:
        self._before = self._source.state()
        element = self._source.next()
        if element is END:
            return None
        if has_composite(element):
            return ListRows(concatenated_rows(element))
        lengths = {leaf.shape[0] if leaf.ndim else None for leaf in nest.flatten(element)}
        if len(lengths) > 1 or None in lengths:
            raise ShapeError(
                "unbatch needs arrays whose first axes have the same length. Got the shapes "
                f"{', '.join(str(leaf.shape) for leaf in nest.flatten(element))}."
            )
        return ArrayRows(element)

    def next(self) -> Any:
        while self._rows is None or self._at >= len(self._rows):
            self._rows = self._next_rows()
            self._at = 0
            if self._rows is None:
                return END
        self._at += 1
        return self._rows.at(self._at - 1)

    def state(self) -> State:
        if self._rows is not None and self._at >= len(self._rows):
            return {"step": "unbatch", "at": 0, "input": self._source.state()}
        return {"step": "unbatch", "at": self._at, "input": self._before}


# Windows


class Window(Plan):
    """Makes datasets of neighbouring elements; `wrapped` makes one from a list of elements."""

    step = "window"

    def __init__(
        self,
        plan: Plan,
        limits: tuple[int, int, int],
        drop_remainder: bool,
        wrapped: Callable[[Sequence[Any]], Nested],
    ) -> None:
        self._input = plan
        self._length, self._shift, self._stride = limits
        self._drop_remainder = drop_remainder
        self._wrapped = wrapped

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run.on_host(), inner(state))
        limits = (self._length, self._shift, self._stride)
        return _Windows(source, limits, self._drop_remainder, self._of)

    def _of(self, elements: Sequence[Any]) -> Any:
        columns = zip(*(nest.flatten(element) for element in elements))
        datasets = [self._wrapped(list(column)) for column in columns]
        return nest.pack_sequence_as(elements[0], datasets)

    def size(self) -> int:
        size = self._input.size()
        if size < 0:
            return size
        if not self._drop_remainder:
            return -(-size // self._shift)
        reach = (self._length - 1) * self._stride + 1
        return max(0, (size - reach) // self._shift + 1)

    def spec(self) -> Any:
        return peek(self)


class _Windows(Above):
    def __init__(
        self,
        source: Source,
        limits: tuple[int, int, int],
        drop_remainder: bool,
        window_of: Callable[[Sequence[Any]], Any],
    ) -> None:
        super().__init__(source)
        self._length, self._shift, self._stride = limits
        self._drop_remainder = drop_remainder
        self._window_of = window_of
        self._held: deque[tuple[Any, State]] = deque()

    def next(self) -> Any:
        reach = (self._length - 1) * self._stride + 1
        while len(self._held) < reach and self._read() is not END:
            pass
        found = [element for element, _ in self._held][:reach][:: self._stride]
        if not found or (self._drop_remainder and len(found) < self._length):
            return END
        for _ in range(self._shift):
            if not self._held and self._read() is END:
                break
            self._held.popleft()
        return self._window_of(found)

    def _read(self) -> Any:
        before = self._source.state()
        element = self._source.next()
        if element is not END:
            self._held.append((element, before))
        return element

    def state(self) -> State:
        before = self._held[0][1] if self._held else self._source.state()
        return {"step": "window", "input": before}
