"""Programs as text: one line per step, with fused calls and overwritten buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tapegrad.core.trace.loop import LoopOutput
from tapegrad.program.emit.lowering import Step
from tapegrad.program.emit.sequences import Arranged
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.graph import Call, Graph, Shape, Value

_COMBINED = {"add": "sum", "multiply": "product", "maximum": "maximum", "minimum": "minimum"}


@dataclass(frozen=True)
class Described:
    """The parts of a program that its text, costs and drawing describe."""

    graph: Graph
    steps: Sequence[Step]
    summary: str
    names: Sequence[str]
    """The names of the variables in order, "" for unnamed ones."""
    over: Collection[int] = ()
    """The positions of calls that overwrite their first operand."""
    order: Arranged | None = None
    """The order of execution, with sequences; None if the steps run one by one."""

    @property
    def places(self) -> dict[int, int]:
        """The positions of variables, counted from 1, by the numbers of their first values."""
        values = self.graph.variables.values()
        return {value.number: place for place, value in enumerate(values, 1)}


def program_text(program: Described) -> str:
    """Return the text of a program: inputs, variables, one line per step, and results."""
    graph, places = program.graph, program.places
    lines = [program.summary, f"inputs: {_listed(graph.inputs)}"]
    for value, name in zip(graph.variables.values(), program.names, strict=True):
        lines.append(f"variable {places[value.number]}: {value}{f' {name!r}' if name else ''}")
    lines += [f"constant: {value}" for value in _constants(program)]
    for step in program.steps:
        lines += [f"  {line}" for line in step_lines(step, places)]
    for number, new in graph.written.items():
        lines.append(f"variable {places[graph.variables[number].number]} becomes %{new.number}")
    lines.append(f"outputs: {_listed(graph.outputs)}")
    return "\n".join(lines)


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values)) or "none"


def _constants(program: Described) -> list[Value]:
    read = {value.number: value for step in program.steps for value in step.reads}
    read.update({value.number: value for value in program.graph.results})
    return [read[number] for number in sorted(program.graph.constants) if number in read]


def step_lines(step: Step, variables: Mapping[int, int]) -> list[str]:
    """Return one line for a step, and one more for each horizontally fused loop."""
    if isinstance(step, Call):
        return [str(step)]
    places = {
        value.number: variables[target.number]
        for value, target in zip(step.results, step.targets)
        if target is not None and target.number in variables
    }
    fused = step.made_of
    if isinstance(fused, Fused):
        words = f"{loop_words(fused)}{_given(fused)}{_ends(fused, places)}"
        return [f"{_listed(fused.results)} = {words}"]
    lines = [horizontal_words(fused)]
    for loop in fused.steps:
        over = f"over {space_words(loop.loop.shape)}"
        lines.append(f"  {_listed(loop.results)} = {over}{_given(loop)}{_ends(loop, places)}")
    return lines


def loop_words(fused: Fused) -> str:
    """Describe the iteration space and the calls of a loop.

    See `combined_words` for its reductions.
    """
    return f"loop over {space_words(fused.loop.shape)} of ({call_names(fused.calls)})"


def horizontal_words(joined: HorizontallyFused) -> str:
    """Describe horizontally fused loops: their number, and the calls of each."""
    return f"joined {len(joined.steps)} loops of ({call_names(joined.steps[0].calls)})"


def counted_as(number: int, word: str) -> str:
    """Return a number with a noun in the singular or plural.

    >>> counted_as(1, "step"), counted_as(3, "step")
    ('1 step', '3 steps')
    """
    return f"{number} {word}{'' if number == 1 else 's'}"


def space_words(shape: Shape) -> str:
    """Format the iteration space of a loop."""
    return str(list(shape)) if shape else "one element"


def call_names(calls: Sequence[Call], most: int = 12) -> str:
    """Return the names of calls, each once with its count, at most `most` of them."""
    counts = Counter(call.primitive.name for call in calls)
    names = [f"{name} x{count}" if count > 1 else name for name, count in counts.items()]
    rest = len(names) - most
    return ", ".join(names if rest < 2 else [*names[:most], f"{rest} more"])


def combined_words(output: LoopOutput) -> str:
    """Describe the reduction of an output, "" if there is none."""
    if output.combine is None:
        return ""
    # A mean is a sum with a final division.
    word = "mean" if output.finish is not None else _COMBINED[output.combine]
    several = "axes" if len(output.axes) > 1 else "axis"
    return f"{word} along {several} {', '.join(map(str, output.axes))}"


def _given(fused: Fused) -> str:
    """The inputs of a loop, with shapes that differ from its space."""
    arguments = [
        f"%{value.number}" + ("" if read.seen == fused.loop.shape else str(list(value.shape)))
        for value, read in zip(fused.reads, fused.loop.inputs)
    ]
    # A product with short sums reads its operands at several positions.
    return f"({', '.join(dict.fromkeys(arguments))})"


def _ends(fused: Fused, places: Mapping[int, int]) -> str:
    """Describe the reductions of a loop and the variables that it overwrites."""
    found = [
        f"; %{value.number} is the {combined_words(output)}"
        for value, output in zip(fused.results, fused.loop.outputs)
        if output.combine
    ]
    if fused.loop.stages:
        words = ", ".join(combined_words(stage) for stage in fused.loop.stages)
        found.append(f"; after passes for the {words}")
    over = [value.number for value in fused.results if value.number in places]
    if over:
        numbers = ", ".join(f"%{number}" for number in over)
        several = "s" if len(over) > 1 else ""
        variables = ", ".join(str(places[number]) for number in over)
        found.append(f"; {numbers} written over variable{several} {variables}")
    return "".join(found)
