"""The loop over the steps of a sequence, with masks that skip steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.keras.layers.recurrent.cells import RecurrentCell, Step, as_list
from tapegrad.keras.layers.recurrent.stacked import StackedRNNCells, like_state
from tapegrad.ops.control.loops import loop
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.shape.functions import reshape


def walk(
    cell: Any,
    sequences: Any,
    states: list[Any],
    masks: Any,
    training: bool | None,
    zero_masked: bool,
    keeps_all: bool,
) -> tuple[Any, list[Any]]:
    """Run all steps of `[steps, batch, ...]`; return their outputs and the final states.

    The outputs are `[steps, batch, ...]` if `keeps_all`, otherwise only the last one is returned. A
    step that `masks`, `[steps, batch]`, leave out repeats the output of the previous step, or
    returns zeros if `zero_masked`.
    """
    if isinstance(cell, StackedRNNCells) and type(cell).call is StackedRNNCells.call:
        return _walk_stack(cell, sequences, states, masks, training, zero_masked, keeps_all)
    inputs, step = _prepared(cell, sequences, states, training)
    carries_output = not keeps_all or (masks is not None and not zero_masked)

    def walk_step(carried: list[Any], entries: list[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        before = nest.pack_sequence_as(states, carried[carries_output:])
        output, new = step(entries[0], before)
        flat = nest.flatten(new)
        if masks is not None:
            mask = entries[1]
            flat = [_masked(mask, a, b) for a, b in zip(flat, nest.flatten(before), strict=True)]
            repeats = carries_output and not zero_masked and carried[0].shape == output.shape
            output = _masked(mask, output, carried[0] if repeats else zeros_like(output))
        return [*[output] * carries_output, *flat], [output] * keeps_all

    flat = nest.flatten(states)
    # Zeros stand for the output before the first step, which usually looks like the first state.
    carried = [*[zeros_like(flat[0])] * carries_output, *flat]
    stacks = [inputs] if masks is None else [inputs, masks]
    last, made = loop(walk_step, carried, stacks, inputs.shape[0])
    after: list[Any] = nest.pack_sequence_as(states, last[carries_output:])
    return made[0] if keeps_all else last[0], after


def _walk_stack(
    cell: StackedRNNCells,
    sequences: Any,
    states: list[Any],
    masks: Any,
    training: bool | None,
    zero_masked: bool,
    keeps_all: bool,
) -> tuple[Any, list[Any]]:
    # Run each cell over all steps before the next cell. The result is the same, because a mask
    # skips a step in all cells, and each cell projects all its inputs in one product.
    after: list[Any] = []
    outputs = sequences
    for place, (inner, state) in enumerate(zip(cell.cells, states, strict=True)):
        keeps = keeps_all or place < len(cell.cells) - 1
        own = as_list(state)
        outputs, last = walk(inner, outputs, own, masks, training, zero_masked, keeps)
        after.append(like_state(inner, last))
    return outputs, after


def _prepared(
    cell: Any, sequences: Any, states: list[Any], training: bool | None
) -> tuple[Any, Step]:
    """Return the inputs of all steps, and the step function."""
    if isinstance(cell, RecurrentCell) and type(cell).call is RecurrentCell.call:
        return cell.project(sequences, training), cell.step(training, states[0])

    def step(x: Any, before: list[Any]) -> tuple[Any, list[Any]]:
        output, new = cell(x, before)
        return output, as_list(new)

    return sequences, step


def _masked(mask: Any, new: Any, old: Any) -> Any:
    shape = (mask.shape[0], *(1 for _ in new.shape[1:]))
    return where(reshape(mask, shape), new, old)
