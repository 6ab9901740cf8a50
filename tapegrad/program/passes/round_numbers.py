"""Let the rounds of an unrolled loop be equal where they differ by numbers only.

`t < lengths` and `alphas[t] * x` in a Python loop are recorded with another number in each round.
Loops that contain them would all be different, and each would be compiled. Whole numbers become
elements of one array, since they count the rounds. Fractions become constant arrays of one element,
if a round has few of them: the coefficients of a polynomial are in one loop, where they had better
stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from tapegrad.core.exact_key import exact_key
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import weight_of
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.passes.new_calls import NewCalls

FEWEST = 8
"""The fewest different numbers of calls that are equal otherwise."""

MOST = 1 << 16
"""The largest whole number."""

MOST_PER_ROUND = 2
"""The most fractions of equal calls that are between two calls which no loop contains."""

MOST_TIMES = 4
"""How often a fraction comes again at most: gradients, also of gradients, have it once more."""

_LARGEST = {name: float(np.finfo(name).max) for name in ("float32", "float64")}
"""The largest fraction by dtype."""

_COMPARISONS = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
_BY_NUMBER = _COMPARISONS | {"add", "maximum", "minimum", "multiply", "subtract"}
_BY_FRACTION = _BY_NUMBER | {"divide"}


def with_numbered_rounds(graph: Graph) -> Graph:
    """Replace numbers that differ between equal calls by elements of arrays."""
    return _with_constant_fractions(_with_numbers(graph))


def _operand_number(call: Call, names: Collection[str]) -> Any:
    """Return the number in a call of a number and an array, None if it is no such call."""
    if call.primitive.name not in names or call.region or len(call.operands) != 2:
        return None
    numbers = [x for x in call.operands if not isinstance(x, Value)]
    return numbers[0] if len(numbers) == 1 else None


def _family(call: Call) -> tuple[Any, ...]:
    """Return what is equal in calls that differ by their number."""
    (array,) = call.reads
    return call.primitive.name, call.operands[0] is array, array.shape, *_kind(array)


def _kind(value: Value) -> tuple[str, str]:
    return value.dtype.name, value.device


# Whole numbers


def _with_numbers(graph: Graph) -> Graph:
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
    number = _operand_number(call, _BY_NUMBER)
    if type(number) is not int or not 0 <= number < MOST:
        return None
    return number if call.reads[0].dtype.name in ("int32", "int64") else None


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


# Fractions


def _with_constant_fractions(graph: Graph) -> Graph:
    """Replace fractions in calls on the host; on other devices a constant is a copy from it."""
    chosen = _families_of_fractions(graph)
    if not chosen:
        return graph
    numbers, constants = unused_numbers(graph), dict(graph.constants)
    made: dict[Any, Value] = {}
    calls: list[Call] = []
    for call in graph.calls:
        fraction = _fraction(call)
        if fraction is not None and _family(call) in chosen:
            (operand,) = call.reads
            key = exact_key(fraction), operand.dtype
            if key not in made:
                made[key] = replace(operand, number=next(numbers), shape=())
                constants[made[key].number] = np.array(fraction, operand.dtype)
            operands = [x if isinstance(x, Value) else made[key] for x in call.operands]
            call = call.with_values(tuple(operands))
        calls.append(call)
    return replace(graph, calls=tuple(calls), constants=constants)


def _families_of_fractions(graph: Graph) -> set[Any]:
    """Return the families of calls whose fractions differ from round to round."""
    different = defaultdict(set)
    for call in graph.calls:
        fraction = _fraction(call)
        if fraction is not None:
            different[_family(call)].add(fraction)
    if not any(len(fractions) >= FEWEST for fractions in different.values()):
        return set()
    found: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    part = 0
    """How many calls that no loop contains have come before."""
    for call in graph.calls:
        fraction = _fraction(call)
        if fraction is not None:
            found[_family(call)].append((part, exact_key(fraction)))
        elif not is_view(call) and weight_of(call) is None:
            part += 1
    return {family for family, pairs in found.items() if _differ_by_round(pairs)}


def _differ_by_round(pairs: Sequence[tuple[int, Any]]) -> bool:
    """Whether fractions, with the parts of the program in which they are, differ by round.

    Those that come again and again, such as weights of a stencil, are the same in all rounds.
    """
    numbers, parts = {key for _, key in pairs}, {part for part, _ in pairs}
    if min(len(numbers), len(parts)) < FEWEST or len({*pairs}) > MOST_PER_ROUND * len(parts):
        return False
    return sum(1 for _ in groupby([key for _, key in pairs])) <= MOST_TIMES * len(numbers)


def _fraction(call: Call) -> float | None:
    """Return the number in a call of a number and an array of fractions on the host, or None."""
    fraction = _operand_number(call, _BY_FRACTION)
    if type(fraction) not in (float, int) or call.array_type is not np.ndarray:
        return None
    largest = _LARGEST.get(call.reads[0].dtype.name)
    return fraction if largest is not None and abs(fraction) <= largest else None
