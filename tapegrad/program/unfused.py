"""The unfused form of a program: the recorded calls, made one by one.

It needs no passes and no compiler, so it is ready at once, and it computes the bits of eager code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.program.emit.lowering import Run
from tapegrad.program.failed_replay import explained
from tapegrad.program.graph.graph import (
    Graph,
    Value,
    last_uses,
    without_dead_calls,
    without_unused_values,
)
from tapegrad.program.graph.number_flags import FlaggedGraph
from tapegrad.program.not_finite import CheckedRun, NotFinite
from tapegrad.program.replay import Reading, Replay

_Step = tuple[Callable[..., Any], list[int], dict[str, Any], list[int], bool, list[int]]
"""A kernel, the places of its operands, its params, those of its results, if many, and the dead."""


def pruned(graph: Graph) -> Graph:
    """Return the graph without dead calls, and without variables that nothing reads or writes.

    The variables are those of `tidied`, which takes four times as long.
    """
    return without_unused_values(without_dead_calls(graph))


class Unfused:
    """Runs the calls of a pruned graph; called like a `Program`."""

    def __init__(
        self,
        graph: Graph,
        variables: Mapping[int, Variable],
        checked: FlaggedGraph | None = None,
    ) -> None:
        self._graph = graph
        self._variables = [variables[number] for number in graph.variables]
        written = [variables[number] for number in graph.written]
        run: Any = interpreter(graph if checked is None else checked.graph)
        if checked is not None:
            run = CheckedRun(run, checked, variables)
        self._replay: Replay | Reading = (
            Replay(run, self._variables, written, len(written), False)
            if written
            else Reading(run, self._variables)
        )

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run on the arrays of the inputs, assign the variables and return the output arrays."""
        try:
            return tuple(self._replay(inputs))
        except Exception as error:
            arrays = [variable.array for variable in self._variables]
            if isinstance(error, NotFinite):
                raise error.located(inputs, self._variables) from None
            raise explained(error, self._graph, inputs, arrays) from None


def interpreter(graph: Graph) -> Run:
    """Return a function that makes the calls of a graph one by one.

    A long program is interpreted a few times before its compiled form is ready. Generating its
    source and compiling that would take longer.
    """
    places: dict[int, int] = {}
    start: list[Any] = []

    def place_of(operand: Any) -> int:
        if not isinstance(operand, Value):
            start.append(operand)
            return len(start) - 1
        place = places.get(operand.number)
        if place is None:
            place = places[operand.number] = len(start)
            start.append(graph.constants.get(operand.number))
        return place

    given = [place_of(value) for value in (*graph.inputs, *graph.variables.values())]
    kept = {value.number for value in graph.results} | set(graph.constants)
    steps: list[_Step] = [
        (
            call.primitive.kernel(call.array_type),
            [place_of(operand) for operand in call.operands],
            call.params,
            [place_of(value) for value in call.results],
            call.primitive.many,
            [places[number] for number in dead if number in places],
        )
        for call, dead in zip(graph.calls, last_uses(graph.calls, kept))
    ]
    outputs = [place_of(value) for value in graph.outputs]
    written = [place_of(value) for value in graph.written.values()]
    return _runner(start, given, steps, outputs, written)


def _runner(
    start: list[Any],
    given: list[int],
    steps: list[_Step],
    outputs: list[int],
    written: list[int],
) -> Run:
    """Return a function that runs steps on a list of values, which begins as `start`."""

    def run(
        inputs: Sequence[Any], variables: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values = start.copy()
        for place, array in zip(given, (*inputs, *variables)):
            values[place] = array
        for kernel, operands, params, results, many, dead in steps:
            made = kernel(*[values[place] for place in operands], **params)
            for place, array in zip(results, made if many else (made,)):
                values[place] = array
            made = array = None  # or they would outlive the values
            for place in dead:
                values[place] = None
        return tuple([values[place] for place in outputs]), tuple(
            [values[place] for place in written]
        )

    return run
