"""Find the variables and sublayers in the attributes of a layer, lists and dicts included."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any

from tapegrad.core.observed import LAST_CHANGE, Observed
from tapegrad.core.values.variable import Variable

_NEITHER, _VARIABLE, _HOLDER, _SEQUENCE, _MAPPING = range(5)


class Holder(Observed):
    """Base class of layers: tracks the variables and layers that its attributes hold.

    >>> class Pair(Holder):
    ...     pass
    >>> pair, inner = Pair(), Pair()
    >>> pair.parts, pair.name = [inner, Variable(2.0)], "pair"
    >>> variables, layers = pair._held()
    >>> float(variables[0]), layers == [inner]
    (2.0, True)
    """

    # Slots keep these caches out of __dict__, which checkpoints and users read.
    __slots__ = ("_contents", "_finds", "_gathered", "_joined", "_metric_places", "_movers")
    unobserved = frozenset({
        *("_arguments", "_functions", "_is_calling", "_last_pass", "_own_losses"),
        *("_place_in_fit", "_under_way"),
    })  # fmt: skip
    _gathered: Gathered | None
    """Cache: the variables of this layer and of all sublayers."""
    _finds: Found | None
    """Cache: the variables and layers that the attributes hold."""
    _contents: list[tuple[Any, Any]]
    """The lists and dicts that were searched, each with the variables and layers found in it."""
    _metric_places: list[Any] | None
    """Cache: the attributes that may hold metrics."""
    _joined: Any
    """Cache of a called model: its layers in call order, with fused pairs, and values to drop."""
    _movers: dict[Any, Any]
    """Cache: the functions that updated the moving averages of the last forward pass."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._forget_held()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._forget_held()

    def _forget_held(self) -> None:
        """Invalidate the caches, because an attribute was set or deleted."""
        object.__setattr__(self, "_finds", None)
        object.__setattr__(self, "_metric_places", None)
        object.__setattr__(self, "_gathered", None)
        _changes[0] += 1
        LAST_CHANGE[0] = object()

    def _held(self) -> Found:
        """Return the variables and layers that the attributes hold; variables may repeat."""
        finds = self._finds
        if finds is None:
            return self._look()
        contents = self._contents
        return finds if not contents or all([_is_same(*one) for one in contents]) else self._look()

    def _look(self) -> Found:
        state = self.__dict__
        named = [value for name, value in state.items() if name not in ASIDE]
        kept = state.get("_in_float32", {}).values()  # adding one invalidates the caches
        variables: list[Variable] = []
        layers: list[Any] = []
        contents: list[tuple[Any, Any]] = []
        _collect((*kept, *named), variables, layers, contents)
        found = variables, list({id(layer): layer for layer in layers}.values())
        object.__setattr__(self, "_finds", found)
        object.__setattr__(self, "_contents", contents)
        return found


Found = tuple[list[Variable], list[Any]]

_changes = [0]
"""Counts attribute writes on all layers; each write invalidates the caches."""


class Gathered:
    """The variables of a layer and its sublayers, with the state that tells if they are current."""

    __slots__ = ("_changes", "_contents", "_trainable", "variables")

    def __init__(self, variables: list[Variable], contents: list[tuple[Any, Any]]) -> None:
        self.variables = variables
        self._trainable = [variable.trainable for variable in variables]
        self._contents = contents
        self._changes = _changes[0]

    def holds(self) -> bool:
        """Whether the layer still has these variables, in this order."""
        return (
            self._changes == _changes[0]
            and [variable.trainable for variable in self.variables] == self._trainable
            and all([_is_same(*one) for one in self._contents])
        )


_NOTES = ("_arguments", "_regularized", "_own_losses", "_functions", "_under_way", "_place_in_fit")
ASIDE = frozenset((*_NOTES, "_in_float32", "input", "output"))
"""Attributes that tracking skips: the variables and layers in them are attributes as well."""


class _Roles(dict[type, int]):
    """Maps a type to its role in tracking; cached, because every training step needs it."""

    def __missing__(self, kind: type) -> int:
        known = {Variable: _VARIABLE, Holder: _HOLDER, dict: _MAPPING}
        known.update({list: _SEQUENCE, tuple: _SEQUENCE})
        role = next((known[base] for base in known if issubclass(kind, base)), _NEITHER)
        self[kind] = role
        return role


_ROLES = _Roles()


def _collect(
    values: Iterable[Any], variables: list[Variable], holders: list[Any], contents: list[Any]
) -> None:
    for value in values:
        role = _ROLES[type(value)]
        if role == _VARIABLE:
            variables.append(value)
        elif role == _HOLDER:
            holders.append(value)
        elif role != _NEITHER:
            inside = _inside(value)
            if type(value) is not tuple:
                contents.append((value, inside))
            _collect(inside, variables, holders, contents)


def _inside(container: Any) -> list[Any]:
    """Return the tracked values in a list or dict; keeping the others would extend their life."""
    values = container.values() if isinstance(container, dict) else container
    return [value for value in values if _ROLES[type(value)] != _NEITHER]


def _is_same(container: Any, before: list[Any]) -> bool:
    inside = _inside(container)
    return len(inside) == len(before) and all(map(is_, inside, before))
