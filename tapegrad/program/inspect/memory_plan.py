"""The memory of a program: inputs, intermediate values and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tapegrad.core.arena import Request, plan
from tapegrad.core.out_of_memory import readable
from tapegrad.program.emit.lowering import Step
from tapegrad.program.emit.sequences import Arranged, NativeSequence
from tapegrad.program.graph.graph import Call, InnerProgram, Value
from tapegrad.program.inspect.costs import kernel_of, table
from tapegrad.program.inspect.text import Described, counted_as

_MOST_LISTED = 8


@dataclass(frozen=True)
class Held:
    """An intermediate value, and the first and the last step of its lifetime."""

    value: Value
    first: int
    last: int
    offset: int
    """Its offset in the block."""


@dataclass(frozen=True)
class MemoryPlan:
    """The bytes of all values of a program; `str` is a table.

    Intermediate values share one block, in which values with disjoint lifetimes may overlap. `live`
    are the live bytes in each step.
    """

    inputs: int
    variables: int
    constants: int
    outputs: int
    """The bytes of the outputs that the program makes."""
    new_values: int
    """The bytes of new values of variables that do not overwrite the old ones."""
    held: tuple[Held, ...]
    live: tuple[int, ...]
    block: int
    busiest: str
    """A description of the step at the peak."""
    run_peak: int = 0
    """The predicted peak of one run: all that it takes beside inputs, variables and constants.

    Steps that run as a sequence keep a block of memory between calls, and so do large results of
    loops, which the caller is assumed to drop before the next call. The arrays of other values live
    from the step that makes them to the last one that reads them. What kernels of NumPy and BLAS
    take for themselves is not in it.
    """

    @property
    def peak(self) -> int:
        """The peak of live bytes of intermediate values."""
        return max(self.live, default=0)

    @property
    def total(self) -> int:
        """The total, with the block of intermediate values."""
        given = self.inputs + self.variables + self.constants
        return given + self.outputs + self.new_values + self.block

    def __str__(self) -> str:
        unshared = sum(held.value.nbytes for held in self.held)
        shared = f"{counted_as(len(self.held), 'value')}, {readable(unshared)} without sharing"
        rows = [
            ("inputs", self.inputs, ""),
            ("variables", self.variables, ""),
            ("constants", self.constants, ""),
            ("new values", self.new_values, "of variables, in new memory"),
            ("intermediate", self.block, shared),
            ("outputs", self.outputs, ""),
            ("total", self.total, ""),
        ]
        shown = [(name, readable(size), words) for name, size, words in rows if size]
        lines = [line.rstrip() for line in table(shown).split("\n")]
        return "\n".join([*lines, "", *self._at_the_peak()] if self.peak else lines)

    def _at_the_peak(self) -> list[str]:
        step = self.live.index(self.peak)
        there = [held for held in self.held if held.first <= step <= held.last]
        there.sort(key=lambda held: -held.value.nbytes)
        lines = [f"peak at step {step + 1}, {self.busiest}: {readable(self.peak)}"]
        for held in there[:_MOST_LISTED]:
            steps = f"steps {held.first + 1} to {held.last + 1}"
            lines.append(f"  {held.value}, {readable(held.value.nbytes)}, {steps}")
        if len(there) > _MOST_LISTED:
            lines.append(f"  and {counted_as(len(there) - _MOST_LISTED, 'smaller one')}")
        return lines


def memory_of(program: Described) -> MemoryPlan:
    """Plan the memory of a program."""
    graph, steps = program.graph, program.steps
    homes = _homes(program)
    made, last = dict[int, tuple[Value, int]](), dict[int, int]()
    for place, step in enumerate(steps):
        for value in (*step.reads, *step.results):
            last[homes.get(value.number, value.number)] = place
        for value in step.results:
            if value.number not in homes:
                made[value.number] = (value, place)
    outputs = {homes.get(value.number, value.number) for value in graph.outputs}
    new = {homes.get(value.number, value.number) for value in graph.written.values()} - outputs
    inner = [(v, first) for n, (v, first) in made.items() if n not in outputs | new]
    requests = [Request(value.nbytes, first, last[value.number]) for value, first in inner]
    planned = plan(requests)
    live = [
        sum([r.size for r in requests if r.first <= place <= r.last]) + _inside(step)
        for place, step in enumerate(steps)
    ]
    busiest = max(range(len(steps)), key=live.__getitem__, default=None)
    return MemoryPlan(
        _bytes(graph.inputs),
        _bytes(graph.variables.values()),
        sum(int(getattr(array, "nbytes", 0)) for array in graph.constants.values()),
        _bytes(made[number][0] for number in outputs if number in made),
        _bytes(made[number][0] for number in new if number in made),
        tuple(
            Held(value, request.first, request.last, offset)
            for (value, _), request, offset in zip(inner, requests, planned.offsets)
        ),
        tuple(live),
        planned.size,
        "" if busiest is None else kernel_of(steps[busiest]).what,
        _run_peak(program, homes),
    )


def _run_peak(program: Described, homes: dict[int, int]) -> int:
    """Return the most bytes that one run takes at a time, with the blocks of all sequences."""
    steps, graph = program.steps, program.graph
    order: Arranged = [*range(len(steps))] if program.order is None else program.order
    given = {value.number for value in (*graph.inputs, *graph.variables.values())}
    given |= set(graph.constants)
    kept = {homes.get(value.number, value.number) for value in graph.results}
    made: dict[int, tuple[int, int]] = {}
    last: dict[int, int] = {}
    for place, item in enumerate(order):
        step = steps[item] if isinstance(item, int) else item
        reused = _reused(step)
        for value in (*step.reads, *step.results):
            home = homes.get(value.number, value.number)
            last[home] = len(order) if home in kept else place
        for value in step.results:
            if homes.get(value.number, value.number) == value.number and value.number not in given:
                made[value.number] = (value.nbytes, 0 if value.number in reused else place)
    blocks = sum(item.memory for item in order if isinstance(item, NativeSequence))
    live = [
        sum([size for n, (size, first) in made.items() if first <= place <= last[n]])
        + (_inside(steps[item]) if isinstance(item, int) else 0)
        for place, item in enumerate(order)
    ]
    return blocks + max(live, default=0)


def _reused(step: Step | NativeSequence) -> set[int]:
    """Return the results whose arrays are kept for the next call, so that they are always there."""
    sources = () if isinstance(step, Call) else step.sources
    return {value.number for value, source in zip(step.results, sources) if source is not None}


def _inside(step: Step) -> int:
    """The bytes of intermediate values inside a step, such as those of one round of a loop."""
    params = step.params.values() if isinstance(step, Call) else ()
    return max([value.peak for value in params if isinstance(value, InnerProgram)], default=0)


def _homes(program: Described) -> dict[int, int]:
    """Map the numbers of values to those of the values whose memory they share."""
    homes: dict[int, int] = {}
    for place, step in enumerate(program.steps):
        if isinstance(step, Call):
            if step.aliases and step.reads:
                home = step.reads[0].number
                homes.update({value.number: homes.get(home, home) for value in step.results})
            elif place in program.over:
                homes.update(_overwritten(step, homes))
        else:
            for value, target in zip(step.results, step.targets):
                if target is not None:
                    homes[value.number] = homes.get(target.number, target.number)
    return homes


def _overwritten(call: Call, homes: dict[int, int]) -> dict[int, int]:
    """The homes of the results of a kernel that overwrites operands: the first like each one."""
    found: dict[int, int] = {}
    for k in call.primitive.overwritten:
        old = call.operands[k]
        like = [
            value.number
            for value in call.results
            if (value.shape, value.dtype) == (old.shape, old.dtype) and value.number not in found
        ]
        found.update({number: homes.get(old.number, old.number) for number in like[:1]})
    return found


def _bytes(values: Iterable[Value]) -> int:
    return sum({value.number: value.nbytes for value in values}.values())
