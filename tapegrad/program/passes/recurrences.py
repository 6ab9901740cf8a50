"""Let loops over elements that Python has unrolled be loops again.

Programs that follow a state through time, such as filters, recurrences and integrators, are
recorded round by round. If the rounds are elementwise, but for sums, one call runs all of them. It
is compiled once for any number of rounds, and reads and writes arrays with one entry per round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.dependence import in_order, makers_of, unused_numbers
from tapegrad.program.graph.graph import Call, Graph, InnerProgram, Value, without_dead_calls
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
from tapegrad.program.passes.late_sums import with_late_sums

MOST_BYTES = 1 << 18
"""The most bytes of what a round reads of the round before, so that they stay in a cache.

Rounds of larger arrays are fused with their neighbours, which passes over memory less often.
"""

LEAST_JOINED = 3
"""The fewest results of rounds in a stack that the loop makes instead."""

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
    return rolling.graph() if rolling.found_any else graph


def _is_compiled(call: Call, loops: LoopCompiler) -> bool:
    """Whether loops can compute an elementwise call."""
    dtypes = [value.dtype for value in (*call.reads, *call.results)]
    if loops.dtypes is not None and any(dtype.name not in loops.dtypes for dtype in dtypes):
        return False
    names = loops.complex_primitives
    if names is None or call.primitive.name in names or is_view(call):
        return True
    return all(dtype.kind != "c" for dtype in dtypes)


class _Rolling:
    """A graph in which loops replace the calls of rounds."""

    def __init__(self, graph: Graph, most_bytes: int | None, put: Put) -> None:
        self._most_bytes, self._put = most_bytes, put
        self._graph, self._calls, self._makers = graph, graph.calls, makers_of(graph.calls)
        self._numbers = unused_numbers(graph)
        self._entry_of = _entries(graph.calls)
        self._gone: set[int] = set()
        self._new: list[Call] = []
        self._constants = dict(graph.constants)
        self._read_by_loop: dict[int, list[Value]] = {}
        """What a loop reads, by the numbers of its results and of what these replace."""
        self._final: dict[int, Value] = {}
        """The values that replace others, by their numbers."""
        self._home: dict[int, Entry] = {}
        """The entries of results of loops, by what they replace."""
        self._readers: dict[int, list[int]] = defaultdict(list)
        for place, call in enumerate(graph.calls):
            for value in call.reads:
                self._readers[value.number].append(place)
        for value in graph.results:
            self._readers[value.number].append(-1)

    # Loops

    def roll(self, places: Sequence[tuple[int, ...]]) -> None:
        """Replace rounds by a loop if their operands correspond."""
        rounds = matched(self._calls, places, {**self._entry_of, **self._home})
        if rounds is None:
            return
        making = _Body(self._calls, rounds, self._numbers, self._most_bytes)
        own = {place for round_ in rounds.places for place in round_}
        if making.is_possible and not self._depend(making.outer, own):
            self._make_loop(rounds, making)

    def _depend(self, values: Sequence[Value], own: set[int]) -> bool:
        """Whether any value depends on the calls of a loop; loops depend on all that they read."""
        waiting, seen, first = [*values], set[int](), min(own)
        while waiting:
            number = waiting.pop().number
            place = self._makers.get(number, -1)
            if place in own:
                return True
            if number not in seen and number in self._read_by_loop:
                waiting += self._read_by_loop[number]
            elif number not in seen and place > first:
                waiting += self._calls[place].reads
            seen.add(number)
        return False

    def _make_loop(self, rounds: Rounds, making: _Body) -> None:
        own = {place for round_ in rounds.places for place in round_}
        count = len(rounds.places)
        finals: dict[int, int] = {}
        made: list[int] = []
        for position in range(len(rounds.places[0])):
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
        like = self._calls[rounds.places[0][0]]
        arrays = [self._stack_of(entry, rounds, like) for entry in making.entries]
        results = [self._new_value(v, v.shape) for v in making.initial]
        results += [
            self._new_value(self._result(rounds.places[0], p), (count, *self._shape(rounds, p)))
            for p in made
        ]
        initial = [self._now(value, like) for value in making.initial]
        shared = [self._now(value, like) for value in making.shared]
        params = {"body": body, "length": count, "backwards": rounds.direction < 0}
        self._add(like, "counted_loop", (*initial, *arrays, *shared), params, results)
        self._gone |= own
        replaced = [self._calls[place].results[0] for place in own]
        self._read_by_loop |= {value.number: making.outer for value in (*results, *replaced)}
        for position, place in finals.items():
            self._final[self._result(rounds.places[-1], position).number] = results[place]
        for stack, position in zip(results[len(making.initial) :], made, strict=True):
            for k, round_ in enumerate(rounds.places):
                index = k if rounds.direction > 0 else count - 1 - k
                self._home[self._result(round_, position).number] = Entry(stack, 0, index)

    def _result(self, round_: Sequence[int], position: int) -> Value:
        return self._calls[round_[position]].results[0]

    def _shape(self, rounds: Rounds, position: int) -> tuple[int, ...]:
        return self._result(rounds.places[0], position).shape

    def _new_value(self, like: Value, shape: Sequence[int]) -> Value:
        return replace(like, number=next(self._numbers), shape=tuple(shape))

    def _stack_of(self, entry: Along | PerRound, rounds: Rounds, like: Call) -> Value:
        """Return the array whose entries along its first axis the rounds read."""
        count = len(rounds.places)
        if isinstance(entry, PerRound):
            numbers = entry.numbers if rounds.direction > 0 else entry.numbers[::-1]
            value = self._new_value(like.results[0], (count,))
            array = np.array(numbers, value.dtype)
            self._constants[value.number] = self._put(array, value.device)
            return value
        low = entry.first if entry.step > 0 else entry.first - count + 1
        array = self._now(entry.array, like)
        part = self._part(like, array, entry.axis, low, low + count)
        return self._moved(like, part, entry.axis, 0)

    # Calls

    def _add(
        self,
        like: Call,
        name: str,
        operands: Sequence[Any],
        params: dict[str, Any],
        results: Sequence[Value],
        aliases: bool = False,
    ) -> None:
        """Add a call that belongs to the same line of the user's code as another one."""
        self._new.append(
            replace(
                like,
                primitive=PRIMITIVES[name],
                operands=tuple(operands),
                params=params,
                results=tuple(results),
                aliases=aliases,
            )
        )

    def _view(self, like: Call, name: str, x: Value, params: Any, shape: Sequence[int]) -> Value:
        result = self._new_value(x, shape)
        self._add(like, name, (x,), params, (result,), aliases=True)
        return result

    def _part(self, like: Call, x: Value, axis: int, start: int, stop: int) -> Value:
        """Return some entries along an axis."""
        if (start, stop) == (0, x.shape[axis]):
            return x
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(start, stop, None)
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        return self._view(like, "slice", x, {"index": tuple(index)}, shape)

    def _moved(self, like: Call, x: Value, source: int, target: int) -> Value:
        """Return an array with one of its axes at another position."""
        if source == target:
            return x
        axes = [axis for axis in range(len(x.shape)) if axis != source]
        axes.insert(target, source)
        shape = [x.shape[axis] for axis in axes]
        return self._view(like, "permute_dims", x, {"axes": tuple(axes)}, shape)

    # What is left

    @property
    def found_any(self) -> bool:
        """Whether there are loops."""
        return bool(self._gone)

    def graph(self) -> Graph:
        """Return the graph with the loops, whose results replace those of the rounds."""
        graph = self._graph
        for place, call in enumerate(self._calls):
            if place in self._gone:
                continue
            if call.primitive.name in ("stack", "concat") and self._joined(call):
                continue
            self._new.append(call.with_values(tuple([self._now(x, call) for x in call.operands])))
        like = self._calls[0]
        made = replace(
            graph,
            constants=self._constants,
            outputs=tuple([self._now(value, like) for value in graph.outputs]),
            written={n: self._now(value, like) for n, value in graph.written.items()},
        )
        return without_dead_calls(replace(made, calls=in_order(self._new)))

    def _now(self, operand: Any, like: Call) -> Any:
        """Return what replaces an operand."""
        if not isinstance(operand, Value):
            return operand
        found = self._final.get(operand.number)
        entry = self._home.get(operand.number)
        if found is None and entry is not None:
            index = (entry.position, *[slice(None)] * len(operand.shape))
            found = self._view(like, "slice", entry.array, {"index": index}, operand.shape)
            self._final[operand.number] = found
        return operand if found is None else found

    def _joined(self, call: Call) -> bool:
        """Replace a stack of what rounds return by the array that the loop has made."""
        axis: int = call.params["axis"]
        parts = [self._rows_of(x, call, axis) for x in call.operands]
        if sum(isinstance(part, Entry) for part in parts) < LEAST_JOINED:
            return False
        pieces: list[Value] = []
        for start, stop in _runs(parts):
            entry = parts[start]
            if isinstance(entry, Entry):
                low = entry.position
                rows = self._part(call, entry.array, 0, low, low + stop - start)
                pieces.append(self._moved(call, rows, 0, axis))
            else:
                pieces.append(self._with_axis(call, parts[start], axis))
        if len(pieces) == 1:
            self._add(call, "identity", pieces, {}, call.results)
        else:
            sizes = tuple([piece.shape[axis] for piece in pieces])
            self._add(call, "concat", pieces, {"axis": axis, "sizes": sizes}, call.results)
        return True

    def _rows_of(self, operand: Any, call: Call, axis: int) -> Any:
        """Return the entry of a loop's result that a stack or a join has at a place."""
        if call.primitive.name == "stack":
            return self._home.get(operand.number) or self._now(operand, call)
        place = self._makers.get(operand.number)
        maker = None if place is None else self._calls[place]
        if maker is None or maker.primitive.name != "reshape" or operand.shape[axis] != 1:
            return self._now(operand, call)
        source = maker.reads[0]
        entry = self._home.get(source.number)
        is_row = (*operand.shape[:axis], *operand.shape[axis + 1 :]) == source.shape
        return entry if entry is not None and is_row else self._now(operand, call)

    def _with_axis(self, call: Call, x: Any, axis: int) -> Value:
        if call.primitive.name == "concat":
            piece: Value = x
            return piece
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self._view(call, "reshape", x, {"shape": shape}, shape)


