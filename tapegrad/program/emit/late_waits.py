"""Compute while arrays travel: start collective calls early, wait for their results late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from tapegrad.program.emit.buffer_reuse import dying_operands
from tapegrad.program.graph.graph import Call, Graph

MOST = 2
"""The most calls that go on at once, because each of them needs its operand and its result."""


def with_late_waits(
    graph: Graph, steps: Sequence[Any], constants: Iterable[int], uncaptured: Collection[str]
) -> list[Any]:
    """Return the steps with collective calls in two parts: one starts them, one waits.

    The second comes before the first reader of the result, before the start of the next but one,
    and before steps that end a CUDA graph, because a graph contains both parts. Primitives in
    `uncaptured` stay whole. `constants` are the numbers of constants that the graph does not have.

    A wait reads the operand of the call, so that nothing overwrites it meanwhile. If the call is
    the last reader of an intermediate, the wait does not, and the result may be written over it.
    """
    if not any(_is_split(step, uncaptured) for step in steps):
        return [*steps]
    dying = dying_operands(graph, steps)
    given = [value.number for value in (*graph.inputs, *graph.variables.values())]
    made = [value.number for step in steps for value in step.results]
    numbers = count(max((*graph.constants, *constants, *given, *made)) + 1)
    found: list[Any] = []
    waiting: dict[int, Call] = {}
    for place, step in enumerate(steps):
        if waiting:
            ends = isinstance(step, Call) and (
                (step.effects and step.primitive.needs_host) or step.primitive.name in uncaptured
            )
            due = [*waiting] if ends else [v.number for v in step.reads if v.number in waiting]
            found += [waiting.pop(number) for number in dict.fromkeys(due)]
        if not _is_split(step, uncaptured):
            found.append(step)
            continue
        if len(waiting) == MOST:
            found.append(waiting.pop(next(iter(waiting))))
        start, wait = step.primitive.parts
        (result,) = step.results
        begun = replace(result, number=next(numbers))
        found.append(replace(step, primitive=start, results=(begun,)))
        is_free = start.overwriting is not None and place in dying
        waiting[result.number] = replace(
            step,
            primitive=wait,
            operands=(begun,) if is_free else (begun, *step.reads),
            results=(result,),
            aliases=True,
        )
    return [*found, *waiting.values()]


def _is_split(step: Any, uncaptured: Collection[str]) -> bool:
    return (
        isinstance(step, Call)
        and step.primitive.parts is not None
        and step.primitive.name not in uncaptured
        and len(step.reads) == 1
    )
