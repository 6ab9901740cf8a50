"""What the attributes of a layer hold: variables and other layers, also in lists and dicts."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_
from typing import Any

from tapegrad.core.variable import Variable

_NEITHER, _VARIABLE, _HOLDER, _SEQUENCE, _MAPPING = range(5)


class Holder:
    """Base of layers: knows which of its attributes may hold variables or layers.

    >>> class Pair(Holder):
    ...     pass
    >>> pair, inner = Pair(), Pair()
    >>> pair.parts, pair.name = [inner, Variable(2.0)], "pair"
    >>> variables, layers = pair._held()
    >>> float(variables[0]), layers == [inner]
    (2.0, True)
    """

    # Slots, so that they are no attributes among those that checkpoints and users look into.
    __slots__ = ("_contents", "_finds", "_gathered", "_joined", "_metric_places", "_movers")
    _gathered: Gathered | None
    """The variables of this layer and of all inner ones, once somebody has asked for them."""
    _finds: Found | None
    """What was found."""
    _contents: list[tuple[Any, Any]]
    """Lists and dicts that were looked into, and what of interest was in them."""
    _metric_places: list[Any] | None
    """The attributes that may hold metrics, once somebody has looked for them."""
    _joined: Any
    """Of models, once they were called: their layers as they call them, some two at a time."""
    _movers: dict[Any, Any]
    """What moved the averages of the last pass that began here, once there were any."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._forget_held()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._forget_held()

    def _forget_held(self) -> None:
        """Look at all attributes again, because one of them is another object now."""
        object.__setattr__(self, "_finds", None)
        object.__setattr__(self, "_metric_places", None)
        object.__setattr__(self, "_gathered", None)
        _changes[0] += 1

    def _held(self) -> Found:
        """The variables and the layers that the attributes hold; variables may be there twice."""
        finds = self._finds
        if finds is None:
            return self._look()
        contents = self._contents
        return finds if not contents or all([_is_same(*one) for one in contents]) else self._look()

    def _look(self) -> Found:
        state = self.__dict__
        named = [value for name, value in state.items() if name not in ASIDE]
        kept = state.get("_in_float32", {}).values()  # forgotten whenever one is added
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
"""How often an attribute of any layer was set: each time, what layers hold may be another."""


class Gathered:
    """The variables of a layer and its inner ones, and what must be as it was for them to hold."""

    __slots__ = ("_changes", "_contents", "_trainable", "variables")

    def __init__(self, variables: list[Variable], contents: list[tuple[Any, Any]]) -> None:
        self.variables = variables
        self._trainable = [variable.trainable for variable in variables]
        self._contents = contents
        self._changes = _changes[0]

    def holds(self) -> bool:
        """Whether the layer has these variables still, in this order."""
        return (
            self._changes == _changes[0]
            and [variable.trainable for variable in self.variables] == self._trainable
            and all([_is_same(*one) for one in self._contents])
        )


_NOTES = ("_arguments", "_regularized", "_own_losses", "_functions", "_under_way", "_place_in_fit")
ASIDE = frozenset((*_NOTES, "_in_float32", "input", "output"))
"""What a layer notes for itself. Variables and layers in notes are attributes as well."""


class _Roles(dict[type, int]):
    """What values of a type are to us: remembered, because every training step asks."""

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
    """What of interest is in a list or a dict: the rest must not live on for our sake."""
    values = container.values() if isinstance(container, dict) else container
    return [value for value in values if _ROLES[type(value)] != _NEITHER]


def _is_same(container: Any, before: list[Any]) -> bool:
    inside = _inside(container)
    return len(inside) == len(before) and all(map(is_, inside, before))
