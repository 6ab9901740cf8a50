"""Let loops over elements that Python has unrolled be loops again.

Programs that follow a state through time, such as filters, recurrences and integrators, are
recorded round by round. If the rounds are elementwise, but for sums, one call runs all of them. It
is compiled once for any number of rounds, and reads and writes arrays with one entry per round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.graph import Call, Graph, InnerProgram, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.recurrences import (
    LEAST_ROUNDS,
    Along,
    Entry,
    Operand,
    Own,
    PerRound,
    Rounds,
    matched,
    rounds_of,
)
from tapegrad.program.passes.entry_calls import EntryCalls, entries
from tapegrad.program.passes.late_sums import with_late_sums

MOST_BYTES = 1 << 18
"""The most bytes of what a round reads of the round before, so that they stay in a cache.

Rounds of larger arrays are fused with their neighbours, which passes over memory less often.
"""

MakeBody = Callable[[Graph, int, int, int, int], InnerProgram]
"""Makes the body of a loop from the graph of a round.

The numbers say how many carried values, entries and shared values it takes, and how many stacks the
loop makes.
"""

Put = Callable[[np.ndarray, str], Any]

_bodies: list[MakeBody] = []


def _as_it_is(array: np.ndarray, device: str) -> Any:
    return array


def register_bodies(make: MakeBody) -> None:
    """Set how the body of a loop is made."""
    _bodies[:] = [make]


def with_recurrences(
    graph: Graph, loops: LoopCompiler, in_one_launch: bool = False, put: Put = _as_it_is
) -> Graph:
    """Replace elementwise rounds by loops, if `loops` can compile all of their calls.

    If all rounds are `in_one_launch`, they have no sums, and what they carry may be large, because
    it stays in registers. `put` copies an array to a device.
    """
    if len(graph.calls) < 2 * LEAST_ROUNDS or not _bodies:
        return graph
    given = with_late_sums(graph) if in_one_launch else graph
    rolling = _Rolling(given, None if in_one_launch else MOST_BYTES, put)
    for places in rounds_of(given.calls, with_sums=not in_one_launch):
        if all(_is_compiled(given.calls[place], loops) for place in places[0]):
            rolling.roll(places)
    return rolling.rolled() if rolling.gone else graph


def _is_compiled(call: Call, loops: LoopCompiler) -> bool:
    """Whether loops can compute an elementwise call."""
    dtypes = [value.dtype for value in (*call.reads, *call.results)]
    if loops.dtypes is not None and any(dtype.name not in loops.dtypes for dtype in dtypes):
        return False
    names = loops.complex_primitives
    if names is None or call.primitive.name in names or is_view(call):
        return True
    return all(dtype.kind != "c" for dtype in dtypes)


class _Rolling(EntryCalls):
    """A graph in which loops replace the calls of rounds."""

    def __init__(self, graph: Graph, most_bytes: int | None, put: Put) -> None:
        super().__init__(graph)
        self._most_bytes, self._put = most_bytes, put
        self._entry_of = entries(graph.calls)
        self._constants = dict(graph.constants)
        self._read_by_loop: dict[int, list[Value]] = {}
        """What a loop reads, by the numbers of its results and of what these replace."""
        self._readers: dict[int, list[int]] = defaultdict(list)
        for place, call in enumerate(graph.calls):
            for value in call.reads:
                self._readers[value.number].append(place)
        for value in graph.results:
            self._readers[value.number].append(-1)

    # Loops

    def roll(self, places: Sequence[tuple[int, ...]]) -> None:
        """Replace rounds by a loop if their operands correspond."""
        rounds = matched(self.calls, places, {**self._entry_of, **self.home})
        if rounds is None:
            return
        making = _Body(self.calls, rounds, self.numbers, self._most_bytes)
        own = {place for round_ in rounds.places for place in round_}
        if making.is_possible and not self._depend(making.outer, own):
            self._make_loop(rounds, making)

    def _depend(self, values: Sequence[Value], own: set[int]) -> bool:
        """Whether any value depends on the calls of a loop; loops depend on all that they read."""
        waiting, seen, first = [*values], set[int](), min(own)
        while waiting:
            number = waiting.pop().number
            place = self.makers.get(number, -1)
            if place in own:
                return True
            if number not in seen and number in self._read_by_loop:
                waiting += self._read_by_loop[number]
            elif number not in seen and place > first:
                waiting += self.calls[place].reads
            seen.add(number)
        return False

    def _make_loop(self, rounds: Rounds, making: _Body) -> None:
        own = {place for round_ in rounds.places for place in round_}
        count = len(rounds.places)
        finals: dict[int, int] = {}
        made: list[int] = []
        apart = self._apart(rounds)
        for position in range(len(rounds.places[0])):
            if position in apart:
                continue
            needed = [
                k
                for k, round_ in enumerate(rounds.places)
                if any(p not in own for p in self._readers[self._result(round_, position).number])
            ]
            if needed == [count - 1] and (position, 1) in making.carried:
                finals[position] = making.carried[position, 1]
            elif needed:
                made.append(position)
        body = making.body(made)
        like = self.calls[rounds.places[0][0]]
        arrays = [self._stack_of(entry, rounds, like) for entry in making.entries]
        results = [self.new_value(v, v.shape) for v in making.initial]
        results += [
            self.new_value(self._result(rounds.places[0], p), (count, *self._shape(rounds, p)))
            for p in made
        ]
        initial = [self.now(value, like) for value in making.initial]
        shared = [self.now(value, like) for value in making.shared]
        params = {"body": body, "length": count, "backwards": rounds.direction < 0}
        self.add(like, "counted_loop", (*initial, *arrays, *shared), params, results)
        self.gone |= own
        replaced = [self.calls[place].results[0] for place in own]
        self._read_by_loop |= {value.number: making.outer for value in (*results, *replaced)}
        for position, place in finals.items():
            self.final[self._result(rounds.places[-1], position).number] = results[place]
        stacks = dict(zip(made, results[len(making.initial) :], strict=True))
        stacks |= self._make_apart(rounds, apart)
        for position, stack in stacks.items():
            for k, round_ in enumerate(rounds.places):
                index = k if rounds.direction > 0 else count - 1 - k
                self.home[self._result(round_, position).number] = Entry(stack, 0, index)

    def _apart(self, rounds: Rounds) -> list[int]:
        """Return the calls of a round that one call outside of the loop makes for all rounds.

        They do not depend on other rounds. These are views and, if one launch runs all rounds,
        values that are smaller than others: all of its stacks have entries of one size.
        """
        found: list[int] = []
        sizes = [prod(self._shape(rounds, position)) for position in range(len(rounds.operands))]
        for position, operands in enumerate(rounds.operands):
            call = self.calls[rounds.places[0][position]]
            is_small = self._most_bytes is None and sizes[position] < max(sizes)
            if (is_small or is_view(call)) and all(
                not isinstance(x, Own) or (x.before == 0 and x.place in found) for x in operands
            ):
                found.append(position)
        return found

    def _make_apart(self, rounds: Rounds, apart: Sequence[int]) -> dict[int, Value]:
        """Return what all rounds compute at some positions, one entry after the other."""
        stacks: dict[int, Value] = {}
        count = len(rounds.places)
        for position in apart:
            like = self.calls[rounds.places[0][position]]
            operands: list[Any] = []
            for operand in rounds.operands[position]:
                if isinstance(operand, Own):
                    operands.append(self.aligned(stacks[operand.place], like))
                elif isinstance(operand, Along | PerRound):
                    operands.append(self.aligned(self._stack_of(operand, rounds, like), like))
                else:
                    operands.append(self.now(operand, like))
            stacks[position] = self.batched(like, operands, count)
        return stacks

    def _result(self, round_: Sequence[int], position: int) -> Value:
        return self.calls[round_[position]].results[0]

    def _shape(self, rounds: Rounds, position: int) -> tuple[int, ...]:
        return self._result(rounds.places[0], position).shape

    def _stack_of(self, entry: Along | PerRound, rounds: Rounds, like: Call) -> Value:
        """Return the array whose entries along its first axis the rounds read."""
        count = len(rounds.places)
        if isinstance(entry, PerRound):
            numbers = entry.numbers if rounds.direction > 0 else entry.numbers[::-1]
            value = self.new_value(like.results[0], (count,))
            array = np.array(numbers, value.dtype)
            self._constants[value.number] = self._put(array, value.device)
            return value
        low = entry.first if entry.step > 0 else entry.first - count + 1
        array = self.now(entry.array, like)
        part = self.part(like, array, entry.axis, low, low + count)
        return self.moved(like, part, entry.axis, 0)

    def rolled(self) -> Graph:
        """Return the graph with the loops, whose results replace those of the rounds."""
        return self.graph(self._constants)


class _Body:
    """The body of a loop while it is made."""

    def __init__(
        self,
        calls: Sequence[Call],
        rounds: Rounds,
        numbers: Iterator[int],
        most_bytes: int | None,
    ) -> None:
        self._rounds, self._numbers = rounds, numbers
        self._template = [calls[place] for place in rounds.places[0]]
        self.is_possible = True
        self.carried: dict[tuple[int, int], int] = {}
        """The places of carried values: results of calls, and how many rounds before."""
        self.initial: list[Value] = []
        self.entries: list[Along | PerRound] = []
        self.shared: list[Value] = []
        for call, operands in zip(self._template, rounds.operands):
            for operand in operands:
                self._note(operand, call)
        known = sum(value.nbytes for value in (*self.initial, *self.shared))
        if not self.initial or (most_bytes is not None and known > most_bytes):
            self.is_possible = False

    @property
    def outer(self) -> list[Value]:
        """The values from before the loop."""
        arrays = [entry.array for entry in self.entries if isinstance(entry, Along)]
        return [*self.initial, *arrays, *self.shared]

    def _note(self, operand: Operand, call: Call) -> None:
        if isinstance(operand, Own):
            for k, value in enumerate(operand.initial):
                key = operand.place, operand.before - k
                place = self.carried.setdefault(key, len(self.initial))
                if place == len(self.initial):
                    self.initial.append(value)
                elif self.initial[place].number != value.number:
                    self.is_possible = False
        elif isinstance(operand, PerRound):
            # A number has the dtype of the array beside it.
            if operand not in self.entries:
                self.entries.append(operand)
            reads = {value.dtype for value in call.reads}
            is_plain = all(type(number) in (int, float) for number in operand.numbers)
            (dtype,) = {value.dtype for value in call.results}
            if reads != {dtype} or dtype.kind != "f" or not is_plain:
                self.is_possible = False
        elif isinstance(operand, Along):
            if operand not in self.entries:
                self.entries.append(operand)
        elif isinstance(operand, Value) and operand not in self.shared:
            self.shared.append(operand)

    def body(self, made: Sequence[int]) -> InnerProgram:
        """Return the body, which also returns the results of some calls for each round."""
        given = [self._fresh(value, value.shape) for value in self.initial]
        entries = [self._fresh_entry(entry) for entry in self.entries]
        shared = [self._fresh(value, value.shape) for value in self.shared]
        results: list[Value] = []
        calls = []
        for call, operands in zip(self._template, self._rounds.operands):
            reads = []
            for operand in operands:
                if isinstance(operand, Own):
                    at = self.carried.get((operand.place, operand.before))
                    reads.append(results[operand.place] if at is None else given[at])
                elif isinstance(operand, Along | PerRound):
                    reads.append(entries[self.entries.index(operand)])
                elif isinstance(operand, Value):
                    reads.append(shared[self.shared.index(operand)])
                else:
                    reads.append(operand)
            results.append(self._fresh(call.results[0], call.results[0].shape))
            calls.append(call.with_values(tuple(reads), (results[-1],)))
        after = [
            results[place] if before == 1 else given[self.carried[place, before - 1]]
            for place, before in self.carried
        ]
        outputs = (*after, *[results[place] for place in made])
        graph = Graph((*given, *entries, *shared), {}, {}, tuple(calls), outputs)
        return _bodies[0](graph, len(given), len(entries), len(shared), len(made))

    def _fresh(self, like: Value, shape: Sequence[int]) -> Value:
        return replace(like, number=next(self._numbers), shape=tuple(shape))

    def _fresh_entry(self, entry: Along | PerRound) -> Value:
        if isinstance(entry, PerRound):
            return self._fresh(self._template_of(entry).results[0], ())
        return self._fresh(entry.array, Entry(entry.array, entry.axis, 0).shape)

    def _template_of(self, entry: PerRound) -> Call:
        pairs = zip(self._template, self._rounds.operands)
        return next(call for call, operands in pairs if entry in operands)
