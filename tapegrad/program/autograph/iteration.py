"""The operator for `for` statements."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.ops.control.loops import loop
from tapegrad.ops.elementwise.selection import where
from tapegrad.program.autograph.branches import if_, nothing
from tapegrad.program.autograph.carried import ChangesKind
from tapegrad.program.autograph.decided import note_decision
from tapegrad.program.autograph.element_loops import active_loops, reads_in_rounds
from tapegrad.program.autograph.expressions import and_
from tapegrad.program.autograph.loops import MOST_PEELED, MOST_UNROLLED, planned, while_
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import Snapshot, State
from tapegrad.program.loops.body_recording import CreatesVariables
from tapegrad.program.loops.recorded import LEAST_ROUNDS
from tapegrad.program.record.element_source import ElementSource
from tapegrad.program.record.recording import Recorded, current_recording

Body = Callable[[Any], None]
Test = Callable[[], Any]


_ITERATORS = (builtins.enumerate, builtins.zip, itertools.islice)
"""Functions whose results have tensors of datasets, and numbers that count them."""


class UnknownRange:
    """A range whose limits the recording computes."""

    def __init__(self, start: Any, limit: Any = None, delta: Any = 1) -> None:
        if limit is None:
            start, limit = 0, start
        given = [as_operand(one) for one in (start, limit, delta)]
        dtype = next(one.dtype for one in given if is_undecided(one))
        if any(one.dtype.is_floating for one in given):
            dtype = next(one.dtype for one in given if one.dtype.is_floating)
        self.start, self.limit, self.delta = [
            one if one.dtype == dtype else cast.cast(one, dtype) for one in given
        ]

    def has(self, value: Any) -> Any:
        """Whether a value is before the end of the range."""
        is_below, is_above = value < self.limit, value > self.limit
        return where(self.delta > 0, is_below, is_above)


def iterable(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the result of the call in `for x in f(...)`; a range may have unknown limits."""
    is_range = function is builtins.range or function is creation.range
    if is_range and any(is_undecided(one) for one in args):
        rest = {"limit": kwargs.get("limit"), "delta": kwargs.get("delta")}
        return UnknownRange(*args, **{k: v for k, v in rest.items() if v is not None})
    found = function(*args, **kwargs)
    if function in _ITERATORS and any(isinstance(one, ElementSource) for one in args):
        return _Elements(found)
    return found


class _Elements(ElementSource):
    """What `enumerate(dataset)` and the like iterate over."""

    def __init__(self, elements: Any) -> None:
        self._elements = elements

    def __iter__(self) -> Any:
        return iter(self._elements)


def for_(entries: Any, body: Body, test: Test | None, state: State) -> None:
    """Run a block for each entry, as long as the test is true, if there is one."""
    if isinstance(entries, UnknownRange):
        _counted(entries, body, test, state)
        return
    loops = active_loops()
    if loops is not None and (isinstance(entries, ElementSource) or reads_in_rounds(body)):
        loops.loop_of(body).run(entries, body, test, state)
        return
    if current_recording() is not None and isinstance(entries, Tensor | Variable):
        _pin(entries)
        if len(entries.shape) and entries.shape[0] >= LEAST_ROUNDS:
            entries = _recorded(as_operand(entries), body, test, state)
    iterator = iter(entries)
    rounds = 0
    while True:
        goes_on = True if test is None else test()
        if not is_undecided(goes_on) and not goes_on:
            return
        try:
            entry = next(iterator)
        except StopIteration:
            return
        if is_undecided(goes_on):
            if_(goes_on, lambda entry=entry: body(entry), nothing, state)  # type: ignore[misc]
            rounds += 1
            if rounds == MOST_UNROLLED:
                raise NotConvertible(f"a loop has not ended after {MOST_UNROLLED:,} rounds")
        else:
            body(entry)


def _pin(entries: Any) -> None:
    """Note that the program depends on the length of the first axis."""
    recording = current_recording()
    if recording is not None and type(entries.array) is Recorded and entries.shape:
        recording.size_notes.pin(int(entries.shape[0]))


class _WithCounter(State):
    """The state of a statement, and the counter of a loop."""

    def __init__(self, state: State, first: Any) -> None:
        self._state, self.counter = state, first  # it has the containers, too
        self.names, self.is_read = [*state.names, "the counter"], [*state.is_read, False]

    def read(self) -> Snapshot:
        found = self._state.read()
        return Snapshot([*found.values, self.counter], found.contents)

    def write(self, snapshot: Snapshot) -> None:
        self.counter = snapshot.values[-1]
        self._state.write(Snapshot(snapshot.values[:-1], snapshot.contents))


def _counted(span: UnknownRange, body: Body, test: Test | None, state: State) -> None:
    """Record a loop over a range whose length is not known."""
    counted = _WithCounter(state, span.start)

    def goes_on() -> Any:
        inside = span.has(counted.counter)
        return inside if test is None else and_(lambda: inside, test)

    def one_round() -> None:
        number = counted.counter
        body(number)
        counted.counter = number + span.delta

    while_(goes_on, one_round, counted)


def _recorded(entries: Any, body: Body, test: Test | None, state: State) -> Any:
    """Record the rounds over the entries of a tensor once; return the entries that are left.

    First rounds that create variables, or after which a variable has another kind, are recorded
    alone. If the loop cannot be recorded once, all other entries are left.
    """
    first = current_recording()
    assert first is not None

    def one_round(entry: Any) -> None:
        goes_on = True if test is None else test()
        if is_undecided(goes_on):
            if_(goes_on, lambda: body(entry), nothing, state)
        elif goes_on:
            body(entry)

    for _ in range(MOST_PEELED + 1):
        try:
            _as_one_loop(entries, one_round, state)
            return ()
        except (CreatesVariables, ChangesKind):
            one_round(entries[0])
            entries = entries[1:]
        except NotConvertible:
            break
    return entries


def _as_one_loop(entries: Any, one_round: Body, state: State) -> None:
    around = current_recording()
    assert around is not None
    array = entries.array.array if type(entries.array) is Recorded else entries.array
    example = wrap(around.wrap(array[0, ...]))
    plan = planned(lambda: one_round(example), state)
    note_decision()

    def step(carried: Sequence[Any], given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        values = nest.pack_sequence_as(plan.initial, [*carried])
        state.write(plan.packed(values))
        one_round(given[0])
        return nest.flatten(plan.carried_in(state.read())), []

    leaves = [as_operand(leaf) for leaf in nest.flatten(plan.initial)]
    last, _ = loop(step, leaves, [entries], int(entries.shape[0]))
    state.write(plan.after(nest.pack_sequence_as(plan.initial, last)))
