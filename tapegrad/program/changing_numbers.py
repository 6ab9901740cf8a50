"""One program for recordings that differ by Python numbers only, such as a learning rate.

A Python number is a constant of its program, so a call with another number is recorded. If all
calls of the new recording are those of an earlier one up to numbers that arrays are added to,
multiplied by or compared with, these numbers become inputs of one program. Later recordings of this
kind need no passes and no compiler: each keeps its numbers only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core.exact_key import exact_key
from tapegrad.core.number_checks import is_checking_numbers
from tapegrad.core.values.device import backend_for
from tapegrad.program.building import Building
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.loops.like_bodies import is_same
from tapegrad.program.record.guards import Guards
from tapegrad.program.recorded_call import RecordedCall
from tapegrad.program.result_structure import Entry

MOST_CALLS = 5000
"""The most calls of a recording that is kept for comparisons."""

MOST_KEPT = 2
"""How many recordings are kept, e.g. of two branches of the Python code."""

MOST_NUMBERS = 256
"""The most numbers that are inputs of a program."""

MOST_BYTES = 4096
"""The most bytes of a constant that is compared by its values."""

_BY_NUMBER = frozenset({
    *("add", "divide", "maximum", "minimum", "multiply", "subtract"),
    *("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"),
})  # fmt: skip
"""The operations whose number may be an array without axes."""

Place = tuple[int, int]
"""A number among the operands: the position of the call, and that of the operand."""


@dataclass
class _Known:
    """A recording, and the program whose inputs are some of its numbers."""

    graph: Graph
    """Without constants."""
    constants: Mapping[int, Callable[[], Any]]
    """Functions that return the constants; None if one is gone."""
    places: tuple[Place, ...] = ()
    building: Callable[[], Building | None] = lambda: None

    def differences(self, graph: Graph) -> set[Place] | None:
        """Return where another recording has other numbers; None if it differs otherwise."""
        mine = self.graph
        if len(mine.calls) != len(graph.calls) or _ends(mine) != _ends(graph):
            return None
        if [*self.constants] != [*graph.constants]:
            return None
        if not all(is_same(self.constants[n](), x) for n, x in graph.constants.items()):
            return None
        found: set[Place] = set()
        for position, (one, other) in enumerate(zip(mine.calls, graph.calls)):
            operands = _different_numbers(one, other)
            if operands is None:
                return None
            found.update((position, k) for k in operands)
        return found


class ChangingNumbers:
    """The recordings of a function that share a program."""

    def __init__(self) -> None:
        self._known: list[_Known] = []

    def entry(self, call: RecordedCall, guards: Guards, name: str, budget: int | None) -> Entry:
        """Return the entry of a recorded call, with the program of an earlier one if it fits."""
        made = call.entry(call.later, guards, name, budget)
        is_usual = budget is None and not call.made_from and call.later is call.graph
        if not is_usual or is_checking_numbers():
            return made
        graph = call.needed
        if len(graph.calls) > MOST_CALLS:
            return made
        for known in self._known:
            places = known.differences(graph)
            if places and len({*known.places, *places}) <= MOST_NUMBERS:
                return self._shared(known, places, call, guards, name)
        constants = _kept_constants(graph)
        if constants is not None:
            new = _Known(replace(graph, constants={}), constants)
            self._known = [new, *self._known[: MOST_KEPT - 1]]
        return made

    def _shared(
        self, known: _Known, places: set[Place], call: RecordedCall, guards: Guards, name: str
    ) -> Entry:
        graph = call.needed
        building = known.building()
        if building is None or not places <= {*known.places}:
            known.places = tuple(sorted({*known.places, *places}))
            building = Building(with_inputs(graph, known.places), call.variables, name)
            known.building = weakref.ref(building)
        numbers = [_array(graph.calls[position], k) for position, k in known.places]
        return call.entry_of(building, guards, numbers)


def _ends(graph: Graph) -> tuple[Any, ...]:
    return graph.inputs, graph.variables, graph.outputs, graph.written, graph.obstacle


def _kept_constants(graph: Graph) -> dict[int, Callable[[], Any]] | None:
    """Return functions that return the constants, without keeping large ones alive."""
    found: dict[int, Callable[[], Any]] = {}
    for number, array in graph.constants.items():
        # Arrays of a library that does not say their size may be large.
        if getattr(array, "nbytes", MOST_BYTES + 1) <= MOST_BYTES:
            found[number] = partial(_itself, array)
            continue
        try:
            found[number] = weakref.ref(array)
        except TypeError:  # its library has no weak references
            return None
    return found


def _itself(array: Any) -> Any:
    return array


def _different_numbers(one: Call, other: Call) -> list[int] | None:
    """Return the positions of operands that are other numbers; None if calls differ otherwise."""
    if one.primitive is not other.primitive or one.results != other.results:
        return None
    if one.array_type is not other.array_type or len(one.operands) != len(other.operands):
        return None
    if (one.aliases, one.region) != (other.aliases, other.region):
        return None
    if one.params.keys() != other.params.keys():
        return None
    if not all(is_same(x, other.params[name]) for name, x in one.params.items()):
        return None
    found = []
    for k, (x, y) in enumerate(zip(one.operands, other.operands)):
        if x is y or (type(x) is type(y) is Value and x == y):
            continue
        if type(x) is Value or type(y) is Value:
            return None
        if exact_key(x) == exact_key(y):
            continue
        if _dtype_of_number(one, k) is None or _dtype_of_number(other, k) is None:
            return None
        found.append(k)
    return found


def _dtype_of_number(call: Call, k: int) -> Any:
    """Return the dtype of the array that a number among the operands may be, None for none."""
    number = call.operands[k]
    if call.primitive.name not in _BY_NUMBER or len(call.reads) != 1 or len(call.operands) != 2:
        return None
    dtype = call.reads[0].dtype
    if dtype.kind != "f" or type(number) not in (int, float):
        return None
    # The same number as the kernel computes with.
    with np.errstate(over="ignore"):
        is_whole = type(number) is float or float(dtype.type(number)) == number
    return dtype if is_whole else None


def _array(call: Call, k: int) -> Any:
    """Return a number among the operands of a call as an array."""
    like = call.reads[0]
    with np.errstate(over="ignore", under="ignore"):
        host = np.asarray(call.operands[k], like.dtype)
    return backend_for(like.device).from_host(host, like.device)


def with_inputs(graph: Graph, places: Sequence[Place]) -> Graph:
    """Return a graph whose numbers at some places are further inputs."""
    values = [*graph.inputs, *graph.variables.values()]
    values += [value for call in graph.calls for value in (*call.reads, *call.results)]
    last = max([value.number for value in values] + [*graph.constants])
    calls, inputs = [*graph.calls], [*graph.inputs]
    for count, (position, k) in enumerate(places, 1):
        call = calls[position]
        like = next(x for x in call.operands if type(x) is Value)
        value = Value(last + count, (), like.dtype, like.device)
        operands = (*call.operands[:k], value, *call.operands[k + 1 :])
        calls[position] = call.with_values(operands)
        inputs.append(value)
    return replace(graph, calls=tuple(calls), inputs=tuple(inputs))
