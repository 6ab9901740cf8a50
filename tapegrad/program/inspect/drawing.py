"""Drawings of programs: boxes for steps, arrows for values from maker to reader.

`dot_of` writes them for Graphviz; svg.py draws them without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tapegrad.core.out_of_memory import readable
from tapegrad.program.emit.lowering import Step
from tapegrad.program.fusion.fusion import is_constant
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused
from tapegrad.program.graph.graph import Call, Value
from tapegrad.program.inspect.costs import is_product, kernel_of, thousands
from tapegrad.program.inspect.text import Described, call_names, step_lines


@dataclass
class Node:
    """A box: a step, an input or an output."""

    name: str
    kind: str
    lines: list[str]
    tooltip: str


@dataclass
class Drawing:
    """Boxes, numbered in order, and the values on the arrows between them."""

    nodes: list[Node] = field(default_factory=list)
    arrows: dict[tuple[int, int], list[Value]] = field(default_factory=dict)

    def add(self, node: Node, reads: Sequence[Value], makers: dict[int, int]) -> int:
        """Add a node that reads values; `makers` are the nodes that made them."""
        self.nodes.append(node)
        number = len(self.nodes) - 1
        for value in {value.number: value for value in reads}.values():
            if value.number in makers:
                self.arrows.setdefault((makers[value.number], number), []).append(value)
        return number


def drawing_of(program: Described) -> Drawing:
    """Return the boxes and arrows of a program; boxes name the variables."""
    drawing, makers = Drawing(), dict[int, int]()
    for place, value in enumerate(program.graph.inputs):
        node = Node(f"input{place}", "end", [f"input {_described(value)}"], f"input {value}")
        makers[value.number] = drawing.add(node, (), makers)
    for place, step in enumerate(program.steps):
        number = drawing.add(_node(step, place, program), _needed(step), makers)
        makers.update({value.number: number for value in step.results})
    for place, value in enumerate(program.graph.outputs):
        node = Node(f"output{place}", "end", [f"output {_described(value)}"], f"output {value}")
        drawing.add(node, (value,), makers)
    return drawing


def _node(step: Step, place: int, program: Described) -> Node:
    kernel = kernel_of(step)
    title, kind = kernel.name, "product" if is_product(kernel.name) else "other"
    tooltip = step_lines(step, program.places)
    if isinstance(step, Call) and step.aliases:
        line = f"{title} {_described(step.results[0])}"
        return Node(f"step{place}", "view", [line], "\n".join(tooltip))
    if not isinstance(step, Call):
        fused, kind = step.made_of, "loop"
        parts = fused.steps if isinstance(fused, HorizontallyFused) else (fused,)
        title = call_names(parts[0].calls, most=3)
        title = f"{len(parts)} x {title}" if len(parts) > 1 else title
        tooltip += ["", "fuses", *[f"  {call}" for call in fused.calls]]
    moved = f"{readable(kernel.bytes_read)} read, {readable(kernel.bytes_written)} written"
    tooltip += ["", moved, f"{kernel.flops:,} FLOPs"]
    cost = _cost(kernel.bytes_read + kernel.bytes_written, kernel.flops)
    lines = [title, _made(step.results), cost]
    lines += _variable_lines(step, program)
    return Node(f"step{place}", kind, lines, "\n".join(tooltip))


def _variable_lines(step: Step, program: Described) -> list[str]:
    graph, places = program.graph, program.places
    olds = {new.number: graph.variables[number].number for number, new in graph.written.items()}
    made = {places[olds[value.number]] for value in step.results if value.number in olds}
    read = {places[value.number] for value in _needed(step) if value.number in places}
    return [
        f"{verb} variable{'s' if len(numbers) > 1 else ''} {_ranges(sorted(numbers))}"
        for verb, numbers in (("reads", read - made), ("changes", made))
        if numbers
    ]


def _needed(step: Step) -> Sequence[Value]:
    return () if isinstance(step, Call) and is_constant(step) else step.reads


def _described(value: Value) -> str:
    return f"{value.dtype.name}{list(value.shape)}"


def _made(results: Sequence[Value]) -> str:
    if not results:
        return "no result"
    more = f" +{len(results) - 1}" if len(results) > 1 else ""
    return f"{_described(results[0])}{more}"


def _cost(moved: int, flops: int) -> str:
    work = f"{thousands(flops)}{'' if flops >= 1000 else ' '}FLOP, " if flops else ""
    return f"{work}{readable(moved)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Format sorted numbers, three or more consecutive ones as a range.

    >>> _ranges([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9, 10'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    texts = [
        f"{part[0]}-{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    ]
    return ", ".join(texts)


# Graphviz


def dot_of(program: Described) -> str:
    """Return the drawing in Graphviz's DOT language."""
    drawing = drawing_of(program)
    lines = ["digraph program {", "  node [shape=box];"]
    for node in drawing.nodes:
        label = "\\n".join(_quoted(line) for line in node.lines)
        lines.append(f'  {node.name} [label="{label}"];')
    for (a, b), values in drawing.arrows.items():
        label = "\\n".join(map(str, values))
        lines.append(f'  {drawing.nodes[a].name} -> {drawing.nodes[b].name} [label="{label}"];')
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
