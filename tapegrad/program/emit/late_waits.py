"""Compute while sums over all processes travel: start them early, wait for their results late."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from tapegrad.program.graph.graph import Call

MOST = 2
"""The most calls that go on at once, because each of them needs its operand and its result."""


def with_late_waits(
    steps: Sequence[Any], known: Iterable[int], uncaptured: Collection[str]
) -> list[Any]:
    """Return the steps with collective calls in two parts: one starts them, one waits.

    The second comes before the first reader of the result, before the start of the next but one,
    and before steps that end a CUDA graph, because a graph contains both parts. Primitives in
    `uncaptured` stay whole. `known` are numbers of values that steps do not make.
    """
    if not any(_is_split(step, uncaptured) for step in steps):
        return [*steps]
    made = [value.number for step in steps for value in step.results]
    numbers = count(max((*known, *made)) + 1)
    found: list[Any] = []
    waiting: dict[int, Call] = {}
    for step in steps:
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
        (given,) = step.reads
        begun = replace(result, number=next(numbers))
        found.append(replace(step, primitive=start, results=(begun,)))
        waiting[result.number] = replace(
            step, primitive=wait, operands=(begun, given), results=(result,), aliases=True
        )
    return [*found, *waiting.values()]


def _is_split(step: Any, uncaptured: Collection[str]) -> bool:
    return (
        isinstance(step, Call)
        and step.primitive.parts is not None
        and step.primitive.name not in uncaptured
        and len(step.reads) == 1
    )


def is_wait(step: Any) -> bool:
    """Return whether a step waits for a result that another one has started."""
    primitive = getattr(step, "primitive", None)
    return primitive is not None and primitive.name == "wait"
