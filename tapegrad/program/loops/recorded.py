"""Decide whether a loop inside a recorded function is one call, and record it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from tapegrad.autodiff.batching import unwrap
from tapegrad.autodiff.custom_gradient import VariableLog
from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.checkpoints import current_checkpoints
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.recorder import active_stack
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import RecordingError
from tapegrad.ops.control.loops import Step, Values, register_loops
from tapegrad.program.loops.batched import batched_loop, batched_while, is_for_many
from tapegrad.program.loops.body_recording import NotOneLoop
from tapegrad.program.loops.conditional import NextValues, conditional_loop
from tapegrad.program.loops.counted import counted_loop
from tapegrad.program.record.branches import as_truth, inside_branch
from tapegrad.program.record.recording import current_recording

LEAST_ROUNDS = 8
"""The least rounds of a loop that is recorded as one call."""


def recorded_loop(
    step: Step, carried: Values, stacks: Values, length: int, backwards: bool
) -> tuple[Values, Values] | None:
    """Record a loop as one call; return None if it must be unrolled."""
    if current_recording() is None or length < LEAST_ROUNDS or not can_be_one_call():
        return None
    carried = [x.shared_value() if type(x) is Variable else x for x in carried]
    stacks = [x.shared_value() if type(x) is Variable else x for x in stacks]
    if not are_tensors((*carried, *stacks)):
        return None
    try:
        if is_for_many((*carried, *stacks)):
            found: tuple[Values, Values] = batched_loop(
                counted_loop, step, carried, stacks, length, backwards
            )
            return found
        return counted_loop(step, carried, stacks, length, backwards)
    except (NotOneLoop, RecordingError):
        checkpoints = current_checkpoints()
        if checkpoints is not None:
            checkpoints.forget()
        return None


def recorded_while(
    condition: Callable[..., Any], body: NextValues, carried: Values, first: Any, most: int | None
) -> Values | None:
    """Record a loop that ends by a condition; return None if it must be unrolled.

    `first` is the condition before the first round.
    """
    if current_recording() is None or not can_be_one_call():
        return None
    flag = as_truth(as_operand(first))
    values = [as_operand(x) for x in carried]
    if not are_tensors((flag, *values)):
        return None

    def step(before: list[Any]) -> list[Any]:
        recording = current_recording()
        assert recording is not None
        is_alone = type(before[0]) is Tensor
        # A round is recorded even if the condition is false at once: effects and loops in it ask.
        with inside_branch(recording, before[0]) if is_alone else nullcontext():
            new = [as_operand(x) for x in body(before[1:])]
        return [as_truth(as_operand(condition(new))), *new]

    try:
        if is_for_many((flag, *values)):
            found: Values = batched_while(conditional_loop, step, [flag, *values], most)
            return found[1:]
        return conditional_loop(step, [flag, *values], most)[1:]
    except (NotOneLoop, RecordingError):
        return None


def are_tensors(values: Sequence[Any]) -> bool:
    """Whether all values are tensors, or examples of them."""
    return all(type(unwrap(value)[0]) is Tensor for value in values)


def can_be_one_call() -> bool:
    """Whether the active recorders follow one call for a whole loop."""
    known = GradientTape | VariableLog | ForwardAccumulator
    return all(isinstance(recorder, known) for recorder in active_stack().recorders)


register_loops(recorded_loop, recorded_while, current_recording)
