"""keras.backend.rnn: a step function over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.keras.layers.recurrent.walking import walk
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.shape.functions import expand_dims, reshape, swapaxes
from tapegrad.ops.shape.rearranging import flip

Step = Callable[[Any, list[Any]], tuple[Any, Sequence[Any]]]


def rnn(
    step_function: Step,
    inputs: Any,
    initial_states: Sequence[Any],
    go_backwards: bool = False,
    mask: Any = None,
    constants: Sequence[Any] | None = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, list[Any]]:
    """Call `step_function(x, states)`, which returns an output and new states, for each step.

    Returns the last output, all outputs `[batch, steps, ...]`, and the final states. Steps that
    `mask` leaves out repeat the output before them and keep the states; those after
    `input_length` return zeros. `constants` follow the states in each call.

    >>> last, outputs, states = rnn(
    ...     lambda x, states: (states[0] + x, [states[0] + x]), [[[1.0], [2.0]]], [[[0.0]]])
    >>> outputs.tolist(), states[0].tolist()
    ([[[1.0], [3.0]]], [[3.0]])
    """
    x = as_operand(inputs) if time_major else swapaxes(as_operand(inputs), 0, 1)
    masks = None if mask is None else _by_step(mask, time_major)
    if masks is None and input_length is not None:
        steps = expand_dims(creation.range(x.shape[0]), 1)
        masks = steps < reshape(cast(input_length, steps.dtype), (1, -1))
        zero_output_for_mask = True
    if go_backwards:
        x, masks = flip(x, 0), None if masks is None else flip(masks, 0)
    more = [*(constants or ())]

    def cell(entry: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        output, new = step_function(entry, [*states, *more])
        return output, [*new]

    states = [as_operand(state) for state in initial_states]
    outputs, after = walk(cell, x, states, masks, None, zero_output_for_mask, True)
    last = outputs[-1]
    if not return_all_outputs:
        outputs = outputs[-1:]
    return last, outputs if time_major else swapaxes(outputs, 0, 1), after


def _by_step(mask: Any, time_major: bool) -> Any:
    masks = cast(mask, "bool")
    if len(masks.shape) == 3:
        masks = masks[..., 0]
    return masks if time_major else swapaxes(masks, 0, 1)
