"""Loops over datasets: the host reads the elements, and each round is a recorded call.

The function with the loop runs its Python code at each call. The body of the loop becomes a
function of one element, of the variables that rounds assign, and of the other values that it reads.
It is recorded like every function: once for each shape of the elements.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CellType, CodeType, FunctionType
from typing import Any

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.call_site import warn_outside
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS, to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import RecordingError
from tapegrad.ops.casting import cast
from tapegrad.ops.creation import zeros
from tapegrad.program.autograph.carried import is_numeric, is_plain
from tapegrad.program.autograph.element_reads import ElementReads, reads_elements
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import UNDEFINED, Snapshot, State
from tapegrad.program.record.recording import current_recording

Body = Callable[[Any], None]
Test = Callable[[], Any]
Make = Callable[[Callable[..., Any]], Any]
"""Makes a recorded function of a Python function."""

MOST_FAILURES = 2
"""How many rounds may fail to be recorded before all rounds of a loop run eagerly."""


class ElementLoops:
    """The loops over datasets in one function, by the code of their bodies."""

    def __init__(self, name: str, make: Make) -> None:
        self._name, self._make = name, make
        self._loops: dict[CodeType, ElementLoop] = {}
        self.reads = ElementReads(name, make)
        """The calls of the function with iterators."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let loops over datasets in the block, outside of recordings, record their rounds."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    def loop_of(self, body: Any) -> ElementLoop:
        """Return the loop with a body, which is made anew at each call of its function."""
        code = body.__code__
        if code not in self._loops:
            self._loops[code] = ElementLoop(self._name, self._make)
        return self._loops[code]

    def explanations(self) -> list[Any]:
        """Return why the rounds of each loop were recorded."""
        functions = [loop.function for loop in self._loops.values()]
        return [one.explain() for one in (self.reads.function, *functions) if one is not None]


_active: ContextVar[ElementLoops | None] = ContextVar("tapegrad_element_loops", default=None)


def active_loops() -> ElementLoops | None:
    """Return the loops of the function that runs now, None if its rounds are not recorded."""
    return None if current_recording() is not None else _active.get()


def reads_in_rounds(body: Any) -> bool:
    """Whether the rounds of a loop may read elements of an iterator."""
    return reads_elements([_contents(cell) for cell in body.__closure__ or ()])


class _Unrecordable(Exception):  # noqa: N818  # it never leaves the package
    """A round cannot be recorded; the argument says why."""


class _Round(threading.local):
    """What the round that runs now consists of."""

    body: Any = None
    state: Any = None
    values: Values | None = None


class ElementLoop:
    """One loop over a dataset."""

    def __init__(self, name: str, make: Make) -> None:
        self._name = name
        self.function: Any = make(_named(self._round, f"a round of {name}"))
        self._failures = 0
        self._kinds: dict[int, Any] = {}
        """The dtypes of Python numbers that rounds change, by the places of their variables."""
        self._shapes: dict[int, Any] = {}
        """The shape and dtype of variables that are first bound in a round and read afterwards."""
        # The first round creates variables, and shows what rounds change. If calls must compute the
        # same bits in each process, it is recorded like the others.
        self._has_begun = bool(self.function.waits_for_builds())
        self._now = _Round()
        self._kept: dict[int, Any] = {}
        """Files and iterators that rounds read, which their programs know by number."""

    def run(self, elements: Iterable[Any], body: Body, test: Test | None, state: State) -> None:
        """Run the body for each element, as long as the test is true, if there is one."""
        iterator, values = iter(elements), Values(body, state)
        for place, (name, value) in enumerate(zip(state.names, state.read().values, strict=True)):
            if name.startswith("ag_") and type(value) is bool:  # a flag for `break` and the like
                self._kinds[place] = as_operand(value).dtype
        own = [
            place
            for place, value in enumerate(state.read().values)
            if state.is_renewed[place] or (value is UNDEFINED and not state.is_read[place])
        ]
        while test is None or test():
            try:
                item = next(iterator)
            except StopIteration:
                return
            if not self._has_begun or self._failures == MOST_FAILURES or values.has_tape():
                before = state.read().values
                body(item)
                self._note(before, state.read().values, state)
                self._has_begun = True
            else:
                self._record(item, body, state, values, own)

    def _record(
        self, item: Any, body: Body, state: State, values: Values, own: Sequence[int]
    ) -> None:
        before = state.read()
        given = [self._given(place, value) for place, value in enumerate(before.values)]
        for place in own:
            given[place] = UNDEFINED
        now = self._now
        outer = now.body, now.state, now.values
        now.body, now.state, now.values = body, state, values
        try:
            after = self.function(given, values.read(self._kept), values.codes, _as_tensors(item))
        except (_Unrecordable, NotConvertible, RecordingError) as error:
            state.write(before)
            self._note_failure(error)
            body(item)
            return
        finally:
            now.body, now.state, now.values = outer
        self._note(before.values, after, state)
        state.write(Snapshot(after, state.read().contents))
        containers = [k for k, value in enumerate(given) if isinstance(value, list | tuple | dict)]
        if any(len(_entries(given[k])) != len(_entries(after[k])) for k in containers):
            self._failures = MOST_FAILURES - 1
            self._note_failure(_Unrecordable("a round makes a list or a dictionary longer."))

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._failures == MOST_FAILURES:
            warn_outside(
                f"function {self._name!r}: the rounds of a loop over a dataset run eagerly: "
                f"{error}",
            )

    def _given(self, place: int, value: Any) -> Any:
        """Return a variable as a round gets it."""
        if isinstance(value, GradientTape):
            return UNDEFINED  # of an earlier loop; a round that reads it cannot be recorded
        if value is UNDEFINED and place in self._shapes:
            return zeros(*self._shapes[place])
        if place in self._kinds and type(value) in NUMBERS:
            found, dtype = as_operand(value), self._kinds[place]
            return found if found.dtype == dtype else cast.cast(found, dtype)
        return value

    def _note(self, before: Sequence[Any], after: Sequence[Any], state: State) -> None:
        """Note which variables a round has changed."""
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            is_tensor = type(new) is Tensor
            if old is UNDEFINED and is_tensor and state.is_read[place]:
                self._shapes.setdefault(place, (tuple(new.shape), new.dtype))
            elif type(old) in NUMBERS and place not in self._kinds:
                is_same = type(new) is type(old) and new == old
                if (type(new) in NUMBERS and not is_same) or (is_tensor and not new.shape):
                    self._kinds[place] = as_operand(new).dtype

    def _round(self, given: Sequence[Any], read: Sequence[Any], item: Any) -> list[Any]:
        """Run one round on variables and values of the body; return the variables after it."""
        body, state, values = self._now.body, self._now.state, self._now.values
        assert values is not None
        before = state.read()
        with values.replaced(read):
            state.write(Snapshot(given, before.contents))
            if current_recording() is None:
                body(item)
                found: list[Any] = state.read().values
                return found
            entries = [_entries(value) for value in read]
            try:
                body(item)
                after = state.read()
                is_kept = entries == [_entries(value) for value in read]
                if not is_kept or not after.same_contents(before):
                    raise _Unrecordable("a round changes a list, a dictionary or an object.")
                return [_result(a, b) for a, b in zip(given, after.values, strict=True)]
            finally:
                state.write(before)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def one_round(variables: Any, values: Any, codes: Any, element: Any) -> Any:
        return function(variables, values, element)

    one_round.__name__ = name
    return one_round


