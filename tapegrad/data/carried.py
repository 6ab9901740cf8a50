"""Steps that carry something from element to element: take_while, scan, unique, lengths.

What scan and unique carry is not in a state. To resume, they read the pass again from its start.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.functions import Call, annotate_errors
from tapegrad.data.mapping import accepts
from tapegrad.data.plan import (
    END,
    Above,
    Passing,
    Plan,
    Run,
    Source,
    State,
    peek,
    refuse_beyond,
)
from tapegrad.data.selection import inner
from tapegrad.data.structure import Nested, own_host
from tapegrad.errors import ArgumentError, ArgumentTypeError


class TakeWhile(Passing):
    """Passes elements on up to the first that a function does not accept."""

    step = "take_while"

    def __init__(self, plan: Plan, call: Call) -> None:
        super().__init__(plan)
        self._call = call

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run.on_host(), inner(state))
        return _Taken(source, self._call, state is not None and bool(state["ended"]))

    def size(self) -> int:
        return UNKNOWN_CARDINALITY if self._input.size() else 0


class _Taken(Above):
    _step = "take_while"

    def __init__(self, source: Source, call: Call, ended: bool) -> None:
        super().__init__(source)
        self._call = call
        self._ended = ended

    def next(self) -> Any:
        element = END if self._ended else self._source.next()
        if element is not END and accepts(self._call, element, self._step):
            return element
        self._ended = True
        return END

    def state(self) -> State:
        return {**super().state(), "ended": self._ended}


class Asserted(Passing):
    """Passes elements on, and raises at the end if there were more or fewer than promised."""

    step = "assert_cardinality"

    def __init__(self, plan: Plan, count: int) -> None:
        super().__init__(plan)
        self._count = count

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run.on_host(), inner(state))
        return _Counted(source, self._count, 0 if state is None else state["taken"])

    def size(self) -> int:
        return self._count


class _Counted(Above):
    _step = "assert_cardinality"

    def __init__(self, source: Source, count: int, taken: int) -> None:
        super().__init__(source)
        self._count = count
        self._taken = taken

    def next(self) -> Any:
        element = self._source.next()
        self._taken += element is not END
        is_wrong = self._taken < self._count if element is END else self._taken > self._count
        if is_wrong and self._count != INFINITE_CARDINALITY:
            found = "ended after" if element is END else "has at least"
            raise ArgumentError(
                f"assert_cardinality promised {self._count} elements, but the dataset {found} "
                f"{self._taken}."
            )
        return element

    def state(self) -> State:
        return {**super().state(), "taken": self._taken}


# Steps that read their input again to resume


class _Carrying(Above):
    """A source whose state holds the start of the input's pass and the number of its elements."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._first = source.state()
        self._taken = 0

    @abstractmethod
    def advanced(self) -> Any:
        """Return the next element, or END."""

    def next(self) -> Any:
        element = self.advanced()
        self._taken += element is not END
        return element

    def state(self) -> State:
        return {"step": self._step, "first": self._first, "taken": self._taken}


def _resumed(plan: Plan, state: State | None, source: Source) -> Source:
    for _ in range(0 if state is None else state["taken"]):
        if source.next() is END:
            refuse_beyond(plan.step)
    return source


def _first(state: State | None) -> State | None:
    return None if state is None else state["first"]


class Scan(Plan):
    """Applies a function to a carried value and each element."""

    step = "scan"

    def __init__(self, plan: Plan, initial: Any, call: Call) -> None:
        self._input = plan
        self._initial = own_host(initial, self.step)
        self._call = call

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run.on_host(), _first(state))
        return _resumed(self, state, _Scanned(source, self._initial, self._call))

    def size(self) -> int:
        return self._input.size()

    def spec(self) -> Any:
        return peek(self)


class _Scanned(_Carrying):
    _step = "scan"

    def __init__(self, source: Source, initial: Any, call: Call) -> None:
        super().__init__(source)
        self._carried = initial
        self._call = call

    def advanced(self) -> Any:
        element = self._source.next()
        if element is END:
            return END
        found = self._call((self._carried, element))
        with annotate_errors("scan"):
            if type(found) is not tuple or len(found) != 2:
                raise ArgumentTypeError(
                    "scan needs a function that returns a tuple: the new state and the element. "
                    f"Got {type(found).__name__}."
                )
        self._carried, made = found
        return made


class Unique(Passing):
    """Passes on each element once, where it first appears."""

    step = "unique"

    def open(self, run: Run, state: State | None) -> Source:
        return _resumed(self, state, _Unique(self._input.start(run.on_host(), _first(state))))

    def size(self) -> int:
        return UNKNOWN_CARDINALITY if self._input.size() else 0


class _Unique(_Carrying):
    _step = "unique"

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._seen: set[Any] = set()

    def advanced(self) -> Any:
        while (element := self._source.next()) is not END:
            key = tuple(_key(leaf) for leaf in nest.flatten(element))
            if key not in self._seen:
                self._seen.add(key)
                return element
        return END


def _key(leaf: Any) -> tuple[Any, ...]:
    if isinstance(leaf, Nested):
        raise ArgumentTypeError("unique compares arrays, but an element holds a dataset.")
    array = np.asarray(leaf)
    values = tuple(array.ravel()) if array.dtype.kind == "O" else array.tobytes()
    return array.dtype, array.shape, values
