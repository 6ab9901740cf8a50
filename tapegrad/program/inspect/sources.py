"""The generated source of a program: Python for the steps, and the code of loops."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import UntraceableError
from tapegrad.core.trace.loop import Loop
from tapegrad.program.emit.lowering import CompiledLoop, Step, python_text
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.graph import Graph
from tapegrad.program.inspect.text import combined_words, horizontal_words, loop_words


def source_of(graph: Graph, steps: Sequence[Step]) -> str:
    """Return the Python code of the steps, then the source of each loop with its calls."""
    text, _ = python_text(graph, steps)
    loops: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, CompiledLoop):
            fused = step.made_of
            words = (
                horizontal_words(fused)
                if isinstance(fused, HorizontallyFused)
                else loop_words(fused)
            )
            loops.setdefault(loop_text(step), []).append(f"// k{place}: {words}")
    parts = [text, *("\n".join([*heads, body.strip()]) for body, heads in loops.items())]
    return "\n\n".join(parts) + "\n"


def loop_text(step: CompiledLoop) -> str:
    """Return the source of a loop, or its expressions if the backend keeps no source."""
    source = None if step.source is None else step.source(step.run)
    if source is not None:
        return source
    fused = step.made_of
    first = fused if isinstance(fused, Fused) else fused.steps[0]
    return formulas_text(first.loop)


def formulas_text(loop: Loop) -> str:
    """Return the expressions of a loop, one statement per operation.

    a0, a1, ... are inputs, s0, s1, ... stages and r0, r1, ... outputs.
    """
    outputs = (*loop.stages, *loop.outputs)
    formulas = [output.expression for output in outputs]
    stages = [f"s{place}" for place in range(len(loop.stages))]
    names = [*[f"a{place}" for place in range(len(loop.inputs))], *stages]
    try:
        lines, results = statements(formulas, names)
    except UntraceableError:  # a dtype without a C type
        lines, results = [], [repr(formula) for formula in formulas]
    targets = [*stages, *[f"r{place}" for place in range(len(loop.outputs))]]
    for target, result, output in zip(targets, results, outputs):
        words = combined_words(output)
        lines.append(f"{target} = {result};{f'  // then the {words}' if words else ''}")
    return "\n".join(lines)
