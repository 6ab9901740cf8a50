"""Find the variables and plain values in objects, by path-like names, for checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import setitem
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tapegrad.autodiff.arguments import variable_in
from tapegrad.core.string_variable import StringVariable
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.random.generator import Generator
from tapegrad.optimizers.base import Optimizer

_PLAIN = (bool, int, float, str, type(None))


@runtime_checkable
class HasVariables(Protocol):
    """An object with variables in its attributes: a module, a layer, an optimizer, a metric."""

    variables: Any


@runtime_checkable
class HasState(Protocol):
    """An object that can save and restore its state as JSON values, such as a dataset iterator."""

    def state(self) -> Any:
        """Return the state as JSON values."""

    def set_state(self, state: Any) -> Any:
        """Restore a state that `state` returned."""


class Place(NamedTuple):
    """Reads and writes a value that JSON can hold."""

    get: Callable[[], Any]
    put: Callable[[Any], Any]


@dataclass(frozen=True)
class Tracked:
    """The variables, plain values and optimizers that were found, by name."""

    variables: dict[str, Variable] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    optimizers: dict[str, Optimizer] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    """Further names of objects that were found before, each with the first name of the object."""
    owners: set[int] = field(default_factory=set)
    """The ids of all objects that were searched."""


class _Found(NamedTuple):
    """A value to visit; `put` replaces it in its container, if that is possible."""

    name: str
    value: Any
    put: Callable[[Any], Any] | None
    is_attribute: bool  # numbers and strings in attributes are configuration, not state


def track(objects: dict[str, Any]) -> Tracked:
    """Find all variables and plain values; an object with several names keeps the shortest.

    Names consist of attributes, keys and positions. Public attributes come before private ones.

    >>> tracked = track({"step": 3, "nets": [{"w": Variable(1.0)}]})
    >>> list(tracked.variables), list(tracked.places)
    (['nets/0/w'], ['step'])
    """
    tracked = Tracked()
    seen: dict[int, _Found] = {}  # keeps the objects, so that no id is used again
    queue = deque(_children("", objects, False))
    while queue:
        found = queue.popleft()
        if isinstance(found.value, _PLAIN):
            if not found.is_attribute:
                _add_plain(found, tracked)
        elif id(found.value) in seen:
            tracked.aliases[found.name] = seen[id(found.value)].name
        else:
            seen[id(found.value)] = found
            queue.extend(_visit(found, tracked))
    tracked.owners.update(seen)
    return tracked


_MOST_NAMES = 200


class Matcher:
    """Finds the name that a file has for an object; both may know it by several names.

    >>> matcher = Matcher(["a/w"], theirs={"b": "a"}, ours={})
    >>> matcher.find("a/w"), matcher.find("b/w"), matcher.find("c/w")
    ('a/w', 'a/w', None)
    """

    def __init__(
        self, known: Iterable[str], theirs: Mapping[str, str], ours: Mapping[str, str]
    ) -> None:
        self._known = frozenset(known)
        self._theirs = theirs
        self._ours: dict[str, list[str]] = {}
        for alias, name in ours.items():
            self._ours.setdefault(name, []).append(alias)

    def find(self, name: str) -> str | None:
        """Return a name of the file for the object of this name, or None."""
        tried, queue = {name}, deque([name])
        while queue:
            name = queue.popleft()
            if name in self._known:
                return name
            for other in self._others(name):
                if other not in tried and len(tried) < _MOST_NAMES:
                    tried.add(other)
                    queue.append(other)
        return None

    def _others(self, name: str) -> Iterator[str]:
        """Yield the names that differ in the name of an object on the way."""
        stop = len(name)
        while stop > 0:
            start, rest = name[:stop], name[stop:]
            if start in self._theirs:
                yield self._theirs[start] + rest
            for alias in self._ours.get(start, ()):
                yield alias + rest
            stop = name.rfind("/", 0, stop)


def _visit(found: _Found, tracked: Tracked) -> Iterable[_Found]:
    """Record a value and return its children."""
    name, value = found.name, variable_in(found.value)
    if isinstance(value, Variable):
        _add(name, value, tracked.variables)
    elif isinstance(value, Generator):
        return [_Found(name, value.state, None, found.is_attribute)]
    elif isinstance(value, list | tuple | Mapping):
        return _children(f"{name}/", value, found.is_attribute)
    elif hasattr(type(value), "_held_objects"):  # another checkpoint
        return _children(f"{name}/", value._held_objects(), True)
    elif isinstance(value, HasVariables) and not isinstance(value, type):
        if isinstance(value, Optimizer):
            _add(name, value, tracked.optimizers)
        return _children(f"{name}/", _attributes(value), True)
    elif not found.is_attribute or isinstance(value, StringVariable):
        _add_state(found, tracked)
    return ()


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, public ones first."""
    given = getattr(value, "checkpointed", None)
    found = getattr(value, "__dict__", {}) if given is None else given()
    names = sorted(found, key=lambda name: (name.startswith("_"), name))
    if isinstance(value, Optimizer):
        # Its tables are keyed by numbers that differ between runs; see slots.py.
        apart = getattr(value, "_makers", {})
        names = [name for name in names if isinstance(found[name], Variable | HasVariables)]
        names = [name for name in names if getattr(found[name], "number", None) not in apart]
    return {name: found[name] for name in names}


def _children(prefix: str, holder: Any, is_attribute: bool) -> Iterator[_Found]:
    items = holder.items() if isinstance(holder, Mapping) else enumerate(holder)
    for key, value in items:
        # Escape "/" in a key, which separates parts of a name.
        part = str(key).replace("~", "~0").replace("/", "~1")
        put = partial(setitem, holder, key) if isinstance(holder, dict | list) else None
        yield _Found(prefix + part, value, put, is_attribute)


def _add(name: str, value: Any, table: dict[str, Any]) -> None:
    if name in table:
        raise ArgumentError(
            f"Two values of a checkpoint have the name {name!r}. Use strings as keys of dicts."
        )
    table[name] = value


def _add_plain(found: _Found, tracked: Tracked) -> None:
    if found.put is None:
        raise ArgumentTypeError(
            f"A checkpoint cannot restore {found.name!r}: it is in a tuple or in an immutable "
            "mapping. Use a list or a dict."
        )
    value = found.value
    _add(found.name, Place(lambda: value, found.put), tracked.places)


def _add_state(found: _Found, tracked: Tracked) -> None:
    value = found.value
    if not isinstance(value, HasState):
        raise ArgumentTypeError(
            "A checkpoint can hold modules, optimizers, variables, random generators, numbers, "
            "strings, dicts and lists of these, and objects with state() and set_state(). "
            f"Got {type(value).__name__} for {found.name!r}; put a tensor or an array into a "
            "Variable."
        )
    _add(found.name, Place(value.state, value.set_state), tracked.places)
