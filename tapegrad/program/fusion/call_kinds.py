"""Keys of calls for fusion, which identify equal parts of a program."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from tapegrad.core.exact_key import exact_key
from tapegrad.program.fusion.fusion import Takes, is_constant
from tapegrad.program.graph.formulas import is_combining
from tapegrad.program.graph.graph import Call, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.short_products import is_short_product


class _Kind(NamedTuple):
    """What does not depend on the values that a call reads."""

    call: Call
    is_fusible: bool
    number: int
    """Equal for calls that fusion treats alike."""
    has_params: bool
    """Whether the params are part of the number."""


class CallKinds:
    """The kinds of calls, found once for each call."""

    def __init__(self, takes: Takes) -> None:
        self._takes = takes
        self._known: dict[int, _Kind] = {}
        """By the ids of calls, which it keeps, so that no other call gets the id."""
        self._numbers: dict[Any, int] = {}

    def is_fusible(self, call: Call) -> bool:
        """Whether a call may become part of a loop, and reads elements."""
        return self._kind(call).is_fusible

    def of(self, call: Call, describe: Callable[[Value], Any], windows: Collection[str]) -> Any:
        """Return what fusion sees of a call; `describe` tells of the values that it reads.

        The params of calls that cannot be part of a loop do not matter, except for those of
        `windows`, through which loops look.
        """
        kind = self._kind(call)
        matters = not kind.has_params and call.primitive.name in windows
        params = params_of(call) if matters else None
        return kind.number, params, tuple([describe(value) for value in call.reads])

    def noted(self, call: Call, copy: Call) -> Call:
        """Note that a call is of the same kind as another one, of which it is a copy."""
        self._known[id(copy)] = self._kind(call)._replace(call=copy)
        return copy

    def _kind(self, call: Call) -> _Kind:
        found = self._known.get(id(call))
        if found is None:
            found = self._known[id(call)] = self._found(call)
        return found

    def _found(self, call: Call) -> _Kind:
        is_taken, is_filled = self._takes(call), is_constant(call)
        is_known = call.primitive.by_element or is_combining(call) or is_short_product(call)
        has_params = is_taken and (is_known or is_filled)
        key = (
            call.primitive.name,
            call.array_type,
            is_taken,
            is_view(call),
            params_of(call) if has_params else None,
            tuple([None if type(x) is Value else exact_key(x) for x in call.operands]),
        )
        number = self._numbers.setdefault(key, len(self._numbers))
        return _Kind(call, is_taken and is_known and not is_filled, number, has_params)


def params_of(call: Call) -> Any:
    """Return a key of the params of a call, equal to no other one's if they cannot be compared."""
    key = tuple([(name, exact_key(value)) for name, value in call.params.items()])
    try:
        hash(key)
    except TypeError:
        return id(call)
    return key
