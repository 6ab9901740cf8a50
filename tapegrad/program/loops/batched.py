"""Loops inside `vmap`: one loop whose rounds compute all examples.

A round takes and returns arrays with axes of examples first, as far as its values differ between
examples. If the condition of a loop does, the loop runs until no example goes on, and the values of
the others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.autodiff.batching import (
    current_frame,
    frames_around,
    in_frame,
    is_batched,
    unwrap,
    with_examples,
    wrap_levels,
)
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import NUMBERS
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction.functions import reduce_any
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.program.loops.body_recording import NotOneLoop

Values = list[Any]
Levels = tuple[int, ...]
Step = Callable[[Values, Values], tuple[Sequence[Any], Sequence[Any]]]
NextValues = Callable[[Values], Sequence[Any]]


class _Wider(Exception):  # noqa: N818  # it never leaves this file
    """A carried value differs between examples after a round, and does not before it."""

    def __init__(self, place: int, levels: Levels) -> None:
        super().__init__()
        self.place, self.levels = place, levels


class _Examples:
    """The carried values and stacks of a loop for one example, and for all of them."""

    def __init__(self, carried: Values, stacks: Values) -> None:
        self.frame = current_frame()
        self.sizes = {one.level: one.size for one in frames_around(self.frame)}
        for value in (*carried, *stacks):
            inside, levels = unwrap(value)
            self.sizes.update(zip(levels, inside.shape))
        self.carried = [unwrap(value) for value in carried]
        fronted = [unwrap(value) for value in stacks]
        self.stacks = [(moveaxis(x, len(own), 0) if own else x, own) for x, own in fronted]
        self.made: list[Levels] = []

    def widen(self, place: int, levels: Levels) -> None:
        """Let a carried value have axes for more levels."""
        inside, own = self.carried[place]
        wanted = tuple(sorted({*own, *levels}))
        self.carried[place] = (self.spread(inside, own, wanted), wanted)

    def spread(self, inside: Any, own: Levels, wanted: Levels) -> Any:
        """Repeat a value along the axes of more levels."""
        return with_examples(inside, own, {level: self.sizes[level] for level in wanted})

    def for_one(self, values: Values, levels: Sequence[Levels]) -> Values:
        """Return arrays of all examples as the values of one example."""
        return [wrap_levels(x, own) for x, own in zip(values, levels, strict=True)]

    def carried_on(self, values: Sequence[Any], before: Values) -> Values:
        """Return new carried values of one example as arrays of all examples."""
        found = []
        pairs = zip(values, self.carried, before, strict=True)
        for place, (value, (_, wanted), old) in enumerate(pairs):
            if type(value) in NUMBERS:
                value = cast(as_operand(value), old.dtype)
            inside, own = unwrap(as_operand(value))
            if not {*own} <= {*wanted}:
                raise _Wider(place, own)
            found.append(self.spread(inside, own, wanted))
        return found

    def run(self, loop: Callable[[Values], Any]) -> Any:
        """Run a loop on the carried values, again as long as some of them must be wider."""
        while True:
            try:
                with in_frame(None):
                    return loop([inside for inside, _ in self.carried])
            except _Wider as found:
                self.widen(found.place, found.levels)


def is_for_many(values: Sequence[Any]) -> bool:
    """Whether a loop runs inside `vmap`, or one of its values stands for many examples."""
    return current_frame() is not None or any(is_batched(value) for value in values)


def batched_loop(
    record: Callable[..., Any],
    step: Step,
    carried: Values,
    stacks: Values,
    length: int,
    backwards: bool,
) -> Any:
    """Record a counted loop over all examples by `record`."""
    examples = _Examples(carried, stacks)
    of_entries = [own for _, own in examples.stacks]

    def together(before: Values, entries: Values) -> tuple[Values, Values]:
        with in_frame(examples.frame):
            new, made = step(
                examples.for_one(before, [own for _, own in examples.carried]),
                examples.for_one(entries, of_entries),
            )
            parts = [unwrap(as_operand(value)) for value in made]
            examples.made = [own for _, own in parts]
            return examples.carried_on(new, before), [inside for inside, _ in parts]

    given = [inside for inside, _ in examples.stacks]
    found = examples.run(lambda start: record(together, start, given, length, backwards))
    last = examples.for_one(found[0], [own for _, own in examples.carried])
    pairs = zip(found[1], examples.made, strict=True)
    stacked = [moveaxis(x, 0, len(own)) if own else x for x, own in pairs]
    return last, examples.for_one(stacked, examples.made)


def batched_while(
    record: Callable[..., Any], step: NextValues, carried: Values, most: int | None
) -> Any:
    """Record a loop over all examples that ends by its first carried value."""
    if is_batched(carried[0]):
        return _until_all_are_done(record, step, carried, most)
    examples = _Examples(carried, [])

    def together(before: Values) -> Values:
        with in_frame(examples.frame):
            new = step(examples.for_one(before, [own for _, own in examples.carried]))
            if is_batched(new[0]):
                raise _Wider(0, unwrap(new[0])[1])
            return examples.carried_on(new, before)

    try:
        with in_frame(None):
            found = _while(record, together, examples, most)
    except _Wider as wider:
        if wider.place:
            raise
        wide = examples.spread(examples.carried[0][0], (), wider.levels)
        start = [wrap_levels(wide, wider.levels), *carried[1:]]
        return _until_all_are_done(record, step, start, most)
    return examples.for_one(found, [own for _, own in examples.carried])


def _while(record: Callable[..., Any], step: NextValues, examples: _Examples, most: Any) -> Any:
    """Record a loop, again as long as values other than the condition must be wider."""
    while True:
        try:
            return record(step, [inside for inside, _ in examples.carried], most)
        except _Wider as found:
            if not found.place:
                raise
            examples.widen(found.place, found.levels)


def _until_all_are_done(
    record: Callable[..., Any], step: NextValues, carried: Values, most: int | None
) -> Any:
    """Record a loop whose examples end at different rounds."""
    examples = _Examples(carried, [])

    def together(before: Values) -> Values:
        with in_frame(examples.frame):
            old = examples.for_one(before[1:], [own for _, own in examples.carried])
            goes_on, *new = step(old)
            if len(new) != len(old) - 1:
                raise NotOneLoop("it returns another number of values")
            chosen = [where(old[0], one, same) for one, same in zip(new, old[1:], strict=True)]
            flags, *rest = examples.carried_on([logical_and(old[0], goes_on), *chosen], before[1:])
        return [reduce_any(flags), flags, *rest]

    found = examples.run(lambda start: record(together, [reduce_any(start[0]), *start], most))
    return examples.for_one(found[1:], [own for _, own in examples.carried])
