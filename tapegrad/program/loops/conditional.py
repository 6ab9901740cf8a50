"""Record a loop that ends by a condition as one call, and its gradient as another.

The condition is the first carried value: a round computes it for the next one. The number of rounds
is known only when the loop runs, so the gradient runs the rounds again, keeps what their rules
read, and goes back through them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.core.recorder import active_stack
from tapegrad.core.values.tensor import wrap
from tapegrad.errors import RecordingError
from tapegrad.ops.control.loops import loop as loop_over_tensors
from tapegrad.ops.elementwise.selection import where
from tapegrad.program.loops.batched import batched_while, is_for_many
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.body_recording import NotOneLoop
from tapegrad.program.loops.call import LoopCall, LoopRule, real_arrays, recording_of_loop
from tapegrad.program.loops.forward import keep_history, pushed_alone
from tapegrad.program.loops.primitives import (
    conditional_loop_gradient_p,
    conditional_loop_p,
    conditional_loop_with_effects_p,
)
from tapegrad.program.loops.pullback import trace_with_gradient
from tapegrad.program.loops.tracing import (
    Step,
    Tensors,
    body_of,
    sources_of,
    trace,
)
from tapegrad.program.record.effects import silence

NextValues = Callable[[Tensors], Sequence[Any]]
"""One round: the carried values, the condition first, to the new ones."""


def conditional_loop(body: NextValues, carried: Tensors, most: int | None) -> Tensors:
    """Record a loop that runs while the first carried value is true; return the last ones."""
    around, stack = recording_of_loop(), active_stack()

    def step(before: Tensors, _: Tensors) -> tuple[Sequence[Any], Sequence[Any]]:
        return body(before), []

    found = trace(step, real_arrays(carried), [], around, may_print=True)
    sources = sources_of(found, carried, [], stack)
    call = _Conditional(step, carried, [], found.states, most)
    call.has_effects = found.has_effects
    if not sources.are_any:
        return [wrap(array) for array in call.run(around, body_of(found), found)]
    if not keep_history(call, sources, stack):
        if call.has_effects:
            raise NotOneLoop("it has effects, and a forward mode follows it")
        return pushed_alone(call, sources, stack) or call.followed(
            stack, None, sources, call.run(around, body_of(found), found)
        )
    given = real_arrays(carried)
    pullback = trace_with_gradient(step, given, [], around, sources, has_stacks=False)
    # The rounds of the result keep nothing: those of the gradient run again.
    results = call.run(around, body_of(pullback.round, (), pullback.forward_calls), pullback.round)
    return call.followed(stack, _Rule(call, pullback, sources, [], results), sources, results)


class _Conditional(LoopCall):
    """A loop with a condition that is being recorded."""

    has_effects = False

    def __init__(self, step: Any, carried: Tensors, stacks: Tensors, states: Any, most: int | None):
        super().__init__(step, carried, stacks, states)
        self.most = most

    def record(self, operands: list[Any], body: Body) -> Sequence[Any]:
        params = {"body": body, "most": self.most}
        primitive = conditional_loop_with_effects_p if self.has_effects else conditional_loop_p
        results: Sequence[Any] = recording_of_loop().run(primitive, operands, params)
        return results

    def over_tensors(self, step: Step, carried: Tensors, stacks: Tensors) -> tuple[Any, Any]:
        def next_values(before: Tensors) -> Sequence[Any]:
            return step(before, [])[0]

        if is_for_many(carried):
            return batched_while(conditional_loop, next_values, carried, self.most), []
        return conditional_loop(next_values, carried, self.most), []


class _Rule(LoopRule):
    """The VJP rule of a loop with a condition."""

    loop: _Conditional

    def run_pullback(self, cotangents: Tensors, rest: Tensors) -> Sequence[Any]:
        pullback, found = self.pullback, self.pullback.round
        operands = self.loop.operands(found) + [x.array for x in (*cotangents, *rest)]
        params = {"body": pullback.forward, "pullback": pullback.backward, "most": self.loop.most}
        recording = recording_of_loop()
        results = recording.run(conditional_loop_gradient_p, operands, params)
        return [wrap(array) for array in results]

    def observed(self, carried: Tensors, made: Tensors, outer: list[Any]) -> list[Any]:
        """Differentiate rounds that have no effect after the end of the loop."""
        most = self.loop.most
        if most is None:
            raise RecordingError(
                "The gradient of a while_loop whose number of iterations depends on values is "
                "itself followed by a tape. Pass maximum_iterations, so that the second derivative "
                "is a loop of that length, or call gradient() outside the blocks of other tapes."
            )
        with silence(), TransformTape() as tape:
            before = [x * 1 if x.dtype.is_differentiable else x for x in self.loop.carried]
            floating = self.pullback.floating
            sources = [*[before[k] for k in floating], *[outer[k] for k in self.pullback.followed]]
            tape.watch(sources)
            last, _ = loop_over_tensors(self._masked, before, [], most)
        seeds = [carried[k] for k in floating]
        grads = tape.gradient([last[k] for k in floating], sources, seeds, "zero")
        of_carried = dict(zip(floating, grads))
        of_outer = dict(zip(self.pullback.followed, grads[len(floating) :]))
        return [
            *[of_carried.get(k) for k in range(len(before))],
            *[of_outer.get(k) for k in range(len(outer))],
        ]

    def _masked(self, before: Tensors, entries: Tensors) -> tuple[Sequence[Any], Sequence[Any]]:
        new, _ = self.loop.step(before, entries)
        return [where(before[0], one, old) for one, old in zip(new, before, strict=True)], []
