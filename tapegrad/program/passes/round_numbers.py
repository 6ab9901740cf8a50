"""Let the rounds of an unrolled loop be equal where they differ by their number only.

`t < lengths` in a Python loop is recorded with another number in each round. Loops that contain it
would all be different, and each would be compiled. The numbers become elements of one array.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.passes.new_calls import NewCalls

FEWEST = 8
"""The fewest different numbers of calls that are equal otherwise."""

MOST = 1 << 16
"""The largest number."""

_COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
_BY_NUMBER = _COMPARISONS | {"add", "maximum", "minimum", "multiply", "subtract"}


def with_numbered_rounds(graph: Graph) -> Graph:
    """Replace whole numbers that differ between equal calls by elements of an array."""
    families: dict[Any, set[int]] = defaultdict(set)
    for call in graph.calls:
        number = _number(call)
        if number is not None:
            families[_family(call)].add(number)
    chosen = {key: numbers for key, numbers in families.items() if len(numbers) >= FEWEST}
    if not chosen:
        return graph
    arrays = _Arrays(graph, chosen)
    calls: list[Call] = []
    for call in graph.calls:
        number = _number(call)
        is_chosen = number is not None and _family(call) in chosen
        calls.extend(arrays.calls_with(call, number) if is_chosen else (call,))
    return replace(graph, calls=tuple(calls))


def _number(call: Call) -> int | None:
    """Return the number in a call of a number and an array of whole numbers, or None."""
    if call.primitive.name not in _BY_NUMBER or call.region or len(call.operands) != 2:
        return None
    numbers = [x for x in call.operands if not isinstance(x, Value)]
    if len(numbers) != 1 or type(numbers[0]) is not int or not 0 <= numbers[0] < MOST:
        return None
    return numbers[0] if call.reads[0].dtype.name in ("int32", "int64") else None


def _family(call: Call) -> tuple[Any, ...]:
    """Return what is equal in calls that differ by their number."""
    (array,) = call.reads
    return call.primitive.name, call.operands[0] is array, array.shape, *_kind(array)


def _kind(value: Value) -> tuple[str, str]:
    return value.dtype.name, value.device


class _Arrays:
    """The arrays of numbers, one per dtype and device, which are made where they are first read."""

    def __init__(self, graph: Graph, chosen: Mapping[tuple[Any, ...], Collection[int]]) -> None:
        self._numbers = unused_numbers(graph)
        self._made: dict[tuple[str, str], Value] = {}
        self._lengths: dict[tuple[str, str], int] = defaultdict(int)
        for (*_, dtype, device), numbers in chosen.items():
            self._lengths[dtype, device] = max(self._lengths[dtype, device], *numbers) + 1

    def calls_with(self, call: Call, number: int | None) -> list[Call]:
        """Return the calls that take the number from an array and compute with it."""
        (operand,) = call.reads
        making, kind = NewCalls(call, self._numbers), _kind(operand)
        if kind not in self._made:
            length = self._lengths[kind]
            params = {"length": length, "dtype": operand.dtype}
            array = replace(operand, number=next(self._numbers), shape=(length,))
            self._made[kind] = making.add("positions_like", (operand,), params, (length,), array)
        element = replace(operand, number=next(self._numbers), shape=())
        making.add("slice", (self._made[kind],), {"index": (number,)}, (), element)
        operands = tuple(x if isinstance(x, Value) else element for x in call.operands)
        return [*making.calls, call.with_values(operands)]
