"""The variables of a converted statement: read them, write them, choose between two versions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

from tapegrad.core.call_site import LIBRARIES
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import TapegradError
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.syntax import RETURN_VALUE
from tapegrad.program.record.branches import selected

_CONTAINERS = (list, dict, set, deque)

_DEPTH, _MOST_ENTRIES = 2, 100
"""How deep calls are expected to change structures, and the entries of one that are looked at."""


class _Undefined:
    """The value of a name that is not bound."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Any = _Undefined()


def value_of(read: Callable[[], Any]) -> Any:
    """Return the value of a name or an attribute, `UNDEFINED` if it has none."""
    try:
        return read()
    except (NameError, AttributeError):
        return UNDEFINED


def is_set_to_other(read: Callable[[], Any], value: Any) -> bool:
    """Whether an attribute has to be assigned to get a value."""
    return value is not UNDEFINED and value_of(read) is not value


def is_deleted(read: Callable[[], Any], value: Any) -> bool:
    """Whether an attribute exists and must not."""
    return value is UNDEFINED and value_of(read) is not UNDEFINED


class Snapshot:
    """The values of the variables at some time, and the contents of containers."""

    def __init__(self, values: Sequence[Any], contents: Sequence[tuple[Any, Any]]) -> None:
        self.values = [*values]
        self.contents = [*contents]
        """Lists, dictionaries and sets that the statement may change, and copies of them."""

    def same_contents(self, other: Snapshot) -> bool:
        """Whether the containers have the same entries."""
        copies = {id(owner): copy for owner, copy in other.contents}
        return all(
            id(owner) not in copies or _entries(copy) == _entries(copies[id(owner)])
            for owner, copy in self.contents
        )


def _entries(container: Any) -> list[int]:
    if isinstance(container, dict):
        return [*map(id, container), *map(id, container.values())]
    return sorted(map(id, container)) if isinstance(container, set) else [*map(id, container)]