def _runs(parts: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of neighbouring entries of one array, in their order."""
    start = 0
    for place in range(1, len(parts) + 1):
        if place < len(parts) and isinstance(parts[place], Entry):
            before, here = parts[place - 1], parts[place]
            if isinstance(before, Entry) and here == before.following:
                continue
        yield start, place
        start = place


def _entries(calls: Sequence[Call]) -> dict[int, Entry]:
    """Return the values that are one entry of an array, by their numbers."""
    found: dict[int, Entry] = {}
    rows: dict[int, Entry] = {}
    for call in calls:
        if call.region or not call.reads:
            continue
        if call.primitive.name == "unstack":
            axis = call.params["axis"] % len(call.reads[0].shape)
            for position, value in enumerate(call.results):
                found[value.number] = Entry(call.reads[0], axis, position)
        if call.primitive.name == "reshape":
            entry = rows.get(call.reads[0].number)
            if entry is not None and call.results[0].shape == _without(entry):
                found[call.results[0].number] = entry
        if call.primitive.name == "slice":
            entry, is_row = _sliced(call)
            if entry is not None:
                (rows if is_row else found)[call.results[0].number] = entry
    return found


def _without(entry: Entry) -> tuple[int, ...]:
    """Return the shape of an entry."""
    shape = entry.array.shape
    return (*shape[: entry.axis], *shape[entry.axis + 1 :])


def _sliced(call: Call) -> tuple[Entry | None, bool]:
    """Return the only entry that a slice reads, and whether the slice has an axis for it."""
    source, index = call.reads[0], call.params["index"]
    if not all(isinstance(part, int | slice) for part in index):  # new axes
        return None, False
    ranges = [
        range(part, part + 1) if isinstance(part, int) else range(*part.indices(length))
        for part, length in zip(index, source.shape)
    ]
    changed = [axis for axis, part in enumerate(ranges) if part != range(source.shape[axis])]
    numbers = [axis for axis, part in enumerate(index) if isinstance(part, int)]
    at = numbers or changed
    if len(at) != 1 or len(ranges[at[0]]) != 1 or not set(changed) <= set(at):
        return None, False
    return Entry(source, at[0], ranges[at[0]].start % source.shape[at[0]]), not numbers


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
        return self._fresh(entry.array, _without(Entry(entry.array, entry.axis, 0)))

    def _template_of(self, entry: PerRound) -> Call:
        pairs = zip(self._template, self._rounds.operands)
        return next(call for call, operands in pairs if entry in operands)
