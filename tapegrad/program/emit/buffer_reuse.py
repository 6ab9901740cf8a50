"""Buffer reuse: write results into the memory of variables or of dead values.

This is valid if nothing reads the old value later, and each of its elements is read before the new
one is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.graph import Call, Graph, Value, is_wait

Step = Call | Fused | HorizontallyFused


def written_in_place(
    graph: Graph,
    steps: Sequence[Step],
    parts: Sequence[int],
    overwrites: Callable[[Call], bool] = lambda call: False,
) -> dict[int, Value]:
    """Return the old values of variables, by the number of the value that overwrites them.

    `parts` has the part number of each step. Only steps of the last part overwrite variables,
    because an assertion in an earlier part may fail and must leave variables unchanged. Calls
    for which `overwrites` is true have a kernel that writes its results over operands.
    """
    found: dict[int, Value] = {}
    results = Counter(value.number for value in graph.results)
    last_read = _last_reads(steps)
    shown = {value.number for step in steps for value in _shown_by(step)}
    makers = {value.number: place for place, step in enumerate(steps) for value in step.results}
    for number, new in graph.written.items():
        old = graph.variables[number]
        place = makers.get(new.number)
        step = None if place is None else steps[place]
        if (
            place is None
            or step is None
            or (isinstance(step, Call) and not overwrites(step))
            or parts[place] != parts[-1]
            or (old.shape, old.dtype) != (new.shape, new.dtype)
        ):
            continue
        alone = results[new.number] == 1 and old.number not in results
        last = last_read.get(old.number, place) <= place
        fits = _updates if isinstance(step, Call) else _element_by_element
        if alone and last and old.number not in shown and fits(step, old, new):
            found[new.number] = old
    for step in steps:
        if isinstance(step, Call) and not _updates_all(step, found):
            for value in step.results:
                found.pop(value.number, None)
    return found


def _updates(call: Any, old: Value, new: Value) -> bool:
    """Whether an overwriting kernel writes the new value over the old one, which it reads once."""
    pairs = zip(call.primitive.overwritten, call.results)
    own = [call.operands[k] for k, result in pairs if result.number == new.number]
    reads = [value.number for value in call.reads]
    return reads.count(old.number) == 1 and [value.number for value in own] == [old.number]


def _updates_all(call: Call, found: Mapping[int, Value]) -> bool:
    """Whether all operands that an overwriting kernel writes to are values that it may destroy."""
    pairs = zip(call.primitive.overwritten, call.results)
    return all(new.number in found and call.operands[k] == found[new.number] for k, new in pairs)


def writes_last(
    steps: Sequence[Step], in_place: Mapping[int, Value], deferrable: Collection[int]
) -> tuple[list[Step], dict[int, Value], int]:
    """Return the steps with those that overwrite variables last, what these overwrite, their count.

    Everything that can fail then comes before the first write. Steps that need a result of these
    come last as well, and are counted. All of them must be at the positions `deferrable`, or
    nothing that they need is overwritten.
    """
    kept = dict(in_place)
    while True:
        last = _last_steps(steps, kept)
        early = last.difference(deferrable)
        if not early:
            first = [step for place, step in enumerate(steps) if place not in last]
            late = [step for place, step in enumerate(steps) if place in last]
            return [*first, *late], kept, len(late)
        needed = {value.number for place in early for value in steps[place].reads}
        for place in range(len(steps) - 1, -1, -1):
            made = [value.number for value in steps[place].results]
            if place in early or not needed.isdisjoint(made):
                needed.update(value.number for value in steps[place].reads)
                for number in made:
                    kept.pop(number, None)


def _last_steps(steps: Sequence[Step], in_place: Mapping[int, Value]) -> set[int]:
    """The positions of the steps that overwrite variables, and of those that need their results."""
    last: set[int] = set()
    late: set[int] = set()
    for place, step in enumerate(steps):
        numbers = [value.number for value in step.results]
        if any(n in in_place for n in numbers) or any(v.number in late for v in step.reads):
            last.add(place)
            late.update(numbers)
    return last


def _last_reads(steps: Sequence[Step]) -> dict[int, int]:
    """The position of the last step that reads a value, by the value's number."""
    return {value.number: place for place, step in enumerate(steps) for value in step.reads}


