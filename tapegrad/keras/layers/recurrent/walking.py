"""The loop over the steps of a sequence, with masks that skip steps."""

from __future__ import annotations

from typing import Any

from tapegrad.keras.layers.recurrent.cells import RecurrentCell, Step, as_list
from tapegrad.keras.layers.recurrent.stacked import StackedRNNCells, like_state
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import stack, unstack


def walk(
    cell: Any,
    sequences: Any,
    states: list[Any],
    masks: list[Any] | None,
    training: bool | None,
    zero_masked: bool,
) -> tuple[list[Any], list[Any]]:
    """Run all steps of `[steps, batch, ...]`; return their outputs and the final states.

    A masked step repeats the output of the previous step, or returns zeros if `zero_masked`.
    """
    if isinstance(cell, StackedRNNCells) and type(cell).call is StackedRNNCells.call:
        return _walk_stack(cell, sequences, states, masks, training, zero_masked)
    inputs, step = _prepared(cell, sequences, states, training)
    outputs: list[Any] = []
    for index, x in enumerate(inputs):
        output, new = step(x, states)
        if masks is not None:
            mask = masks[index]
            new = [_masked(mask, a, b) for a, b in zip(new, states, strict=True)]
            before = zeros_like(output) if zero_masked or not outputs else outputs[-1]
            output = _masked(mask, output, before)
        outputs.append(output)
        states = new
    return outputs, states


def _walk_stack(
    cell: StackedRNNCells,
    sequences: Any,
    states: list[Any],
    masks: list[Any] | None,
    training: bool | None,
    zero_masked: bool,
) -> tuple[list[Any], list[Any]]:
    # Run each cell over all steps before the next cell. The result is the same, because a mask
    # skips a step in all cells, and each cell projects all its inputs in one product.
    after: list[Any] = []
    outputs: list[Any] = []
    for inner, state in zip(cell.cells, states, strict=True):
        x = stack(outputs, 0) if after else sequences
        outputs, last = walk(inner, x, as_list(state), masks, training, zero_masked)
        after.append(like_state(inner, last))
    return outputs, after


def _prepared(
    cell: Any, sequences: Any, states: list[Any], training: bool | None
) -> tuple[list[Any], Step]:
    """Return the input of each step, and the step function."""
    if isinstance(cell, RecurrentCell) and type(cell).call is RecurrentCell.call:
        return unstack(cell.project(sequences, training)), cell.step(training, states[0])

    def step(x: Any, before: list[Any]) -> tuple[Any, list[Any]]:
        output, new = cell(x, before)
        return output, as_list(new)

    return unstack(sequences), step


def _masked(mask: Any, new: Any, old: Any) -> Any:
    shape = (mask.shape[0], *(1 for _ in new.shape[1:]))
    return where(reshape(mask, shape), new, old)
