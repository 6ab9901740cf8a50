"""Rules that are one call of a primitive: their result can be added where it belongs.

The rule of a matrix product is a matrix product. A backend that can add one to an array in place
then needs no launch, and no memory, of its own for the sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tapegrad.core.primitive import INTERPRETERS, Primitive
from tapegrad.core.recorder import RAW, using_stack

_MOST = 4096
_calls: dict[Any, Call | None] = {}


class Call(NamedTuple):
    """The primitive that a rule calls, where its operands come from, and the params.

    An operand is what the rule reads at that position; -1 is the cotangent.
    """

    primitive: Primitive
    operands: tuple[int, ...]
    params: dict[str, Any]


class _Slot:
    """Stands for an operand while a rule is looked at."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def _note(primitive: Primitive, args: Any, params: dict[str, Any]) -> Call:
    return Call(primitive, tuple(arg.position for arg in args), params)


INTERPRETERS[_Slot] = _note


def single_call(primitive: Primitive, index: int, params: dict[str, Any]) -> Call | None:
    """Return the one call that the rule of an input consists of, or None if it does more."""
    key = (primitive, index, *params.values())
    try:
        return _calls[key]
    except KeyError:
        if len(_calls) >= _MOST:
            _calls.clear()
        found = _calls[key] = _look_at(primitive, index, params)
        return found


def _look_at(primitive: Primitive, index: int, params: dict[str, Any]) -> Call | None:
    rule = primitive.vjp_rules[index] if primitive.vjp_rules else None
    if rule is None or any(read.only_shape for read in rule.reads):
        return None
    slots = tuple(_Slot(position) for position in range(len(rule.reads)))
    with using_stack(RAW):
        try:
            result = rule(_Slot(-1), slots, params)
        except Exception:  # whatever a slot cannot do, the rule does more than one call
            return None
    return result if isinstance(result, Call) else None
