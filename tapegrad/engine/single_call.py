"""Find VJP rules that consist of one call of a primitive.

The VJP of a matrix product is a matrix product. A backend that can add such a call to an array in
place needs no further launch and no further memory for the sum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive
from tapegrad.core.recorder import RAW, using_stack

_MOST_CALLS = 4096
_calls: dict[Any, Call | None] = {}


class Call(NamedTuple):
    """A call: the primitive, its operands as positions among the saved values, and its params.

    Position -1 is the cotangent.
    """

    primitive: Primitive
    operands: tuple[int, ...]
    params: dict[str, Any]


class _Slot:
    """Stands for an operand while a rule is traced."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def _trace_call(primitive: Primitive, args: Any, params: dict[str, Any]) -> Call:
    return Call(primitive, tuple(arg.position for arg in args), params)


INTERPRETERS[_Slot] = _trace_call


def single_call(primitive: Primitive, index: int, params: dict[str, Any]) -> Call | None:
    """Return the call that the rule of an input consists of, None if it is not one call."""
    key = (primitive, index, *params.values())
    try:
        return _calls[key]
    except KeyError:
        if len(_calls) >= _MOST_CALLS:
            _calls.clear()
        found = _calls[key] = _traced(primitive, index, params)
        return found


def _traced(primitive: Primitive, index: int, params: dict[str, Any]) -> Call | None:
    rule = primitive.vjp_rules[index] if primitive.vjp_rules else None
    if rule is None or any(read.only_shape for read in rule.reads):
        return None
    slots = tuple(_Slot(position) for position in range(len(rule.reads)))
    with using_stack(RAW):
        try:
            result = rule(_Slot(-1), slots, params)
        except Exception:  # the rule does something else with its operands
            return None
    return result if isinstance(result, Call) else None
