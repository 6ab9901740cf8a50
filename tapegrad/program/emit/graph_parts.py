"""Partition a program into CUDA graphs and the steps between them that cannot be captured.

Uncaptured steps are scheduled as early as possible. Most of the program is then in the last part,
which is the only one that writes variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tapegrad.core.backend.optional_parts import GraphRun
from tapegrad.program.emit.lowering import Run, position_at, to_python
from tapegrad.program.graph.dependence import in_order
from tapegrad.program.graph.graph import Call, Graph, Value

MAX_UNCAPTURED = 8
"""The most uncaptured steps; a program with more of them is not captured at all."""

Capture = Callable[[Run, Sequence[int], Sequence[int]], Any]


def is_uncaptured(step: Any, names: frozenset[str]) -> bool:
    """Whether a step cannot be captured: it acts on the host, or its primitive is in `names`."""
    if not isinstance(step, Call):
        return False
    return (step.effects and step.primitive.needs_host) or step.primitive.name in names


def uncaptured_first(steps: Sequence[Any], names: frozenset[str]) -> list[Any]:
    """Return the steps with uncaptured ones as early as their dependences allow.

    The same holds for calls that other steps need not wait for.
    """
    first = [
        place
        for place, step in enumerate(steps)
        if is_uncaptured(step, names) or (isinstance(step, Call) and step.primitive.parts)
    ]
    return list(in_order(steps, first) if first else steps)


def part_numbers(steps: Sequence[Any], names: frozenset[str]) -> list[int]:
    """Return the part number of each step."""
    found, number = [], 0
    for step, before in zip(steps, [None, *steps]):
        uncaptured = is_uncaptured(step, names)
        if before is not None and (uncaptured or is_uncaptured(before, names)):
            number += 1
        found.append(number)
    return found


@dataclass(frozen=True)
class Part:
    """Steps that run together, their graph, and the position of the first one."""

    graph: Graph
    steps: tuple[Any, ...]
    first: int
    uncaptured: bool


def partition(graph: Graph, steps: Sequence[Any], names: frozenset[str]) -> list[Part]:
    """Partition a program; the last part holds no uncaptured step, and may be empty."""
    ranges = list(_ranges(steps, names))
    if not ranges or is_uncaptured(steps[ranges[-1].start], names):
        ranges.append(range(len(steps), len(steps)))
    olds = {value.number for value in graph.variables.values()}
    later = {value.number: value for value in graph.results}
    parts: list[Part] = []
    for k, places in enumerate(reversed(ranges)):
        chosen = tuple(steps[place] for place in places)
        made = {value.number: value for step in chosen for value in step.results}
        wanted = [value for step in chosen for value in step.reads]
        wanted += graph.results if k == 0 else ()
        outside = {
            value.number: value
            for value in wanted
            if value.number not in made and value.number not in graph.constants
        }
        if k == 0:
            inputs = tuple(value for number, value in outside.items() if number not in olds)
            own = replace(graph, inputs=inputs, calls=())
        else:
            gives = tuple(value for number, value in made.items() if number in later)
            own = Graph(tuple(outside.values()), {}, graph.constants, (), gives)
        uncaptured = bool(chosen) and is_uncaptured(chosen[0], names)
        parts.append(Part(own, chosen, places.start, uncaptured))
        later.update(outside)
    return parts[::-1]


def _ranges(steps: Sequence[Any], names: frozenset[str]) -> Iterator[range]:
    for _, places in groupby(range(len(steps)), part_numbers(steps, names).__getitem__):
        found = list(places)
        yield range(found[0], found[-1] + 1)


class PartitionedRun:
    """Runs a program part by part; parts without uncaptured steps are captured."""

    refused_at: int | None = None

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[Part],
        capture: Capture,
        last: tuple[Sequence[int], Sequence[int]],
        kernels: Mapping[int, Callable[..., Any]],
    ) -> None:
        """Capture the parts; `last` are the variables that the last part writes."""
        self._places = {v.number: place for place, v in enumerate(graph.variables.values())}
        self._inputs = [value.number for value in graph.inputs]
        self._parts = list(parts)
        self.runs: list[Any] = []
        for part in parts:
            end = part.first + len(part.steps)
            over = {p - part.first: kernels[p] for p in kernels if part.first <= p < end}
            run = to_python(part.graph, part.steps, over)
            written = last if part is parts[-1] else ([], [])
            plain = part.uncaptured or not (part.steps or part.graph.written)
            self.runs.append(run if plain else capture(run, *written))
        self._graphs = [run for run in self.runs if isinstance(run, GraphRun)]
        self._dead = _dead_after(parts)

    @property
    def uncaptured(self) -> list[str]:
        """Names of the primitives that run between CUDA graphs."""
        names = [part.steps[0].primitive.name for part in self._parts if part.uncaptured]
        return list(dict.fromkeys(names))

    @property
    def refused(self) -> Any:
        """The step that a capture has refused, or None."""
        for part, run in zip(self._parts, self.runs):
            step = None if part.uncaptured else refused_step(run, part.graph, part.steps)
            if step is not None:
                return step
        return None

    @property
    def reason(self) -> str:
        """Why a part is not captured, "" if all are."""
        return next((run.reason for run in self._graphs if run.reason), "")

    def __call__(self, inputs: Sequence[Any], variables: list[Any]) -> Any:
        values = dict(zip(self._inputs, inputs))
        places = self._places
        for part, run, dead in zip(self._parts[:-1], self.runs, self._dead):
            given = [
                values[value.number] if value.number in values else variables[places[value.number]]
                for value in part.graph.inputs
            ]
            outputs, _ = run(given, [])
            values.update(zip([value.number for value in part.graph.outputs], outputs))
            del given, outputs  # buffers that are still referenced could not be reused
            for number in dead:
                values.pop(number, None)
        given = [values[value.number] for value in self._parts[-1].graph.inputs]
        values.clear()
        return self.runs[-1](given, variables)


def _dead_after(parts: Sequence[Part]) -> list[list[int]]:
    """For each part, the values that no later part reads."""
    needed: set[int] = set()
    found: list[list[int]] = []
    for part in reversed(parts):
        numbers: list[Value] = [*part.graph.inputs, *part.graph.outputs]
        found.append([value.number for value in numbers if value.number not in needed])
        needed.update(value.number for value in part.graph.inputs)
    return found[::-1]


def refused_step(run: Any, graph: Graph, steps: Sequence[Any]) -> Any:
    """Return the step that a capture has refused; None if there is none or it is unknown."""
    if not isinstance(run, GraphRun) or run.refused_at is None:
        return None
    line = run.refused_at
    place = position_at(graph, steps, line)
    step = None if place is None else steps[place]
    return step if isinstance(step, Call) else None
