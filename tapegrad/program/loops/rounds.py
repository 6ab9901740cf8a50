"""Run rounds of a loop, and write what they make into stacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import DOES_NOT_FIT
from tapegrad.program.graph.graph import Value
from tapegrad.program.loops.native_rounds import LoopKind

Array = Any
Empty = Callable[[tuple[int, ...], Value], Array]
"""Makes an array of a shape, with the dtype of a value."""


def run_rounds(
    one: Any, operands: Sequence[Array], length: int, backwards: bool, empty: Empty
) -> tuple[Array, ...]:
    """Run the code of one round `length` times; return the last carried values, then the stacks."""
    layout, places, specs = one.layout, one.places, one.specs
    first, last = layout.carried, layout.carried + layout.entries
    carried, stacks, shared = [*operands[:first]], operands[first:last], operands[last:]
    shifted = [*places.before.values()]
    # One more entry: that of the first round at its start, and one for what each round carries on.
    held = [empty((length + 1, *specs[k].shape), specs[k]) for k in places.before]
    alone = [empty((length, *specs[k].shape), specs[k]) for k in places.alone]
    start = length if backwards else 0
    for stack, place in zip(held, shifted):
        stack[start, ...] = carried[place]
        carried[place] = stack[start, ...]
    native = one.native(LoopKind(length, backwards))
    if native is not None:
        ends = [empty(spec.shape, spec) for spec in one.carried_specs]
        if call_in_order(native, [*carried, *stacks, *shared], [*held, *alone, *ends]) == 0:
            return (*ends, *_stacks(places, held, alone, length, backwards, layout.made))
    run, targets, copied = one.run, one.targets, one.copied
    rounds = range(length)
    for k in reversed(rounds) if backwards else rounds:
        after = k if backwards else k + 1
        slots = [stack[after, ...] for stack in held] + [stack[k, ...] for stack in alone]
        given = [*carried, *[stack[k, ...] for stack in stacks], *shared, *slots]
        results, _ = run(given, ())
        for place in copied:
            slots[place][...] = results[targets[place]]
        carried = [*results[:first]]
        for place, slot in zip(shifted, slots):
            carried[place] = slot
    # Entries of stacks would keep the stacks alive, and the operands of a loop may be overwritten.
    for place in {*shifted, *one.borrowed}:
        carried[place] = copied_array(carried[place], one.carried_specs[place], empty)
    return (*carried, *_stacks(places, held, alone, length, backwards, layout.made))


def call_in_order(native: Any, operands: Sequence[Array], results: Sequence[Array]) -> int:
    """Call a function of the arrays in C, with copies of operands that are not contiguous."""
    code: int = native(*operands, *results)
    if code == DOES_NOT_FIT:
        ordered = [np.asarray(array, order="C") for array in operands]
        if not all(new is old for new, old in zip(ordered, operands)):
            code = native(*ordered, *results)
    return code


def copied_array(array: Array, spec: Value, empty: Empty) -> Array:
    """Return a copy of an array."""
    copy = empty(spec.shape, spec)
    copy[...] = array
    return copy


def _stacks(
    places: Any,
    held: Sequence[Array],
    alone: Sequence[Array],
    length: int,
    backwards: bool,
    count: int,
) -> list[Array]:
    """Return the stacks in order; two of them may be parts of the same memory."""
    of_carried = dict(zip(places.before.values(), held))
    made: list[Array] = [None] * count
    for k, stack in zip(places.alone, alone):
        made[k] = stack
    for k, place in places.before.items():
        made[k] = of_carried[place][1:] if backwards else of_carried[place][:length]
    for k, place in places.after.items():
        made[k] = of_carried[place][:length] if backwards else of_carried[place][1:]
    return made
