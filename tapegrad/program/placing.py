"""Which loops write the new value of a variable over its old one.

That is right where nothing reads the old value later, and each of its elements is read before the
new one is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.program.fusion import Fused
from tapegrad.program.graph import Call, Graph, Value
from tapegrad.program.joining import Joined

Step = Call | Fused | Joined


def written_in_place(graph: Graph, steps: Sequence[Step]) -> dict[int, Value]:
    """The values that variables had, by the number of the value that takes their place."""
    found: dict[int, Value] = {}
    if any(step.effects for step in steps if isinstance(step, Call)):
        return found  # an assertion may fail, and must leave variables as they were
    results = [value.number for value in graph.results]
    makers = {value.number: place for place, step in enumerate(steps) for value in step.results}
    for number, new in graph.written.items():
        old = graph.variables[number]
        place = makers.get(new.number)
        step = None if place is None else steps[place]
        if (
            step is None
            or isinstance(step, Call)
            or (old.shape, old.dtype) != (new.shape, new.dtype)
        ):
            continue
        alone = results.count(new.number) == 1 and old.number not in results
        last = not any(_reads(later, old) for later in steps[(place or 0) + 1 :])
        shown = any(isinstance(s, Call) and s.aliases and _reads(s, old) for s in steps)
        if alone and last and not shown and _element_by_element(step, old, new):
            found[new.number] = old
    return found


def _reads(step: Any, value: Value) -> bool:
    return any(read.number == value.number for read in step.reads)


def _element_by_element(step: Fused | Joined, old: Value, new: Value) -> bool:
    """Whether the loop that makes the new value reads the old one only at the same place."""
    for loop in step.steps if isinstance(step, Joined) else (step,):
        makes = {value.number for value in loop.results}
        for value, read in zip(loop.reads, loop.loop.inputs):
            if value.number == old.number:
                whole = read.seen == loop.loop.shape
                if not whole or new.number not in makes:
                    return False
        for value, output in zip(loop.results, loop.loop.outputs):
            if value.number == new.number and output.combine is not None:
                return False
    return True


def written_over(graph: Graph, steps: Sequence[Any]) -> set[int]:
    """Positions of calls whose first operand was made on the way, and is needed no more after them.

    A kernel may write its result there.
    """
    made = {value.number for step in steps for value in step.results}
    kept = {value.number for value in graph.results}
    # What is shown by another value may be needed under that name.
    for step in steps:
        if isinstance(step, Call) and step.aliases:
            kept.update(value.number for value in (*step.reads, *step.results))
    seen: set[int] = set()
    found: set[int] = set()
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        reads = [value.number for value in step.reads]
        if isinstance(step, Call) and reads:
            first = reads[0]
            if first in made - kept - seen and reads.count(first) == 1:
                found.add(place)
        seen.update(reads)
    return found
