"""A counted loop in segments: it keeps their beginnings, and its gradient runs rounds again.

Both directions are loops over segments, whose rounds are loops themselves. The rounds compute the
same as in a loop that is not divided, from the same values: the states of random generators are
carried, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import concat
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.call import over_rounds, real_arrays, recording_of_loop
from tapegrad.program.loops.counted_call import Counted, CountedRule, run_rounds
from tapegrad.program.loops.segments import Segments
from tapegrad.program.loops.tracing import Round, Step, Tensors, body_of, trace
from tapegrad.program.record.recording import Recorded, Recording


def _loop_over(
    step: Step, carried: Tensors, stacks: Tensors, length: int, backwards: bool
) -> tuple[Tensors, Tensors]:
    """Record a loop over segments, with steps that record loops over rounds."""
    place = length - 1 if backwards else 0
    entries = [array[place, ...] for array in real_arrays(stacks)]
    found = trace(step, real_arrays(carried), entries, recording_of_loop())
    operands = [x.array for x in (*carried, *stacks)] + [array for _, array in found.shared]
    results = [wrap(x) for x in run_rounds(operands, body_of(found), length, backwards)]
    return results[: len(carried)], results[len(carried) :]


def _arrays(tensors: Tensors) -> list[Any]:
    return [tensor.array for tensor in tensors]


class _Parts:
    """Divides stacks into segments and a rest, and puts such parts together."""

    def __init__(self, segments: Segments, backwards: bool) -> None:
        self.segments = segments
        middle = segments.count * segments.length
        # The rest runs last, so it is at the beginning of stacks that are read backwards.
        whole, rest = slice(0, middle), slice(middle, None)
        if backwards:
            whole, rest = slice(segments.rest, None), slice(0, segments.rest)
        self._whole, self._rest, self._is_rest_first = whole, rest, backwards

    def divided(self, stacks: Tensors) -> Tensors:
        """Return the segments of stacks along a first axis."""
        first = (self.segments.count, self.segments.length)
        parts = [x[self._whole] if self.segments.rest else x for x in stacks]
        return [reshape(x, (*first, *x.shape[1:])) for x in parts]

    def rest(self, stacks: Tensors) -> Tensors:
        """Return the entries of the other rounds."""
        return [x[self._rest] for x in stacks]

    def joined(self, divided: Tensors, rests: Tensors) -> Tensors:
        """Return stacks from segments, and from the entries of the other rounds if there are."""
        count = self.segments.count * self.segments.length
        parts = [reshape(x, (count, *x.shape[2:])) for x in divided]
        if not self.segments.rest:
            return parts
        order = -1 if self._is_rest_first else 1
        return [concat([*pair][::order]) for pair in zip(parts, rests, strict=True)]


class Checkpoint(NamedTuple):
    """What the first run of a loop has kept for the gradient, which runs its rounds again."""

    segments: Segments
    starts: Tensors
    start_of_rest: Tensors
    last: Tensors
    """What the loop carried at its end."""
    values: dict[int, Any]
    """The values that variables had."""

    def is_of(self, loop: Segmented, found: Round, around: Recording) -> bool:
        """Whether a loop does the same as the one that has kept this."""
        segments = self.segments
        length = segments.count * segments.length + segments.rest
        shapes = [(x.shape, x.dtype) for x in self.last]
        is_alike = [(x.shape, x.dtype) for x in loop.carried] == shapes and not found.states
        if length != loop.length or not is_alike:
            return False
        now = _values_of_variables(around)
        return all(now.get(number) == value for number, value in self.values.items())


def _values_of_variables(around: Recording) -> dict[int, Any]:
    """Return which values the variables of a recording have, by their numbers."""
    arrays = {number: around.array_of(v) for number, v in around.variables.items()}
    return {n: a.value.number if type(a) is Recorded else id(a) for n, a in arrays.items()}


class Segmented(Counted):
    """A loop in segments that is being recorded."""

    parts: _Parts
    starts: Tensors
    """What is carried at the beginnings of segments, stacked."""
    start_of_rest: Tensors
    _kept: Checkpoint | None = None

    def checkpoint(self, around: Recording, results: list[Any]) -> Checkpoint:
        """Return what this run has kept; `results` are those of the loop."""
        last = [wrap(array) for array in results[: len(self.carried)]]
        values = _values_of_variables(around)
        return Checkpoint(self.parts.segments, self.starts, self.start_of_rest, last, values)

    def continue_from(self, kept: Checkpoint) -> None:
        """Take what is carried from an earlier run instead of this one.

        Then nothing reads what this run carries, and it is not made unless its stacks are read.
        """
        self._kept = kept
        self.divide(kept.segments)

    def divide(self, segments: Segments) -> None:
        """Set the segments."""
        self.parts = _Parts(segments, self.backwards)

    def record(self, operands: list[Any], body: Body) -> Sequence[Any]:
        segments, layout = self.parts.segments, body.layout
        first, last = layout.carried, layout.carried + layout.entries
        tensors = [wrap(x) for x in operands[:last]]
        carried, stacks, shared = tensors[:first], tensors[first:], operands[last:]

        def run(before: Tensors, entries: Tensors, length: int) -> tuple[Tensors, Tensors]:
            given = [*_arrays(before), *_arrays(entries), *shared]
            results = [wrap(x) for x in run_rounds(given, body, length, self.backwards)]
            return results[:first], results[first:]

        def step(before: Tensors, entries: Tensors) -> tuple[Tensors, Tensors]:
            new, made = run(before, entries, segments.length)
            return new, [*made, *before]

        new, made = _loop_over(
            step, carried, self.parts.divided(stacks), segments.count, self.backwards
        )
        self.starts, self.start_of_rest = made[layout.made :], new
        rest: Tensors = []
        if segments.rest:
            new, rest = run(new, self.parts.rest(stacks), segments.rest)
        if self._kept is not None:
            self.starts, self.start_of_rest = self._kept.starts, self._kept.start_of_rest
            new = self._kept.last
        return _arrays([*new, *self.parts.joined(made[: layout.made], rest)])


class SegmentedRule(CountedRule):
    """The VJP rule of a loop in segments."""

    loop: Segmented
    takes_examples = False

    def _plain(self, carried: Tensors, made: Tensors) -> list[Any]:
        """Run the rounds of each segment again, and then their pullbacks."""
        pullback, loop, parts = self.pullback, self.loop, self.loop.parts
        now = [carried[k] for k in pullback.floating]
        now += [zeros_like(as_operand(self._outer[k])) for k in pullback.followed]
        seeds, stacks = [made[k] for k in pullback.seeded], loop.stacks
        rest: Tensors = []
        if parts.segments.rest:
            given = [*parts.rest(seeds), *loop.start_of_rest, *parts.rest(stacks)]
            now, rest = self._pulled_segment(parts.segments.rest, now, given)
        entries = [*parts.divided(seeds), *loop.starts, *parts.divided(stacks)]
        pull = partial(self._pulled_segment, parts.segments.length)
        now, pulled = _loop_over(pull, now, entries, parts.segments.count, not loop.backwards)
        count = len(pullback.floating)
        return self.in_order(now[:count], parts.joined(pulled, rest), now[count:])

    def _pulled_segment(
        self, length: int, before: Tensors, entries: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return cotangents and sums before a segment from those after it."""
        pullback, loop = self.pullback, self.loop
        seeded, starts = len(pullback.seeded), len(pullback.round.carried_in)
        seeds, stacks = entries[:seeded], entries[seeded + starts :]
        shared = [array for _, array in pullback.round.shared]
        given = [*_arrays(entries[seeded:]), *shared]
        again = run_rounds(given, pullback.forward, length, loop.backwards)
        kept = [wrap(x) for x in again[starts + len(pullback.round.made) :]]
        own = pullback.backward.layout.carried
        read = kept[: pullback.kept_by_rounds] + [stacks[k] for k in pullback.reread]
        operands = [*_arrays([*before[:own], *seeds, *read]), *pullback.shared]
        back = run_rounds(operands, pullback.backward, length, not loop.backwards)
        results = [wrap(x) for x in back]
        known = {"cotangent": seeds, "kept": kept, "given": stacks, "pulled": results[own:]}
        sums: list[Tensor] = [
            total + over_rounds(one, [known[kind][place] for kind, place in one.stacks])
            for total, one in zip(before[own:], pullback.later, strict=True)
        ]
        return [*results[:own], *sums], results[own : own + len(pullback.pulled)]
