"""One loop while it is recorded: its operands, its results, and its VJP rule on the outer tapes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.autodiff.batching import is_batched, unwrap, wrap_levels
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import record_many
from tapegrad.core.recorder import EMPTY, Node, Stack, active_stack, using_stack
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import RecordingError
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.primitives import sum_p
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.forward import LoopJvp
from tapegrad.program.loops.pullback import LaterSum, Pullback
from tapegrad.program.loops.tracing import Round, Sources, Step, Tensors
from tapegrad.program.outer_tape import OneCall
from tapegrad.program.record.recording import Recorded, Recording, current_recording


def recording_of_loop() -> Recording:
    """Return the recording that a loop belongs to."""
    recording = current_recording()
    if recording is None:
        raise RecordingError("A loop is recorded outside of a function.")
    return recording


def real_arrays(tensors: Tensors) -> list[Any]:
    """Return the arrays that recorded tensors hold."""
    arrays = [tensor.array for tensor in tensors]
    return [array.array if type(array) is Recorded else array for array in arrays]


class LoopCall:
    """A loop that is being recorded: its operands, and the variables that its rounds assign."""

    def __init__(
        self,
        step: Step,
        carried: Tensors,
        stacks: Tensors,
        states: Sequence[tuple[Variable, Any, Any]],
    ) -> None:
        self.step, self.carried, self.stacks = step, carried, stacks
        self.states = [variable for variable, _, _ in states]
        self.before: list[Any] = []
        """The arrays of these variables before the loop."""
        self.count_of_made = 0
        """The number of stacks that the loop makes."""

    def record(self, operands: list[Any], body: Body) -> Sequence[Any]:
        """Record the primitive; return all its results."""
        raise NotImplementedError

    def over_tensors(self, step: Step, carried: Tensors, stacks: Tensors) -> tuple[Any, Any]:
        """Run a loop with as many rounds and another step, which recorders may follow."""
        raise NotImplementedError

    @contextmanager
    def from_its_beginning(self) -> Iterator[None]:
        """Give the variables that rounds assign their values before the loop, for a second run."""
        now = [variable.array for variable in self.states]
        try:
            for variable, array in zip(self.states, self.before):
                variable.array = array
            yield
        finally:
            for variable, array in zip(self.states, now):
                variable.array = array

    def operands(self, found: Round) -> list[Any]:
        """Return what the loop carries, its stacks, and what its rounds share."""
        own = [x.array for x in self.carried] + self.before + [x.array for x in self.stacks]
        return own + [array for _, array in found.shared]

    def run(self, around: Recording, body: Body, found: Round) -> list[Any]:
        """Record the loop, assign its variables, and return its other results."""
        self.before = [around.array_of(variable) for variable in self.states]
        results = list(self.record(self.operands(found), body))
        first, last = len(self.carried), len(self.carried) + len(self.states)
        for variable, array in zip(self.states, results[first:last]):
            variable.array = array
        return results[:first] + results[last:]

    def followed(
        self, recorders: Stack, rule: LoopRule | None, sources: Sources, results: list[Any]
    ) -> Tensors:
        """Return the results as tensors that the recorders follow."""
        self.count_of_made = len(results) - len(self.carried)
        return self.attached(recorders, rule, LoopJvp(self, sources), sources, results)

    def followed_operands(self, sources: Sources) -> Tensors:
        """Return the operands of the loop for recorders that follow it."""
        variables = [variable.shared_value() for variable in sources.variables]
        return [*self.carried, *self.stacks, *sources.tensors, *variables]

    def attached(
        self, recorders: Stack, rule: Any, jvp: Any, sources: Sources, results: list[Any]
    ) -> Tensors:
        """Return the results as tensors with nodes of one operation."""
        tensors = tuple([wrap(array) for array in results])
        operands = self.followed_operands(sources)
        nodes = tuple([x.node for x in operands])
        operation: Any = OneCall("loop", rule)
        operation.joint_jvp = jvp
        record_many(recorders, operation, {}, [x.array for x in operands], nodes, results, tensors)
        return list(tensors)


class LoopRule:
    """The VJP rule of a loop, from the cotangents of its results to those of its operands."""

    reads = wants = ()
    takes_examples = False
    """Whether one pullback can take examples of cotangents, such as the rows of a Jacobian."""

    def __init__(
        self,
        loop: Any,
        pullback: Pullback,
        sources: Sources,
        kept: list[Any],
        results: list[Any],
    ) -> None:
        self.loop, self.pullback = loop, pullback
        self._all_kept = kept
        self.kept = kept[: pullback.kept_by_rounds]
        """What the rounds of the pullback read; the others are read after the loop."""
        self._outer = [*sources.tensors, *sources.variables]
        self._results = results

    def pick(self, operands: Sequence[Any], result: Any) -> tuple[Any, ...]:
        return ()

    def rewrap(self, saved: Sequence[Any], node: Node) -> tuple[Any, ...]:
        return ()

    def __call__(self, t: Sequence[Any], saved: Sequence[Any], params: Any) -> list[Any]:
        if any(is_batched(x) for x in t) and not self.takes_examples:
            return self._by_examples(t)
        cotangents = [
            zeros_like(wrap(array)) if x is None else x if _is_operand(x) else wrap(x)
            for x, array in zip(t, self._results, strict=True)
        ]
        count = len(self.loop.carried)
        carried, made = cotangents[:count], cotangents[count:]
        if not active_stack().tokens:
            with using_stack(EMPTY):
                return self._plain(carried, made)
        with self.loop.from_its_beginning():
            return self.observed(carried, made, self._outer)

    def _by_examples(self, t: Sequence[Any]) -> list[Any]:
        """Run a pullback for each example of batched cotangents."""
        parts = [(None, ()) if x is None else unwrap(x) for x in t]
        sizes = {level: n for x, own in parts if x is not None for level, n in zip(own, x.shape)}
        levels = sorted(sizes)
        found = []
        for places in itertools.product(*[range(sizes[level]) for level in levels]):
            at = dict(zip(levels, places))
            found.append(self([
                x if x is None or not own else x[tuple(at[level] for level in own)]
                for x, own in parts
            ], (), {}))  # fmt: skip
        counts = tuple(sizes[level] for level in levels)
        return [self._rejoined(shares, counts, levels) for shares in zip(*found, strict=True)]

    def _rejoined(self, shares: Sequence[Any], counts: tuple[int, ...], levels: list[int]) -> Any:
        if all(share is None for share in shares):
            return None
        whole = stack([as_operand(share) for share in shares])
        return wrap_levels(reshape(whole, (*counts, *whole.shape[1:])), levels)

    def _plain(self, carried: Tensors, made: Tensors) -> list[Any]:
        """Run the recorded pullback in the other direction."""
        pullback = self.pullback
        cotangents = [carried[k] for k in pullback.floating]
        cotangents += [zeros_like(as_operand(self._outer[k])) for k in pullback.sums]
        stacks = [made[k] for k in pullback.seeded] + [wrap(array) for array in self.kept]
        stacks += [self.loop.stacks[k] for k in pullback.reread]
        shared = [wrap(array) for array in pullback.shared]
        results = list(self.run_pullback(cotangents, stacks + shared))
        count = len(pullback.floating)
        last = count + len(pullback.sums)
        pulled = results[last:]
        known = {
            "cotangent": [made[k] for k in pullback.seeded],
            "kept": [wrap(array) for array in self._all_kept],
            "given": self.loop.stacks,
            "pulled": pulled,
        }
        sums = results[count:last]
        sums += [over_rounds(one, [known[k][p] for k, p in one.stacks]) for one in pullback.later]
        return self.in_order(results[:count], pulled[: len(pullback.pulled)], sums)

    def in_order(
        self, carried: Sequence[Any], stacks: Sequence[Any], sums: Sequence[Any]
    ) -> list[Any]:
        """Return one cotangent or None per operand."""
        pullback, loop = self.pullback, self.loop
        parts = [
            (pullback.floating, carried, len(loop.carried)),
            (pullback.pulled, stacks, len(loop.stacks)),
            (pullback.followed, sums, len(self._outer)),
        ]
        known = [(dict(zip(places, found, strict=True)), count) for places, found, count in parts]
        return [table.get(k) for table, count in known for k in range(count)]

    def run_pullback(self, cotangents: Tensors, rest: Tensors) -> Sequence[Any]:
        """Record the pullback of all rounds.

        `cotangents` are carried from round to round; `rest` are stacks and what is shared.
        """
        raise NotImplementedError

    def observed(self, carried: Tensors, made: Tensors, outer: list[Any]) -> list[Any]:
        """Return the cotangents computed by operations that recorders can follow."""
        raise NotImplementedError


def _is_operand(value: Any) -> bool:
    return isinstance(value, Tensor) or is_batched(value)


def over_rounds(one: LaterSum, stacks: Sequence[Tensor]) -> Any:
    """Return the sum over all rounds of what a call computes, from the stacks of its operands."""
    if one.call.primitive.name == "sum":
        (operand,) = one.call.reads
        axes = one.call.params["axis"]
        every = range(len(operand.shape)) if axes is None else axes
        axis = (0, *[place % len(operand.shape) + 1 for place in every])
        return sum_p(stacks[0], axis=axis, keepdims=False)
    # All examples of all rounds below each other.
    flat = [reshape(x, (x.shape[0] * x.shape[1], x.shape[2])) for x in stacks]
    return one.call.primitive(*flat, **one.call.params)
