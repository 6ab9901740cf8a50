"""Let the rounds of an unrolled loop be equal where they differ by their number only.

`t < lengths` in a Python loop is recorded with another number in each round. Loops that contain it
would all be different, and each would be compiled. The numbers become elements of one array.
"""

from __future__ import annotations

from collections import defaultdict
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
        found = _number(call)
        if found is not None:
            families[_family(call)].add(found)
    chosen = {key: numbers for key, numbers in families.items() if len(numbers) >= FEWEST}
    if not chosen:
        return graph
    numbers = unused_numbers(graph)
    arrays: dict[tuple[str, str], Value] = {}
    most = {key[1:]: 0 for key in chosen}
    for key, some in chosen.items():
        most[key[1:]] = max(most[key[1:]], *some)
    sources = {value.device: value for value in (*graph.inputs, *graph.variables.values())}
    calls: list[Call] = []
    for call in graph.calls:
        family, number = _family(call), _number(call)
        operand = next(iter(call.reads), None)
        if number is None or family not in chosen or operand is None:
            calls.append(call)
            continue
        making = NewCalls(call, numbers)
        place = family[1:]
        if place not in arrays:
            source = sources.get(operand.device)
            if source is None:
                calls.append(call)
                continue
            arrays[place] = _positions(making, source, operand, most[place] + 1)
        calls.extend(_with_element(making, call, arrays[place], operand, number))
    return replace(graph, calls=tuple(calls))


def _number(call: Call) -> int | None:
    """Return the number of a call of one array of whole numbers and a number, or None."""
    if call.primitive.name not in _BY_NUMBER or call.region or len(call.operands) != 2:
        return None
    numbers = [x for x in call.operands if not isinstance(x, Value)]
    if len(numbers) != 1 or type(numbers[0]) is not int or not 0 <= numbers[0] < MOST:
        return None
    return numbers[0] if call.reads[0].dtype.name in ("int32", "int64") else None


def _family(call: Call) -> tuple[Any, str, str]:
    """Return what calls have in common that differ by a number, and the dtype and the device."""
    operand = next(iter(call.reads), None)
    if operand is None:
        return None, "", ""
    is_first = call.operands[0] is operand
    key = (call.primitive.name, is_first, operand.shape)
    return key, operand.dtype.name, operand.device


def _positions(making: NewCalls, source: Value, operand: Value, length: int) -> Value:
    params = {"length": length, "dtype": operand.dtype}
    result = replace(operand, number=making.new_number(), shape=(length,))
    return making.add("positions_like", (source,), params, (length,), result)


def _with_element(
    making: NewCalls, call: Call, array: Value, operand: Value, number: int
) -> list[Call]:
    """Return the calls that take a number from the array and compute with it."""
    element = replace(operand, number=making.new_number(), shape=())
    making.add("slice", (array,), {"index": (number,)}, (), element)
    operands = tuple(x if isinstance(x, Value) else element for x in call.operands)
    return [*making.calls, call.with_values(operands)]