def _element_by_element(step: Any, old: Value, new: Value) -> bool:
    """Whether the loop that makes the new value reads the old one only at the same element."""
    for loop in step.steps if isinstance(step, HorizontallyFused) else (step,):
        makes = {value.number for value in loop.results}
        for value, read in zip(loop.reads, loop.loop.inputs):
            if value.number == old.number:
                whole = read.window is None and read.seen == loop.loop.shape
                if not whole or new.number not in makes:
                    return False
        for value, output in zip(loop.results, loop.loop.outputs):
            if value.number == new.number and (output.combine is not None or output.rows):
                return False
    return True


def updating_calls(graph: Graph, steps: Sequence[Any], changed: Collection[int]) -> set[int]:
    """Return the positions of calls that overwrite the variables with the numbers `changed`."""
    new = {graph.written[number].number for number in changed}
    return {
        place
        for place, step in enumerate(steps)
        if isinstance(step, Call) and any(value.number in new for value in step.results)
    }


def dying_operands(graph: Graph, steps: Sequence[Any]) -> set[int]:
    """Return the positions of calls whose overwritten operands are intermediates that die there."""
    return overwriting_calls(graph, steps, [0] * len(steps))


def overwriting_calls(graph: Graph, steps: Sequence[Any], parts: Sequence[int]) -> set[int]:
    """Return the positions of calls whose overwritten operands die there.

    A kernel may overwrite these operands. They are intermediates that are made in the same part as
    the call.
    """
    made = _makers(steps, parts)
    kept = _needed_elsewhere(graph, steps)
    seen: set[int] = set()
    found: set[int] = set()
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        reads = [value.number for value in step.reads]
        if isinstance(step, Call) and reads:
            over = [step.operands[k] for k in step.primitive.overwritten]
            lost = [value.number for value in over if isinstance(value, Value)]
            free = len(lost) == len(over) and all(
                n not in kept
                and n not in seen
                and reads.count(n) == 1
                and made.get(n) == parts[place]
                for n in lost
            )
            if free:
                found.add(place)
        seen.update(reads)
    return found


def _makers(steps: Sequence[Any], parts: Sequence[int]) -> dict[int, int]:
    """The part in which each value is made, by the value's number."""
    return {v.number: part for step, part in zip(steps, parts) for v in step.results}


def _needed_elsewhere(graph: Graph, steps: Sequence[Any]) -> set[int]:
    """Numbers of results, and of values that share memory with others, which may be read later."""
    kept = {value.number for value in graph.results}
    for step in steps:
        if isinstance(step, Call) and step.aliases:
            kept.update(value.number for value in (*_shown_by(step), *step.results))
        elif isinstance(step, Call) and step.primitive.joins_results:
            kept.update(value.number for value in step.results)
    return kept


def _shown_by(step: Any) -> Sequence[Value]:
    """Return what a step reads whose memory its results may share."""
    if not isinstance(step, Call) or not step.aliases:
        return ()
    return step.reads[:1] if is_wait(step) else step.reads


_LIE_IN_ORDER = frozenset({"matmul", "matmul_sum"})
"""Primitives whose results are new C-contiguous arrays, like those of loops."""


def reused_operands(
    graph: Graph, steps: Sequence[Step], in_place: Mapping[int, Value], parts: Sequence[int]
) -> dict[int, Value]:
    """Return the operands that loops overwrite, by the number of the result.

    The operand is an intermediate of the same part that is last read in this loop, at the same
    elements.
    """
    made = _makers(steps, parts)
    kept = _needed_elsewhere(graph, steps) | set(in_place)
    kept |= {value.number for value in in_place.values()}
    last = _last_reads(steps)
    ordered = {
        value.number
        for step in steps
        if not isinstance(step, Call) or step.primitive.name in _LIE_IN_ORDER
        for value in step.results
    } - kept
    found: dict[int, Value] = {}
    for place, step in enumerate(steps):
        if isinstance(step, Call):
            continue
        read = {value.number for value in step.reads}
        free = {n for n in read & ordered if last[n] == place and made[n] == parts[place]}
        for loop in step.steps if isinstance(step, HorizontallyFused) else (step,):
            for value, output in zip(loop.results, loop.loop.outputs):
                if output.combine is None and not output.rows and value.number not in kept:
                    operand = _operand_like(value, loop, free)
                    if operand is not None and _element_by_element(step, operand, value):
                        free.discard(operand.number)
                        found[value.number] = operand
    return found


def _operand_like(value: Value, loop: Fused, free: set[int]) -> Value | None:
    for read in loop.reads:
        if read.number in free and (read.shape, read.dtype) == (value.shape, value.dtype):
            return read
    return None
