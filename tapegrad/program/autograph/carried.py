"""The values that a converted loop carries from round to round, and its constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS
from tapegrad.ops.casting import cast
from tapegrad.ops.control.tensor_array import TensorArray, with_shape_of
from tapegrad.ops.creation import zeros
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import (
    UNDEFINED,
    Snapshot,
    State,
    described,
    is_empty,
    is_number,
)


class ChangesKind(NotConvertible):
    """A variable has another shape, dtype or structure after a round than before it."""


def plan_of(state: State, start: Snapshot) -> Plan:
    """Return a plan in which nothing is carried."""
    return Plan(state, start)


class Plan:
    """Which variables a loop carries.

    A variable that a round leaves alone, or sets to the same Python value, is not carried. One that
    is unbound before the loop and not read after it belongs to one round.
    """

    def __init__(self, state: State, start: Snapshot) -> None:
        self._state = state
        self.start = start
        """The state before the loop, with tensors for all numbers that are carried."""
        self._carried: list[int] = []
        self._zeros: dict[int, Any] = {}
        """The initial values of carried variables that are unbound before the loop."""
        self._after = [*start.values]
        """The values after the loop of the variables that are not carried."""

    @property
    def initial(self) -> tuple[Any, ...]:
        """The first values of what is carried."""
        return tuple([self._zeros.get(k, self.start.values[k]) for k in self._carried])

    def packed(self, values: Sequence[Any]) -> Snapshot:
        """Return the state at the beginning of a round."""
        found = [*self.start.values]
        for place, value in zip(self._carried, values, strict=True):
            found[place] = value
        return Snapshot(found, self.start.contents)

    def carried_in(self, snapshot: Snapshot) -> tuple[Any, ...]:
        """Return what is carried of the state after a round."""
        if not snapshot.same_contents(self.start):
            raise NotConvertible("a loop changes a list, a dictionary or a set")
        return tuple([snapshot.values[place] for place in self._carried])

    def after(self, values: Sequence[Any]) -> Snapshot:
        """Return the state after the loop."""
        found = [*self._after]
        for place, value in zip(self._carried, values, strict=True):
            found[place] = value
        return Snapshot(found, self.start.contents)

    def update(self, after: Snapshot) -> bool:
        """Compare the state after a round; return whether the plan stays as it is."""
        if not after.same_contents(self.start):
            raise NotConvertible("a loop changes a list, a dictionary or a set")
        carried, start, is_final = [], [*self.start.values], True
        for place, name in enumerate(self._state.names):
            old, new = start[place], after.values[place]
            self._after[place] = old
            if new is old or _is_same(old, new):
                if place in self._carried:
                    carried.append(place)
            elif old is UNDEFINED and not _is_escaping(self._state, place, new):
                self._after[place] = new if is_plain(new) else UNDEFINED
            elif not is_numeric(new) or not (old is UNDEFINED or is_numeric(old)):
                self._after[place] = UNDEFINED  # such as a tape that is made anew in each round
            else:
                carried.append(place)
                if old is UNDEFINED:
                    self._zeros[place] = _map(_zeros, new)
                else:
                    start[place] = _converted(name, old, new)
                    is_final = is_final and start[place] is old
        is_final = is_final and carried == self._carried
        self.start, self._carried = Snapshot(start, self.start.contents), carried
        return is_final


def _is_escaping(state: State, place: int, value: Any) -> bool:
    """Whether a variable that a round binds for the first time is needed after the loop."""
    return state.is_read[place] and is_numeric(value) and not is_plain(value)


def is_numeric(value: Any) -> bool:
    """Whether a value consists of tensors and numbers."""
    if isinstance(value, TensorArray):
        return True
    leaves = nest.flatten(value)
    return not is_empty(value) and all(is_number(leaf) for leaf in leaves)


def is_plain(value: Any) -> bool:
    """Whether a value consists of Python numbers and texts, the same in all rounds."""
    plain = (*NUMBERS, str, bytes, type(None))
    if isinstance(value, TensorArray):  # to flatten it would stack what a trial has written
        return False
    return all(type(leaf) in plain for leaf in nest.flatten(value))


def _is_same(old: Any, new: Any) -> bool:
    return type(old) is type(new) and is_plain(old) and is_plain(new) and bool(old == new)


def _converted(name: str, old: Any, new: Any) -> Any:
    """Return the first value of a carried variable as tensors of the kind that rounds return."""
    if isinstance(old, TensorArray) or isinstance(new, TensorArray):
        made = with_shape_of(old, new)
        nest.flatten(made)  # as one tensor, which later trials may read
        return made
    try:
        nest.assert_same_structure(old, new)
    except (TypeError, ValueError) as error:
        raise ChangesKind(_changes(name, old, new)) from error
    pairs = [*zip(nest.flatten(old), nest.flatten(new), strict=True)]
    if all(_are_alike(a, b) for a, b in pairs):
        return old
    leaves = [_as_kind_of(name, a, b) for a, b in pairs]
    return nest.pack_sequence_as(old, leaves)


def _are_alike(old: Any, new: Any) -> bool:
    if type(old) in NUMBERS:
        return False
    if type(new) in NUMBERS:
        return True
    return tuple(old.shape) == tuple(new.shape) and old.dtype == new.dtype


def _as_kind_of(name: str, old: Any, new: Any) -> Any:
    if type(old) in NUMBERS and not tuple(getattr(new, "shape", ())):
        given, wanted = as_operand(old), as_operand(new).dtype
        return given if given.dtype == wanted else cast.cast(given, wanted)
    if _are_alike(old, new):
        return old
    raise ChangesKind(_changes(name, old, new))


def _changes(name: str, old: Any, new: Any) -> str:
    return f"{name!r} is {described(old)} before a round of a loop and {described(new)} after it"


def _zeros(leaf: Any) -> Any:
    found = as_operand(leaf)
    return zeros(tuple(found.shape), found.dtype)


def _map(function: Any, value: Any) -> Any:
    return value if isinstance(value, TensorArray) else nest.map_structure(function, value)
