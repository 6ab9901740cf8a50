"""A loop of a known number of rounds while it is recorded, and its VJP rule.

The gradient is a loop in the other direction. It reads what each round has kept, and adds up the
cotangents of what all rounds share. If other recorders follow the gradient, each of its rounds runs
the body again under a separate tape, so that derivatives of any order are loops, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.autodiff.batching import is_batched
from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.tensor import wrap
from tapegrad.ops.control.loops import loop as loop_over_tensors
from tapegrad.ops.creation import zeros_like
from tapegrad.program.loops import batch_rules  # noqa: F401  # the rule for examples
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.call import LoopCall, LoopRule, recording_of_loop
from tapegrad.program.loops.primitives import counted_loop_p
from tapegrad.program.loops.tracing import Step, Tensors, apart


class Counted(LoopCall):
    """A loop of a known number of rounds that is being recorded."""

    length: int
    backwards: bool

    def record(self, operands: list[Any], body: Body) -> Sequence[Any]:
        return run_rounds(operands, body, self.length, self.backwards)

    def over_tensors(self, step: Step, carried: Tensors, stacks: Tensors) -> tuple[Any, Any]:
        return loop_over_tensors(step, carried, stacks, self.length, self.backwards)


def run_rounds(operands: list[Any], body: Body, length: int, backwards: bool) -> Sequence[Any]:
    """Record the primitive that runs all rounds."""
    params = {"body": body, "length": length, "backwards": backwards}
    results: Sequence[Any] = recording_of_loop().run(counted_loop_p, operands, params)
    return results


class CountedRule(LoopRule):
    """The VJP rule of a loop of a known number of rounds."""

    loop: Counted

    takes_examples = True

    def run_pullback(self, cotangents: Tensors, rest: Tensors) -> Sequence[Any]:
        loop, body, operands = self.loop, self.pullback.backward, cotangents + rest
        if any(is_batched(x) for x in operands):
            params = {"body": body, "length": loop.length, "backwards": not loop.backwards}
            found: Sequence[Any] = counted_loop_p(*operands, **params)
            return found
        arrays = [x.array for x in operands]
        return [wrap(x) for x in run_rounds(arrays, body, loop.length, not loop.backwards)]

    def observed(self, carried: Tensors, made: Tensors, outer: list[Any]) -> list[Any]:
        """Run the rounds again, and then a loop over their gradients."""
        loop, pullback = self.loop, self.pullback
        kept = _kept_by_rounds(loop)
        start = [carried[k] for k in pullback.floating]
        start += [zeros_like(as_operand(outer[k])) for k in pullback.followed]
        stacks = [*made, *kept, *loop.stacks]
        pull = self._pulled_round(len(made), outer)
        last, entries = loop_over_tensors(pull, start, stacks, loop.length, not loop.backwards)
        count = len(pullback.floating)
        return self.in_order(last[:count], entries, last[count:])

    def _pulled_round(self, count: int, outer: list[Any]) -> Step:
        """Return the step that computes the gradient of one round under a tape."""
        loop, pullback = self.loop, self.pullback
        followed = [outer[k] for k in pullback.followed]
        floating, pulled = pullback.floating, pullback.pulled

        def pull(before: Tensors, entries: Tensors) -> tuple[Sequence[Any], Sequence[Any]]:
            bars, totals = before[: len(floating)], before[len(floating) :]
            first = count + len(loop.carried)
            last = first + len(loop.states)
            own, inside = apart(entries[count:first]), apart(entries[last:])
            for variable, value in zip(loop.states, entries[first:last]):
                variable.array = value.array
            with TransformTape() as tape:
                sources = [*[own[k] for k in floating], *[inside[k] for k in pulled], *followed]
                tape.watch(sources)
                new, made = loop.step(own, inside)
            targets = [as_operand(new[k]) for k in floating]
            targets += [as_operand(made[k]) for k in pullback.seeded]
            seeds = [*bars, *[entries[k] for k in pullback.seeded]]
            grads = [as_operand(one) for one in tape.gradient(targets, sources, seeds, "zero")]
            middle = len(floating) + len(pulled)
            after = [total + grad for total, grad in zip(totals, grads[middle:], strict=True)]
            return [*grads[: len(floating)], *after], grads[len(floating) : middle]

        return pull


def _kept_by_rounds(loop: Counted) -> Tensors:
    """Run the rounds again; return stacks of what they carry, and of the states of variables."""

    def keep(before: Tensors, entries: Tensors) -> tuple[Sequence[Any], Sequence[Any]]:
        kept = [*before, *[wrap(variable.array) for variable in loop.states]]
        new, _ = loop.step(before, entries)
        return new, kept

    return loop_over_tensors(keep, loop.carried, loop.stacks, loop.length, loop.backwards)[1]
