"""Record a loop of a known number of rounds as one call, and its gradient as another."""

from __future__ import annotations

from typing import Any

from tapegrad.core.recorder import Stack, active_stack
from tapegrad.core.values.tensor import wrap
from tapegrad.program.loops.body_recording import BodyRecording, NotOneLoop
from tapegrad.program.loops.call import real_arrays, recording_of_loop
from tapegrad.program.loops.counted_call import Counted, CountedRule
from tapegrad.program.loops.forward import keep_history, pushed_alone
from tapegrad.program.loops.pullback import Pullback, trace_with_gradient
from tapegrad.program.loops.segmented import Segmented, SegmentedRule
from tapegrad.program.loops.segments import (
    Segments,
    dividing_inner_loops,
    is_too_large,
    segments_of,
)
from tapegrad.program.loops.tracing import Sources, Step, Tensors, body_of, sources_of, trace
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
    place = length - 1 if backwards else 0
    given = real_arrays(carried), [array[place, ...] for array in real_arrays(stacks)]
    found = trace(step, *given, around)
    if len(found.recording.calls) * length < LEAST_CALLS:
        raise NotOneLoop("it is short")
    sources = sources_of(found, carried, stacks, stack)
    call = Counted(step, carried, stacks, found.states)
    call.length, call.backwards, call.count_of_made = length, backwards, len(found.made)
    if not sources.are_any:
        tensors = [wrap(array) for array in call.run(around, body_of(found), found)]
    elif keep_history(call, sources, stack):
        pullback, segments = _with_gradient(step, given, around, sources, length)
        if segments is not None:
            call = Segmented(step, carried, stacks, found.states)
            call.length, call.backwards = length, backwards
            call.divide(segments)
        tensors = _followed(call, pullback, sources, stack)
    else:
        tensors = pushed_alone(call, sources, stack) or call.followed(
            stack, None, sources, call.run(around, body_of(found), found)
        )
    return tensors[: len(carried)], tensors[len(carried) :]


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
