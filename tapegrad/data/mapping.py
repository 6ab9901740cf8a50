"""Steps that call user functions: map, filter and interleave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.data.constants import UNKNOWN_CARDINALITY
from tapegrad.data.functions import Call, annotate_errors
from tapegrad.data.plan import END, Above, Passing, Plan, Rows, Run, Source, State, first_of, peek
from tapegrad.data.selection import inner
from tapegrad.data.structure import to_host
from tapegrad.data.threads import Applied, Parallel, Prefetch
from tapegrad.errors import ArgumentError, ShapeError

_AHEAD = 16
"""Elements that a thread of interleave prepares; handing over single ones costs more than most."""

# Map


class Map(Plan):
    """Applies a function to each element."""

    step = "map"

    def __init__(self, plan: Plan, call: Call, workers: int, in_order: bool) -> None:
        self._input = plan
        self._call = call
        self._workers = workers
        self._in_order = in_order

    def open(self, run: Run, state: State | None) -> Source:
        def opened(before: State | None) -> Source:
            return self._input.start(run.on_host(), before)

        if run.peeks or not self._workers:
            return Applied(self.step, opened(inner(state)), self._call)
        return Parallel(self.step, opened, self._call, self._workers, self._in_order, state)

    def size(self) -> int:
        return self._input.size()

    def spec(self) -> Any:
        return peek(self)

    def rows(self) -> Rows | None:
        rows = self._input.rows() if self._in_order else None
        return None if rows is None else _MappedRows(rows, self._call)


class _MappedRows(Rows):
    """Results of a function, computed on demand: used to refill a buffer, not to iterate."""

    ready = False

    def __init__(self, rows: Rows, call: Call) -> None:
        self._rows = rows
        self._call = call

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, index: int) -> Any:
        return self._call(self._rows.at(index))


# Filter


class Filter(Passing):
    """Keeps the elements for which a function returns true."""

    step = "filter"

    def __init__(self, plan: Plan, call: Call) -> None:
        super().__init__(plan)
        self._call = call

    def open(self, run: Run, state: State | None) -> Source:
        return _Filtered(self._input.start(run.on_host(), inner(state)), self._call)

    def size(self) -> int:
        return UNKNOWN_CARDINALITY if self._input.size() else 0


class _Filtered(Above):
    _step = "filter"

    def __init__(self, source: Source, call: Call) -> None:
        super().__init__(source)
        self._call = call

    def next(self) -> Any:
        while (element := self._source.next()) is not END:
            if accepts(self._call, element, "filter"):
                return element
        return END


def accepts(call: Call, element: Any, step: str) -> bool:
    """Return the boolean that a function answers for an element."""
    answer = call.raw(element)
    with annotate_errors(step):
        found = to_host(answer, step)
        if getattr(found, "size", 0) != 1:
            raise ShapeError(
                f"{step} needs a function that returns one boolean per element. "
                f"Got {type(answer).__name__} of shape {getattr(found, 'shape', None)}."
            )
    return bool(found)


# Interleave


class Interleave(Plan):
    """Interleaves the datasets that a function makes of the elements.

    `planned` calls the function and returns the plan of its dataset.
    """

    def __init__(
        self,
        step: str,
        plan: Plan,
        planned: Callable[[Any], Plan],
        lengths: tuple[int, int],
        workers: int,
    ) -> None:
        self.step = step
        self._input = plan
        self._planned = planned
        self._cycle, self._block = lengths
        self._workers = workers

    def open(self, run: Run, state: State | None) -> Source:
        host = run.on_host()

        def opened(before: State | None) -> Source:
            return self._input.start(host, before)

        def begun(element: Any, before: State | None) -> Source:
            plan = self._planned(element)
            ahead = max(self._block, _AHEAD)
            plan = Prefetch(plan, ahead) if self._workers and not run.peeks else plan
            return plan.start(host, before)

        return _Interleaved(self.step, (opened, begun), (self._cycle, self._block), state)

    def size(self) -> int:
        return UNKNOWN_CARDINALITY if self._input.size() else 0

    def spec(self) -> Any:
        return self._planned(first_of(self._input)).spec()


class _Turn(NamedTuple):
    """A dataset that is being read: its source, and the state of the input before its element."""

    before: State
    source: Source

    def state(self) -> State:
        return {"before": self.before, "at": self.source.state()}


class _Interleaved(Source):
    def __init__(
        self,
        step: str,
        opening: tuple[Callable[[State | None], Source], Callable[[Any, Any], Source]],
        lengths: tuple[int, int],
        state: State | None,
    ) -> None:
        self._step = step
        self._opened, self._begun = opening
        self._cycle, self._block = lengths
        saved = [None] * self._cycle if state is None else state["turns"]
        self._place: int = 0 if state is None else state["place"]
        if len(saved) != self._cycle or self._place >= self._cycle:
            raise ArgumentError(f"The state of {step} has another cycle_length.")
        self._turns = [None if turn is None else self._reopen(turn) for turn in saved]
        # Opened last, because the last opening decides how many passes shuffles count.
        self._source = self._opened(inner(state))
        self._given: int = 0 if state is None else state["given"]
        self._ended = False

    def _reopen(self, saved: State) -> _Turn:
        """Reopen a dataset at its saved position; its element is read from the input again."""
        source = self._opened(saved["before"])
        element = source.next()
        source.close()
        return _Turn(saved["before"], self._begun(element, saved["at"]))

    def next(self) -> Any:
        while not self._ended or any(self._turns):
            turn = self._turns[self._place] or self._begin()
            element = END if turn is None else turn.source.next()
            if element is not END:
                self._given += 1
                if self._given == self._block:
                    self._advance()
                return element
            if turn is not None:
                turn.source.close()
                self._turns[self._place] = None
            self._advance()
        return END

    def _begin(self) -> _Turn | None:
        if self._ended:
            return None
        before = self._source.state()
        element = self._source.next()
        if element is END:
            self._ended = True
            return None
        turn = self._turns[self._place] = _Turn(before, self._begun(element, None))
        return turn

    def _advance(self) -> None:
        self._place = (self._place + 1) % self._cycle
        self._given = 0

    def state(self) -> State:
        turns = [None if turn is None else turn.state() for turn in self._turns]
        return {
            "step": self._step,
            "input": self._source.state(),
            "turns": turns,
            "place": self._place,
            "given": self._given,
        }

    def close(self) -> None:
        for turn in self._turns:
            if turn is not None:
                turn.source.close()
        self._source.close()
