"""Record a loop of a known number of rounds as one call, and its gradient as another."""

from __future__ import annotations

from typing import Any

from tapegrad.core.checkpoints import current_checkpoints
from tapegrad.core.recorder import Stack, active_stack
from tapegrad.core.values.tensor import wrap
from tapegrad.core.values.variable import Variable
from tapegrad.program.loops.body_recording import BodyRecording, NotOneLoop
from tapegrad.program.loops.call import real_arrays, recording_of_loop
from tapegrad.program.loops.counted_call import Counted, CountedRule
from tapegrad.program.loops.forward import keep_history, pushed_alone
from tapegrad.program.loops.pullback import Pullback, trace_with_gradient
from tapegrad.program.loops.segmented import Checkpoint, Segmented, SegmentedRule
from tapegrad.program.loops.segments import (
    Segments,
    dividing_inner_loops,
    is_too_large,
    may_be_kept,
    segments_of,
    segments_of_first_run,
)
from tapegrad.program.loops.tracing import (
    Round,
    Sources,
    Step,
    Tensors,
    body_of,
    sources_of,
    trace,
)
from tapegrad.program.record.recording import Recording

LEAST_CALLS = 1000
"""The least calls of all rounds for a loop to be one call; shorter ones are unrolled."""


def counted_loop(
    step: Step, carried: Tensors, stacks: Tensors, length: int, backwards: bool
) -> tuple[Tensors, Tensors]:
    """Record a loop; return the last carried values and the stacks of what its rounds make.

    Raise `NotOneLoop` if its rounds are not one body, or if they are few.
    """
    around, stack = recording_of_loop(), active_stack()
    number = _number_of_checkpoint(around)
    place = length - 1 if backwards else 0
    given = real_arrays(carried), [array[place, ...] for array in real_arrays(stacks)]
    found = trace(step, *given, around)
    if len(found.recording.calls) * length < LEAST_CALLS:
        raise NotOneLoop("it is short")
    sources = sources_of(found, carried, stacks, stack)
    call = Counted(step, carried, stacks, found.states)
    call.length, call.backwards, call.count_of_made = length, backwards, len(found.made)
    if not sources.are_any and number is not None and may_be_kept(found, length):
        tensors = _kept_for_later(call, found, number, given)
    elif not sources.are_any:
        tensors = [wrap(array) for array in call.run(around, body_of(found), found)]
    elif keep_history(call, sources, stack):
        pullback, segments = _with_gradient(step, given, around, sources, length)
        if segments is not None:
            call = _divided(call, found, segments, number)
        tensors = _followed(call, pullback, sources, stack)
    else:
        tensors = pushed_alone(call, sources, stack) or call.followed(
            stack, None, sources, call.run(around, body_of(found), found)
        )
    return tensors[: len(carried)], tensors[len(carried) :]


def _number_of_checkpoint(around: Recording) -> int | None:
    """Return which loop of a function that runs again for its gradient this is, None if of none."""
    checkpoints = current_checkpoints()
    return None if checkpoints is None else checkpoints.number_of_next(around)


def _kept_for_later(call: Counted, found: Round, number: int, given: tuple[Any, Any]) -> Tensors:
    """Record a loop whose gradient will run its rounds again, from what it carries now and then."""
    checkpoints, around = current_checkpoints(), recording_of_loop()
    assert checkpoints is not None
    segments = None
    if checkpoints.is_first_run:
        # The tapes that will follow the loop are not active now: they may follow everything.
        read = [*found.recording.outer_tensors.values(), *found.recording.variables.values()]
        known = [x for x in read if x.dtype.is_differentiable]
        tensors = [x for x in known if not isinstance(x, Variable)]
        variables = [x for x in known if isinstance(x, Variable)]
        follows = [x.dtype.is_differentiable for x in call.stacks]
        sources = Sources([], follows, tensors, variables)
        pullback = trace_with_gradient(call.step, *given, around, sources)
        segments = segments_of_first_run(pullback, call.length, checkpoints.segments)
    if segments is None:
        return [wrap(array) for array in call.run(around, body_of(found), found)]
    divided = _divided(call, found, segments, None)
    results = divided.run(around, body_of(found), found)
    checkpoints.kept[number] = divided.checkpoint(around, results)
    return [wrap(array) for array in results]


def _divided(call: Counted, found: Round, segments: Segments, number: int | None) -> Segmented:
    """Return a loop in segments, with what its first run has kept if there was one."""
    divided = Segmented(call.step, call.carried, call.stacks, found.states)
    divided.length, divided.backwards = call.length, call.backwards
    divided.count_of_made = call.count_of_made
    divided.divide(segments)
    checkpoints = current_checkpoints()
    if checkpoints is not None and number is not None:
        kept: Checkpoint | None = checkpoints.kept.get(number)
        if kept is not None and kept.is_of(divided, found, recording_of_loop()):
            divided.continue_from(kept)
    return divided


def _with_gradient(
    step: Step, given: tuple[Any, Any], around: Recording, sources: Sources, length: int
) -> tuple[Pullback, Segments | None]:
    """Record a round with its gradient, and decide how the loop is divided."""
    is_inner = isinstance(around, BodyRecording)
    pullback = trace_with_gradient(step, *given, around, sources)
    segments = segments_of(pullback, length, is_inner)
    if segments is not None and is_too_large(segments, pullback):
        with dividing_inner_loops():
            pullback = trace_with_gradient(step, *given, around, sources)
        segments = segments_of(pullback, length, is_inner)
    return pullback, segments


def _followed(call: Counted, pullback: Pullback, sources: Sources, stack: Stack) -> Tensors:
    """Record a loop with its VJP rule; return its results."""
    around, found = recording_of_loop(), pullback.round
    if isinstance(call, Segmented):
        body = body_of(found, (), pullback.forward_calls)
        results = call.run(around, body, found)
        rule: CountedRule = SegmentedRule(call, pullback, sources, [], results)
    else:
        results = call.run(around, pullback.forward, found)
        count = len(call.carried) + len(found.made)
        results, kept = results[:count], results[count:]
        rule = CountedRule(call, pullback, sources, kept, results)
    return call.followed(stack, rule, sources, results)
