"""Find the rounds of a loop over elements that Python has unrolled.

In each round the same elementwise calls and sums read what earlier rounds have computed, one entry
of some arrays, and values that are the same in all rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapegrad.core.exact_key import exact_key
from tapegrad.program.graph.formulas import COMBINING, weight_of
from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.repetition import repetitions

LEAST_ROUNDS = 16
"""Fewer rounds are left as they are."""

MOST_BEFORE = 3
"""How many rounds before its own a round may look at."""


@dataclass(frozen=True)
class Entry:
    """One entry of an array along an axis."""

    array: Value
    axis: int
    position: int

    @property
    def following(self) -> Entry:
        return Entry(self.array, self.axis, self.position + 1)

    @property
    def shape(self) -> Shape:
        return (*self.array.shape[: self.axis], *self.array.shape[self.axis + 1 :])


@dataclass(frozen=True)
class Own:
    """What a call of the same round or of an earlier one makes."""

    place: int
    """The position of the call in its round."""
    before: int
    """How many rounds earlier; 0 for the same round."""
    initial: tuple[Value, ...] = ()
    """What the first rounds read instead, so many values."""


@dataclass(frozen=True)
class Along:
    """The entries of an array in the order of the rounds."""

    array: Value
    axis: int
    first: int
    step: int


@dataclass(frozen=True)
class PerRound:
    """A number in each round; 0.0 and -0.0 are different."""

    numbers: tuple[Any, ...] = field(compare=False)
    key: tuple[Any, ...]


Operand = Own | Along | PerRound | Value | Any
"""Where an operand of a round comes from; a value or a number is the same in all rounds."""


@dataclass(frozen=True)
class Rounds:
    """Equal rounds: the positions of their calls, and the operands of each call of a round."""

    places: tuple[tuple[int, ...], ...]
    operands: tuple[tuple[Operand, ...], ...]

    @property
    def direction(self) -> int:
        """1 if rounds read arrays from the first entry to the last one, -1 the other way round."""
        steps = {x.step for own in self.operands for x in own if isinstance(x, Along)}
        return min(steps, default=1)


def rounds_of(calls: Sequence[Call], with_sums: bool) -> list[list[tuple[int, ...]]]:
    """Return, for each loop, the positions of the calls of its rounds.

    Without sums, rounds consist of elementwise calls and views.
    """
    chosen = [place for place, call in enumerate(calls) if _is_taken(call, with_sums)]
    numbers: dict[Any, int] = {}
    symbols = [numbers.setdefault(_symbol(calls[p]), len(numbers)) for p in chosen]
    found = []
    for start, length, longest in repetitions(symbols, least_rounds=LEAST_ROUNDS):
        period = _shortest_period(symbols[start : start + length], longest)
        if length >= LEAST_ROUNDS * period:
            stops = range(start, start + length - period + 1, period)
            found.append([tuple(chosen[first : first + period]) for first in stops])
    return found


def _shortest_period(symbols: Sequence[int], period: int) -> int:
    """Return the shortest period of symbols of which a multiple is known."""
    for short in range(1, period):
        if period % short == 0 and symbols[short:] == symbols[:-short]:
            return short
    return period


def _is_taken(call: Call, with_sums: bool) -> bool:
    """Whether a call may be part of a round: elementwise calls, views and reductions."""
    if call.region or len(call.results) != 1 or not call.reads:
        return False
    if is_view(call) or (with_sums and call.primitive.name in COMBINING):
        return True
    return call.primitive.by_element and weight_of(call) is not None


def _symbol(call: Call) -> Any:
    operands = tuple([
        (x.shape, x.dtype, x.device) if isinstance(x, Value) else type(x) for x in call.operands
    ])  # fmt: skip
    params = tuple([(name, exact_key(value)) for name, value in call.params.items()])
    result = call.results[0]
    key = call.primitive.name, params, operands, result.shape, result.dtype
    try:
        hash(key)
    except TypeError:
        return id(call)
    return key


def matched(
    calls: Sequence[Call], places: Sequence[tuple[int, ...]], entry_of: Mapping[int, Entry]
) -> Rounds | None:
    """Return the most consecutive rounds around the middle whose operands correspond.

    Calls whose operands do not, such as those that read a reduction of a round, and calls that read
    these, are left out of the rounds. `entry_of` has the values, by their numbers, that are entries
    of arrays.
    """
    own = {
        calls[p].results[0].number: (place, number)
        for number, round_ in enumerate(places)
        for place, p in enumerate(round_)
    }
    middle = len(places) // 2
    kinds = [
        [
            _Kind([calls[round_[place]].operands[position] for round_ in places], own, entry_of)
            for position in range(len(calls[places[0][place]].operands))
        ]
        for place in range(len(places[0]))
    ]
    kept = _corresponding(kinds, len(places))
    first = max([kind.first for place in kept for kind in kinds[place]], default=0)
    last = min([kind.last for place in kept for kind in kinds[place]], default=0)
    if last - first < LEAST_ROUNDS or not first <= middle < last:
        return None
    new = {place: k for k, place in enumerate(kept)}
    operands = tuple([
        tuple([kind.operand(first, last, new) for kind in kinds[place]]) for place in kept
    ])  # fmt: skip
    rounds = tuple([tuple([round_[place] for place in kept]) for round_ in places[first:last]])
    steps = {x.step for row in operands for x in row if isinstance(x, Along)}
    return Rounds(rounds, operands) if len(steps) < 2 else None


def _corresponding(kinds: Sequence[Sequence[_Kind]], count: int) -> list[int]:
    """Return the places of the calls whose operands correspond in at least half of the rounds."""
    kept = {
        place
        for place, row in enumerate(kinds)
        if all(2 * (kind.last - kind.first) >= count for kind in row)
    }
    while True:
        lost = {
            place
            for place in kept
            if any(kind.source is not None and kind.source not in kept for kind in kinds[place])
        }
        if not lost:
            return sorted(kept)
        kept -= lost


class _Kind:
    """What an operand is in the middle round, and in which other rounds it is the like of that."""

    def __init__(
        self,
        given: Sequence[Any],
        own: Mapping[int, tuple[int, int]],
        entry_of: Mapping[int, Entry],
    ) -> None:
        middle = len(given) // 2
        self._given, self._middle, self._own, self._entry_of = given, middle, own, entry_of
        self._here, following = self._entry(middle), self._entry(middle + 1)
        self._step = 0
        if self._here is not None and following is not None:
            self._step = following.position - self._here.position
        here = given[middle]
        self._kind: Any = self._made(middle) if isinstance(here, Value) else type(here)
        if self._kind is None and here.number == getattr(given[middle + 1], "number", None):
            self._kind = here.number
        elif self._kind is None and abs(self._step) == 1:
            self._kind = self._here
        count = len(given)
        self.first = max([k + 1 for k in range(middle) if not self.fits(k)], default=0)
        self.last = min([k for k in range(middle, count) if not self.fits(k)], default=count)

    @property
    def source(self) -> int | None:
        """The place of the call of a round that makes the operand, if one does."""
        return self._kind.place if isinstance(self._kind, Own) else None

    def _entry(self, k: int) -> Entry | None:
        value = self._given[k]
        return self._entry_of.get(value.number) if isinstance(value, Value) else None

    def _made(self, k: int) -> Own | None:
        """Return by which call, and how many rounds earlier, the operand of a round is made."""
        made = self._own.get(self._given[k].number)
        return None if made is None else Own(made[0], k - made[1])

    def fits(self, k: int) -> bool:
        """Whether the operand of a round corresponds to that of the middle round."""
        kind, value = self._kind, self._given[k]
        if not isinstance(value, Value):
            return bool(type(value) is kind)
        if isinstance(kind, Own):
            here = self._given[self._middle]
            if (value.shape, value.dtype, value.device) != (here.shape, here.dtype, here.device):
                return False
            made = self._made(k)
            return kind.before <= MOST_BEFORE and (
                made == kind or (made is None and k < kind.before)
            )
        if isinstance(kind, Entry):
            entry = self._entry(k)
            position = kind.position + self._step * (k - self._middle)
            return entry is not None and entry == Entry(kind.array, kind.axis, position)
        return bool(value.number == kind)

    def operand(self, first: int, last: int, places: Mapping[int, int]) -> Operand:
        """Return the operand of the rounds from `first` to `last`, at the new places of calls."""
        kind, given = self._kind, tuple(self._given[first:last])
        if isinstance(kind, Own):
            return Own(places[kind.place], kind.before, given[: kind.before])
        if isinstance(kind, Entry):
            position = kind.position + self._step * (first - self._middle)
            return Along(kind.array, kind.axis, position, self._step)
        if isinstance(kind, int) or len({exact_key(number) for number in given}) == 1:
            return given[0]
        return PerRound(given, tuple(map(exact_key, given)))