def _content(cell: CellType) -> Any:
    """Return the value of a variable that functions share, `UNDEFINED` if it has none."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNDEFINED


def _fill(cell: CellType, values: Sequence[Any]) -> None:
    """Give a variable that functions share a value, or none."""
    if values:
        cell.cell_contents = values[0]
    elif _content(cell) is not UNDEFINED:
        del cell.cell_contents


def _is_plain_object(value: Any) -> bool:
    """Whether a value is an object of a class of the user, which is no layer, model or module."""
    if isinstance(value, type | ModuleType | FunctionType) or not hasattr(value, "__dict__"):
        return False
    modules = [kind.__module__ for kind in type(value).__mro__ if kind is not object]
    return not any(name.partition(".")[0] in LIBRARIES for name in modules)


class State:
    """Access to the variables that a statement assigns.

    `is_read` says of each of them whether it is read outside of the statement, and `is_renewed`
    whether each round of a loop binds it before it reads it.
    """

    def __init__(
        self,
        get: Callable[[], tuple[Any, ...]],
        put: Callable[[Sequence[Any]], None],
        containers: Callable[[], tuple[Any, ...]],
        names: Sequence[str],
        is_read: Sequence[bool],
        is_renewed: Sequence[bool],
    ) -> None:
        self._get, self._put, self._containers = get, put, containers
        self.names, self.is_read, self.is_renewed = [*names], [*is_read], [*is_renewed]
        self._attributes = {name.rpartition(".")[2] for name in names if "." in name}

    def read(self) -> Snapshot:
        """Return the current values."""
        found = [part for one in self._containers() for part in self._parts_of(one)]
        different = {id(one): one for one in found}
        contents = [(one, self._copy(one)) for one in different.values()]
        return Snapshot(self._get(), contents)

    def _parts_of(self, value: Any) -> list[Any]:
        """Return the containers that a method of a value may change."""
        if type(value) in _CONTAINERS:
            return [value]
        if not _is_plain_object(value):
            return []
        return [vars(value), *[one for one in vars(value).values() if type(one) in _CONTAINERS]]

    def _copy(self, container: Any) -> Any:
        """Copy a container, without attributes that are variables of the statement."""
        if isinstance(container, CellType):
            return [one for one in [_content(container)] if one is not UNDEFINED]
        if not isinstance(container, dict):
            return container.copy()
        return {key: one for key, one in container.items() if key not in self._attributes}

    def write(self, snapshot: Snapshot) -> None:
        """Give the variables and the containers the values of a snapshot."""
        self._put(snapshot.values)
        for owner, copy in snapshot.contents:
            if _entries(self._copy(owner)) == _entries(copy):
                continue
            if isinstance(owner, CellType):
                _fill(owner, copy)
            elif isinstance(owner, list):
                owner[:] = copy
            elif isinstance(owner, deque):
                owner.clear()
                owner.extend(copy)
            elif isinstance(owner, set):
                owner.clear()
                owner.update(copy)
            else:
                for key in {*owner} - {*copy} - self._attributes:
                    del owner[key]
                owner.update(copy)


class BranchState(State):
    """Access to what a branch may change, also by the functions that it calls."""

    def _parts_of(self, value: Any, depth: int = 0) -> list[Any]:
        """Return the containers that a call may change through a value."""
        found: list[Any]
        if type(value) in _CONTAINERS:
            found = [value]
            inner = [*value.values()] if isinstance(value, dict) else [*value]
        elif isinstance(value, FunctionType):
            names = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            found = [cell for name, cell in names if name not in self.names]
            inner = [one for cell in found for one in self._copy(cell)]
        elif _is_plain_object(value):
            found, inner = [vars(value)], [*vars(value).values()]
        else:
            return []
        if depth < _DEPTH and len(inner) <= _MOST_ENTRIES:
            found += [part for one in inner for part in self._parts_of(one, depth + 1)]
        return found


def chosen_state(condition: Any, first: Snapshot, second: Snapshot, state: State) -> Snapshot:
    """Return the snapshot that a condition selects."""
    pairs = zip(state.names, first.values, second.values, strict=True)
    values = [chosen(condition, name, a, b) for name, a, b in pairs]
    others = {id(owner): copy for owner, copy in second.contents}
    contents = []
    for owner, copy in first.contents:
        other = others.get(id(owner), copy)
        if _entries(copy) != _entries(other):
            copy = _chosen_entries(condition, copy, other)
        contents.append((owner, copy))
    return Snapshot(values, contents)


def _chosen_entries(condition: Any, first: Any, second: Any) -> Any:
    """Return a container whose entries are those of one of two containers."""
    name = f"an entry of a {type(first).__name__}"
    if isinstance(first, list | deque) and len(first) == len(second):
        pairs = zip(first, second, strict=True)
        return type(first)(chosen(condition, name, a, b) for a, b in pairs)
    if isinstance(first, dict) and first.keys() == second.keys():
        return {key: chosen(condition, name, first[key], second[key]) for key in first}
    raise NotConvertible(f"the branches leave a {type(first).__name__} with different entries")


def chosen(condition: Any, name: str, first: Any, second: Any) -> Any:
    """Return the one of two values of a variable that a condition selects."""
    if first is second or second is UNDEFINED:
        return first
    if first is UNDEFINED:
        return second  # a correct program reads it only if the other branch was taken
    if nest.is_nested(first) and not is_empty(first):
        try:
            nest.assert_same_structure(first, second)
        except (TypeError, ValueError) as error:
            raise NotConvertible(_differs(name, first, second)) from error
        pairs = zip(nest.flatten(first), nest.flatten(second), strict=True)
        leaves = [chosen(condition, name, a, b) for a, b in pairs]
        return nest.pack_sequence_as(first, leaves)
    if is_number(first) and is_number(second):
        if _shape(first) != _shape(second):
            raise NotConvertible(_differs(name, first, second))
        try:
            return selected(condition, first, second)
        except TapegradError as error:
            raise NotConvertible(_differs(name, first, second)) from error
    if type(first) is type(second) and type(first) in (str, bytes) and first == second:
        return first
    raise NotConvertible(_differs(name, first, second))


def is_empty(structure: Any) -> bool:
    """Whether a container has no entries."""
    return isinstance(structure, list | tuple | dict) and not structure


def is_number(value: Any) -> bool:
    """Whether a value is a tensor or a number, which a program can select."""
    is_tensor = isinstance(value, Tensor) and not isinstance(value, Variable)
    return is_tensor or type(value) in NUMBERS or (hasattr(value, "dtype") and _is_array(value))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and not isinstance(value, Variable | type)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _differs(name: str, first: Any, second: Any) -> str:
    what = "the result" if name == RETURN_VALUE else repr(name)
    return f"{what} is {described(first)} in one branch and {described(second)} in the other"


def described(value: Any) -> str:
    """Return a short description of a value."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        kind = "a Variable of " if isinstance(value, Variable) else ""
        return f"{kind}{value.dtype}{list(value.shape)}"
    if value is None or type(value) in NUMBERS or isinstance(value, str):
        return repr(value)[:40]
    return f"a {type(value).__name__}"
