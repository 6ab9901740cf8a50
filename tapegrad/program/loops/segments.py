"""Whether and how the rounds of a loop are divided into segments to save memory.

The gradient of a loop reads what each round has kept. A divided loop keeps what it carries at the
beginning of each segment only, and its gradient runs the rounds of one segment after the other
again. `recompute_grad` asks for that, and so does a memory budget that what is kept would exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import isqrt

from tapegrad.core.recorder import current_region, current_segments
from tapegrad.program.graph.graph import Value
from tapegrad.program.loops.pullback import Pullback
from tapegrad.program.loops.tracing import Round

LEAST_ROUNDS = 16
"""The least rounds of a loop that is divided."""


@dataclass(frozen=True)
class Segments:
    """A loop as `count` segments of `length` rounds, and `rest` rounds that run after them."""

    count: int
    length: int
    rest: int


class LoopBudget:
    """The bytes that the loops of a recording may keep for their gradients."""

    def __init__(self, most: int) -> None:
        self._left = most

    def has_room(self, count: int) -> bool:
        """Whether so many bytes may be kept, too."""
        return count <= self._left

    def take(self, count: int) -> None:
        """Count bytes that are kept until the gradient is computed."""
        self._left -= count


_budget: ContextVar[LoopBudget | None] = ContextVar("tapegrad_loop_budget", default=None)
_all_divided: ContextVar[bool] = ContextVar("tapegrad_divided_loops", default=False)


@contextmanager
def within_budget(budget: int | None) -> Iterator[None]:
    """Let recorded loops keep at most half of a memory budget; None is no limit.

    >>> with within_budget(1 << 20):
    ...     pass
    """
    token = _budget.set(None if budget is None else LoopBudget(budget // 2))
    try:
        yield
    finally:
        _budget.reset(token)


@contextmanager
def dividing_inner_loops() -> Iterator[None]:
    """Divide all loops that are recorded inside the block."""
    token = _all_divided.set(True)
    try:
        yield
    finally:
        _all_divided.reset(token)


def segments_of(pullback: Pullback, length: int, is_inner: bool) -> Segments | None:
    """Return how a loop is divided, None if it keeps what each round needs.

    An inner loop belongs to the body of another one, which counts what the loops in it keep.
    """
    carried, kept = _bytes(pullback.round.carried_in), kept_bytes(pullback)
    if length < LEAST_ROUNDS or not kept:
        return None
    if current_region() or _all_divided.get() or _runs_again(pullback):
        return _divided(length, carried, kept, current_segments())
    budget = _budget.get()
    if budget is None:
        return None
    if budget.has_room(length * kept):
        if not is_inner:
            budget.take(length * kept)
        return None
    return _divided(length, carried, kept, None)


def may_be_kept(found: Round, length: int) -> bool:
    """Whether the first run of a loop keeps what its gradient continues from.

    Rounds that assign variables, such as states of generators, begin with other values when they
    run again.
    """
    return length >= LEAST_ROUNDS and not found.states


def segments_of_first_run(pullback: Pullback, length: int, count: int | None) -> Segments | None:
    """Return how a loop is divided whose gradient will run its rounds again, None if it is not."""
    kept = kept_bytes(pullback)
    return _divided(length, _bytes(pullback.round.carried_in), kept, count) if kept else None


def is_too_large(segments: Segments, pullback: Pullback) -> bool:
    """Whether even a divided loop keeps more than the budget, and inner loops could be divided."""
    budget = _budget.get()
    if budget is None or not any("loop" in c.primitive.name for c in pullback.forward_calls):
        return False
    kept = segments.count * _bytes(pullback.round.carried_in)
    return not budget.has_room(kept + segments.length * kept_bytes(pullback))


def kept_bytes(pullback: Pullback) -> int:
    """Return the bytes that the gradient needs per round, besides results of the loop itself."""
    found = pullback.round
    made = {value.number for value in found.made}
    # A value before a round is the one after the round before it.
    after = zip(found.carried_in, found.carried_out)
    known = made | {before.number for before, new in after if new.number in made}
    kept = {value.number: value for value in pullback.kept if value.number not in known}
    return _bytes([*kept.values(), *pullback.backward.specs[len(pullback.pulled) :]])


def _runs_again(pullback: Pullback) -> bool:
    """Whether the gradient of a round runs the whole round again from what it carries."""
    carried = {value.number for value in pullback.round.carried_in}
    calls = pullback.backward.recorded.calls
    return any(call.region for call in calls) and carried >= {v.number for v in pullback.kept}


def _divided(length: int, carried: int, kept: int, count: int | None) -> Segments:
    """Return the given number of segments, or the one that needs the least memory.

    With segments of s rounds, n / s beginnings and what s rounds keep exist at the same time.
    """
    if count is not None:
        return _of_length(length, -(-length // min(count, length)))
    best = min(max(isqrt(length * carried // kept), 2), length)
    # Without rest, stacks need not be put together.
    exact = [s for s in range(best * 3 // 4, best * 4 // 3 + 1) if s and length % s == 0]
    return _of_length(length, min(exact, key=lambda s: abs(s - best), default=best))


def _of_length(length: int, rounds: int) -> Segments:
    return Segments(length // rounds, rounds, length % rounds)


def _bytes(values: Sequence[Value]) -> int:
    return sum([value.nbytes for value in values])