def _result(before: Any, after: Any) -> Any:
    """Return a variable after a round, unbound if it is an object that the round has made."""
    if after is before or after is UNDEFINED or is_numeric(after) or is_plain(after):
        return after
    return UNDEFINED


def _as_tensors(item: Any) -> Any:
    """Return an element with tensors for the numbers that `enumerate` counts."""
    return nest.map_structure(
        lambda leaf: to_tensor(leaf, "int64") if type(leaf) is int else leaf, item
    )


def _entries(value: Any) -> list[int]:
    """Return what tells whether a list or a dictionary, or one inside it, has been changed."""
    return [id(leaf) for leaf in nest.flatten(value)] if nest.is_nested(value) else []


class Values:
    """The variables from outside that a body reads, itself or in local functions that it calls.

    Tensors among them are inputs of the recorded rounds. Variables that rounds assign are not among
    them. `codes` tells apart the local functions, which are made anew at each call.
    """

    def __init__(self, body: Any, state: State) -> None:
        self._cells: list[CellType] = []
        self.codes: list[CodeType] = []
        names, cells = body.__code__.co_freevars, body.__closure__ or ()
        assigned = {*state.names}
        seen = {id(cell) for name, cell in zip(names, cells, strict=True) if name in assigned}
        self._collect(cells, seen)

    def _collect(self, cells: Sequence[CellType], seen: set[int]) -> None:
        for cell in cells:
            if id(cell) in seen:
                continue
            seen.add(id(cell))
            value = _contents(cell)
            if type(value) is FunctionType and not (value.__defaults__ or value.__kwdefaults__):
                self.codes.append(value.__code__)
                self._collect(value.__closure__ or (), seen)
            else:
                self._cells.append(cell)

    def has_tape(self) -> bool:
        """Whether a tape is among the values, so that a round may watch tensors."""
        return any(isinstance(value, GradientTape) for value in self._contents())

    def read(self, kept: dict[int, Any]) -> list[Any]:
        """Return the values, with numbers for files and iterators, which are kept alive."""
        found = []
        for value in self._contents():
            is_read = type(value) is not Tensor and isinstance(value, Iterator)
            if is_read and not reads_elements([value]):
                kept[id(value)] = value
                value = id(value)
            found.append(value)
        return found

    def _contents(self) -> list[Any]:
        return [_contents(cell) for cell in self._cells]

    @contextmanager
    def replaced(self, values: Sequence[Any]) -> Iterator[None]:
        """Let the body read other values inside the block."""
        before = self._contents()
        self._write([
            old if isinstance(old, Iterator) else new
            for old, new in zip(before, values, strict=True)
        ])  # fmt: skip
        try:
            yield
        finally:
            self._write(before)

    def _write(self, values: Sequence[Any]) -> None:
        for cell, value in zip(self._cells, values, strict=True):
            if value is not UNDEFINED:
                cell.cell_contents = value


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not bound
        return UNDEFINED
