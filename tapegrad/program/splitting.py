"""Programs in parts: what a CUDA graph cannot hold runs by itself, between graphs.

Such a step comes as early as it can. So most of a program lies behind it, in the last part, which
alone writes to variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tapegrad.program.dependence import in_order
from tapegrad.program.graph import Call, Graph, Value
from tapegrad.program.lowering import Run, position_at, to_python

MOST_APART = 8
"""Steps between graphs; with more of them a program is run as a whole, launch by launch."""

Capture = Callable[[Run, Sequence[int], Sequence[int]], Any]


def is_apart(step: Any, names: frozenset[str]) -> bool:
    """Whether a step needs the host, by what it is or because its primitive is one of `names`."""
    return isinstance(step, Call) and (step.effects or step.primitive.name in names)


def early(steps: Sequence[Any], names: frozenset[str]) -> list[Any]:
    """Return the steps with those that stand apart as early as what they need allows."""
    apart = [place for place, step in enumerate(steps) if is_apart(step, names)]
    return list(in_order(steps, apart) if apart else steps)


def numbered(steps: Sequence[Any], names: frozenset[str]) -> list[int]:
    """The number of the part in which each step lies."""
    found, number = [], 0
    for step, before in zip(steps, [None, *steps]):
        apart = is_apart(step, names)
        if before is not None and (apart or is_apart(before, names)):
            number += 1
        found.append(number)
    return found


@dataclass(frozen=True)
class Part:
    """Steps that run together, as a graph of their own; the first one's position in the program."""

    graph: Graph
    steps: tuple[Any, ...]
    first: int
    apart: bool


def parts_of(graph: Graph, steps: Sequence[Any], names: frozenset[str]) -> list[Part]:
    """Split a program; the last part is no step that stands apart, and may have no steps at all."""
    ranges = list(_ranges(steps, names))
    if not ranges or is_apart(steps[ranges[-1].start], names):
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
        apart = bool(chosen) and is_apart(chosen[0], names)
        parts.append(Part(own, chosen, places.start, apart))
        later.update(outside)
    return parts[::-1]


def _ranges(steps: Sequence[Any], names: frozenset[str]) -> Iterator[range]:
    for _, places in groupby(range(len(steps)), numbered(steps, names).__getitem__):
        found = list(places)
        yield range(found[0], found[-1] + 1)


class InParts:
    """The run of a program in parts, each captured that can be."""

    def __init__(
        self,
        graph: Graph,
        parts: Sequence[Part],
        capture: Capture,
        last: tuple[Sequence[int], Sequence[int]],
        kernels: Mapping[int, Callable[..., Any]],
    ) -> None:
        """Capture parts; `last` is what the last one writes, as of `capture`."""
        self._places = {v.number: place for place, v in enumerate(graph.variables.values())}
        self._inputs = [value.number for value in graph.inputs]
        self._parts = list(parts)
        self.runs: list[Any] = []
        for part in parts:
            end = part.first + len(part.steps)
            over = {p - part.first: kernels[p] for p in kernels if part.first <= p < end}
            run = to_python(part.graph, part.steps, over)
            written = last if part is parts[-1] else ([], [])
            plain = part.apart or not (part.steps or part.graph.written)
            self.runs.append(run if plain else capture(run, *written))
        self._dead = _dead_after(parts)

    @property
    def apart(self) -> list[str]:
        """Names of the primitives between graphs."""
        names = [part.steps[0].primitive.name for part in self._parts if part.apart]
        return list(dict.fromkeys(names))

    @property
    def refused(self) -> Any:
        """The step that could not be captured in one of the parts, if there is one."""
        for part, run in zip(self._parts, self.runs):
            step = None if part.apart else refused_step(run, part.graph, part.steps)
            if step is not None:
                return step
        return None

    @property
    def reason(self) -> str | None:
        """Why one of the parts runs launch by launch; "" if none does, None without graphs."""
        reasons = [run.reason for run in self.runs if hasattr(run, "reason")]
        return next((reason for reason in reasons if reason), "") if reasons else None

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
            del given, outputs  # what is still held could not be handed out at the next call
            for number in dead:
                values.pop(number, None)
        given = [values[value.number] for value in self._parts[-1].graph.inputs]
        values.clear()
        return self.runs[-1](given, variables)


def _dead_after(parts: Sequence[Part]) -> list[list[int]]:
    """For each part the values that no later one needs."""
    needed: set[int] = set()
    found: list[list[int]] = []
    for part in reversed(parts):
        numbers: list[Value] = [*part.graph.inputs, *part.graph.outputs]
        found.append([value.number for value in numbers if value.number not in needed])
        needed.update(value.number for value in part.graph.inputs)
    return found[::-1]


def refused_step(run: Any, graph: Graph, steps: Sequence[Any]) -> Any:
    """The step at which a capture was refused; None if there is none, or nobody knows which."""
    line = getattr(run, "refused_at", None)
    if line is None:
        return None
    place = position_at(graph, steps, line)
    step = None if place is None else steps[place]
    return step if isinstance(step, Call) else None
