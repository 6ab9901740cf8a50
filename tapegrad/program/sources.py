"""The source that programs run, as text: Python for the steps, and what targets made of loops."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.c_source import statements
from tapegrad.core.expression import UntraceableError
from tapegrad.core.loop import Loop
from tapegrad.program.describing import combined_words, joined_words, loop_words
from tapegrad.program.fusion import Fused
from tapegrad.program.graph import Graph
from tapegrad.program.joining import Joined
from tapegrad.program.lowering import CompiledLoop, Step, python_text


def source_of(graph: Graph, steps: Sequence[Step]) -> str:
    """Return the Python code of the steps, then each loop's text with what it fuses."""
    text, _ = python_text(graph, steps)
    loops: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, CompiledLoop):
            fused = step.made_of
            words = joined_words(fused) if isinstance(fused, Joined) else loop_words(fused)
            loops.setdefault(loop_text(step), []).append(f"// k{place}: {words}")
    parts = [text, *("\n".join([*heads, body.strip()]) for body, heads in loops.items())]
    return "\n\n".join(parts) + "\n"


def loop_text(step: CompiledLoop) -> str:
    """What a target made of a loop; its formulas if the target does not tell."""
    source = getattr(step.run, "source", None)
    if isinstance(source, str):
        return source
    fused = step.made_of
    first = fused if isinstance(fused, Fused) else fused.steps[0]
    return formulas_text(first.loop)


def formulas_text(loop: Loop) -> str:
    """The formulas of a loop, one statement per operation; a0, a1, ... are what it reads."""
    formulas = [output.expression for output in loop.outputs]
    names = [f"a{place}" for place in range(len(loop.inputs))]
    try:
        lines, results = statements(formulas, names)
    except UntraceableError:  # a target knows more than C
        lines, results = [], [repr(formula) for formula in formulas]
    for place, (result, output) in enumerate(zip(results, loop.outputs)):
        words = combined_words(output)
        lines.append(f"r{place} = {result};{f'  // then the {words}' if words else ''}")
    return "\n".join(lines)
