"""Fuse the repeated parts of a long program once.

A loop of the user's Python code is recorded round by round, and equal layers are recorded one after
the other. Fusion takes longer the more calls it sees at once, so a long program is cut into
consecutive parts where its calls repeat. Parts that are equal but for the numbers of their values
share one fused form, whose loops are compiled once. Nothing is fused across the cuts; they are
placed where the fewest bytes pass from one elementwise call to another.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from tapegrad.core.background import checkpoint
from tapegrad.program.fusion.call_kinds import CallKinds, params_of
from tapegrad.program.fusion.fusion import Takes, fused, is_constant
from tapegrad.program.fusion.gathers import Gathers, from_any_table
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.fusion.outer_combinations import Recomputes, stores_all
from tapegrad.program.fusion.recomputation import CHEAP, MOST_READ
from tapegrad.program.fusion.row_groups import TakesStages, without_stages
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.formulas import HEAVY
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.iteration_spaces import is_view
from tapegrad.program.graph.repetition import repetitions
from tapegrad.program.graph.row_sums import AddsRows, without_row_sums
from tapegrad.program.graph.short_products import fusible_weight
from tapegrad.program.graph.windows import GATHERS, PARTS, STEADY

LEAST_CALLS = 4000
"""Shorter programs are fused as a whole, which finds a little more to fuse."""

MOST_CALLS = 20_000
"""The most calls that are fused at once, since sets of calls have a bit for each."""

REPEATED_EXACTLY = 0.9
"""The share of a program that repeats, with all slices, for which no other cut is sought."""

MOST_FORMS = 0.25
"""The share of different parts among those that are equal up to slices.

If there are more, loops do not look through the slices in which the parts differ.
"""

SLICES = PARTS | {"unslice"}
"""Windows that often depend on the round of a loop."""

SHORTEST = 16
"""The least calls of a part that repeats: several rounds of shorter loops make one part."""


def fused_in_parts(
    graph: Graph,
    takes: Takes,
    cheap: int = CHEAP,
    windows: Collection[str] = (),
    takes_stages: TakesStages = without_stages,
    recomputes: Recomputes = stores_all,
    adds_rows: AddsRows = without_row_sums,
    gathers: Gathers = from_any_table,
) -> list[Call | Fused]:
    """Return the steps in order, like `fused`; equal parts of a long program are fused once.

    To meet a memory budget, values are recomputed wherever they are read, so nothing is cut then.
    """
    if len(graph.calls) < LEAST_CALLS or cheap != CHEAP:
        return fused(graph, takes, cheap, windows, takes_stages, recomputes, adds_rows, gathers)
    kinds = CallKinds(takes)
    graph = _with_early_calls(graph, kinds)
    ranges = _ranges(graph, kinds, windows)
    if len(ranges) == 1 and len(graph.calls) <= MOST_CALLS:
        return fused(graph, takes, cheap, windows, takes_stages, recomputes, adds_rows, gathers)
    ranges = [piece for places in ranges for piece in _divided(places)]
    known: dict[Any, _Form] = {}
    found: list[Call | Fused] = []
    for part, key, unseen in _parts(graph, ranges, kinds, windows):
        checkpoint()
        form = known.get(key)
        if form is None:
            rest = (takes_stages, recomputes, adds_rows, gathers, unseen)
            form = known[key] = _Form(part, fused(part.graph(), takes, cheap, windows, *rest))
        found += form.steps_of(part)
    return found


def _with_early_calls(graph: Graph, kinds: CallKinds) -> Graph:
    """Move dear calls to the first call that reads the same value, with which they are fused.

    The slope of a function, for example, is recorded in the backward pass. In the forward pass it
    shares exponentials with the function.
    """
    makers = {v.number: k for k, call in enumerate(graph.calls) for v in call.results}
    readers: dict[int, int] = {}
    order = [*range(len(graph.calls))]
    for place, call in enumerate(graph.calls):
        if call.region or not kinds.is_fusible(call):
            continue
        firsts = [readers.setdefault(value.number, place) for value in call.reads]
        if call.reads and min(firsts) < place and (fusible_weight(call) or 0) >= HEAVY:
            after = [makers[value.number] for value in call.reads if value.number in makers]
            order[place] = max([order[k] for k in (*after, min(firsts))])
    calls = sorted(zip(order, range(len(order)), graph.calls), key=itemgetter(0, 1))
    return replace(graph, calls=tuple([call for _, _, call in calls]))


# Where the parts begin


def _ranges(graph: Graph, kinds: CallKinds, windows: Collection[str]) -> list[range]:
    """Cut the positions of the calls into consecutive ranges; one range if nothing repeats.

    Slices may depend on the round of a loop. Rounds are equal up to them if that explains more.
    """
    names, steady = frozenset(windows), STEADY.intersection(windows)
    exact, share = _ranges_of_equal(graph, kinds, names, names)
    if share < REPEATED_EXACTLY:
        found, other = _ranges_of_equal(graph, kinds, steady, names)
        if other > share:
            return found
    return exact


def _ranges_of_equal(
    graph: Graph, kinds: CallKinds, steady: Collection[str], windows: Collection[str]
) -> tuple[list[range], float]:
    """Cut where calls repeat that are equal up to the params of windows which are not `steady`.

    The second item is the share of the calls that are in repeated ranges.
    """
    numbers: dict[Any, int] = {}
    symbols = [
        numbers.setdefault(kinds.of(call, _shape_and_dtype, steady), len(numbers))
        for call in graph.calls
    ]
    cuts, repeated = {0, len(symbols)}, 0
    for start, length, period in repetitions(symbols, SHORTEST):
        step = period * -(-SHORTEST // period)
        if length >= 3 * step:
            calls = graph.calls[start : start + 3 * step]
            first = start + _best_cut(calls, step, kinds, windows)
            cuts.update(range(first, start + length + 1, step))
            repeated += length
    ordered = sorted(cuts)
    ranges = [range(start, stop) for start, stop in itertools.pairwise(ordered)]
    return ranges, repeated / len(symbols)


def _divided(places: range) -> list[range]:
    """Cut a range into equal ones of at most `MOST_CALLS`."""
    count = max(1, -(-len(places) // MOST_CALLS))
    edges = [len(places) * k // count for k in range(count + 1)]
    return [places[start:stop] for start, stop in itertools.pairwise(edges)]


def _best_cut(
    calls: Sequence[Call], period: int, kinds: CallKinds, windows: Collection[str]
) -> int:
    """Return the position in a round at which the fewest bytes cross between loops.

    `calls` are three rounds; the cut is sought in the second, where values of the round before it
    are read and values for the round after it are made.
    """
    is_fusible = [kinds.is_fusible(call) or call.primitive.name in windows for call in calls]
    makers = {value.number: place for place, call in enumerate(calls) for value in call.results}
    crossing = [0] * (len(calls) + 1)
    for place, call in enumerate(calls):
        for value in call.reads if is_fusible[place] else ():
            maker = makers.get(value.number)
            if maker is not None and is_fusible[maker]:
                for cut in range(maker + 1, place + 1):
                    crossing[cut] += value.nbytes
    return min(range(period), key=lambda cut: crossing[period + cut])


# Values that a part computes for itself


def _parts(
    graph: Graph, ranges: Sequence[range], kinds: CallKinds, windows: Collection[str]
) -> Iterator[tuple[_Part, Any, Collection[int]]]:
    """Yield the parts, what fusion of them depends on, and the windows that loops do not see."""
    names = frozenset(windows)
    parts = _with_copies(graph, ranges, kinds, names, ())
    unseen = _changing_windows(parts, kinds, names)
    if unseen:
        parts = _with_copies(graph, ranges, kinds, names, unseen)
    for part in parts:
        yield part, part.key(kinds, names, unseen), unseen


def _changing_windows(
    parts: Sequence[_Part], kinds: CallKinds, windows: frozenset[str]
) -> frozenset[int]:
    """Return the results of the slices that differ between parts which are equal otherwise.

    An element of a schedule, for example, is read at another place in each round. With the
    place in a loop, the loops of all rounds would differ.
    """
    alike: dict[Any, list[_Part]] = {}
    for part in parts:
        alike.setdefault(part.key(kinds, windows.difference(SLICES), ()), []).append(part)
    found: set[int] = set()
    for group in alike.values():
        places = [k for k, call in enumerate(group[0].calls) if call.primitive.name in SLICES]
        params = [[params_of(part.calls[k]) for k in places] for part in group]
        if len({*map(tuple, params)}) > max(2, MOST_FORMS * len(group)):
            columns = zip(places, zip(*params))
            changing = [place for place, column in columns if len({*column}) > 1]
            found.update(part.original(place) for part in group for place in changing)
    return frozenset(found)


def _with_copies(
    graph: Graph,
    ranges: Sequence[range],
    kinds: CallKinds,
    windows: Collection[str],
    unseen: Collection[int],
) -> list[_Part]:
    """Return the parts, with their own copies of cheap calls of other parts.

    A loop reads the array behind a view, no array at all for a constant, and computes cheap values
    again instead of reading them, but only if it sees the calls that make them.
    """
    again = _computed_again(graph, kinds, windows, unseen)
    numbers = unused_numbers(graph)
    found = []
    for places in ranges:
        checkpoint()
        calls = [graph.calls[place] for place in places]
        made = {value.number for call in calls for value in call.results}
        copies = _Copies(again, made, numbers, kinds)
        found.append(([*copies.of(calls)], copies.originals))
    last = _last_parts(graph, [calls for calls, _ in found])
    return [
        _Part(calls, [v for c in calls for v in c.results if last[v.number] > number], originals)
        for number, (calls, originals) in enumerate(found)
    ]


def _computed_again(
    graph: Graph, kinds: CallKinds, windows: Collection[str], unseen: Collection[int]
) -> dict[int, Call]:
    """Return the calls whose results other parts compute for themselves, by the results.

    Loops look through `windows` as they look through views, except those in `unseen`.
    """
    copied = frozenset(windows).difference(GATHERS)
    stored = {value.number for value in graph.results}
    for call in graph.calls:
        if not kinds.is_fusible(call) and not is_view(call) and not is_constant(call):
            stored.update(value.number for value in call.reads)
    found: dict[int, Call] = {}
    costs: dict[int, tuple[int, frozenset[int]]] = {}
    for call in graph.calls:
        if unseen and any([value.number in unseen for value in call.results]):
            continue
        is_window = call.primitive.name in copied
        cost = (0, frozenset({call.reads[0].number})) if is_window else _cost(call, kinds, costs)
        if cost is None:
            continue
        for value in call.results:
            if value.number not in stored or is_view(call) or is_constant(call):
                found[value.number], costs[value.number] = call, cost
    return found


def _cost(
    call: Call, kinds: CallKinds, costs: Mapping[int, tuple[int, frozenset[int]]]
) -> tuple[int, frozenset[int]] | None:
    """Return the weight of computing a call again and the values to read; None if it is dear."""
    if is_constant(call):
        return 0, frozenset()
    weight = 0 if is_view(call) else fusible_weight(call) if kinds.is_fusible(call) else None
    if weight is None or weight >= HEAVY:
        return None
    read: frozenset[int] = frozenset()
    for value in call.reads:
        inner = costs.get(value.number, (0, frozenset({value.number})))
        weight, read = weight + inner[0], read | inner[1]
    return None if weight > CHEAP or len(read) > MOST_READ else (weight, read)


class _Copies:
    """The copies of calls of other parts in one part."""

    def __init__(
        self,
        again: Mapping[int, Call],
        made: set[int],
        numbers: Iterator[int],
        kinds: CallKinds,
    ) -> None:
        self._again, self._made, self._numbers, self._kinds = again, made, numbers, kinds
        self._copies: dict[int, Value] = {}
        self._calls: list[Call] = []
        self.originals: dict[int, int] = {}
        """The numbers of the values of which there are copies, by the numbers of these."""

    def of(self, calls: Sequence[Call]) -> Iterator[Call]:
        """Yield the copies, and the calls, of which those that may be fused read the copies."""
        changed = [self._reading(call) if self._kinds.is_fusible(call) else call for call in calls]
        yield from self._calls
        yield from changed

    def _reading(self, call: Call) -> Call:
        operands = tuple([self._copy(x) if isinstance(x, Value) else x for x in call.operands])
        return self._kinds.noted(call, call.with_values(operands))

    def _copy(self, value: Value) -> Value:
        """Return the copy of a value that the part computes for itself, or else the value."""
        known = self._copies.get(value.number)
        call = None if value.number in self._made else self._again.get(value.number)
        if known is not None or call is None:
            return known or value
        # The costs are small, so the recursion is not deep.
        operands = call.operands if is_constant(call) else self._reading(call).operands
        copies = tuple([replace(made, number=next(self._numbers)) for made in call.results])
        self._calls.append(self._kinds.noted(call, call.with_values(operands, copies)))
        self._copies.update({v.number: copy for v, copy in zip(call.results, copies)})
        self.originals.update({copy.number: v.number for v, copy in zip(call.results, copies)})
        return self._copies[value.number]


def _last_parts(graph: Graph, parts: Sequence[Sequence[Call]]) -> dict[int, int]:
    """Return, for the number of each value that is made, the last part that needs it."""
    last = {value.number: -1 for calls in parts for call in calls for value in call.results}
    for number, calls in enumerate(parts):
        last.update((value.number, number) for call in calls for value in call.reads)
    last.update((value.number, len(parts)) for value in graph.results)
    return last


# Parts and their fused form


class _Part:
    """Consecutive calls, and the values among their results that later parts need."""

    def __init__(
        self, calls: Sequence[Call], outputs: Sequence[Value], originals: Mapping[int, int]
    ) -> None:
        self.calls, self._outputs, self._originals = tuple(calls), tuple(outputs), originals
        appearing = {v.number: v for call in calls for v in (*call.reads, *call.results)}
        self.values = [*appearing.values()]
        """All values in the order in which they appear."""
        self._places = {number: place for place, number in enumerate(appearing)}

    def key(self, kinds: CallKinds, windows: Collection[str], unseen: Collection[int]) -> Any:
        """Return what fusion depends on: equal parts have equal keys.

        The params of `windows` matter, except those of calls with results in `unseen`.
        """
        regions: dict[int, int] = {0: 0}
        calls = []
        for call in self.calls:
            is_unseen = bool(unseen) and any([v.number in unseen for v in call.results])
            seen = () if is_unseen else windows
            kind = (kinds.of(call, self.place_of, seen), is_unseen)
            made = tuple([self.place_of(value) for value in call.results])
            calls.append((kind, made, regions.setdefault(call.region, len(regions))))
        return (
            tuple(calls),
            tuple([self.place_of(value) for value in self._outputs]),
            tuple([_shape_and_dtype(value) for value in self.values]),
        )

    def original(self, place: int) -> int:
        """Return the number of the first result of a call, or that of which it is a copy."""
        number = self.calls[place].results[0].number
        return self._originals.get(number, number)

    def place_of(self, value: Value) -> int:
        return self._places[value.number]

    def graph(self) -> Graph:
        made = {value.number for call in self.calls for value in call.results}
        given = tuple(value for value in self.values if value.number not in made)
        return Graph(given, {}, {}, self.calls, self._outputs)


@dataclass(frozen=True)
class _Loop:
    """A fused loop of a part, by the places of its values and calls."""

    step: Fused
    reads: tuple[int, ...]
    results: tuple[int, ...]
    calls: tuple[int, ...]


class _Form:
    """The steps of a part, for all parts with the same key."""

    def __init__(self, part: _Part, steps: Sequence[Call | Fused]) -> None:
        positions = {id(call): position for position, call in enumerate(part.calls)}
        self._part = part
        self._steps: list[int | Call | _Loop] = []
        for step in steps:
            if isinstance(step, Call):  # a call of the part, or one that fills an array
                self._steps.append(positions.get(id(step), step))
            else:
                self._steps.append(
                    _Loop(
                        step,
                        tuple(map(part.place_of, step.reads)),
                        tuple(map(part.place_of, step.results)),
                        tuple(positions[id(call)] for call in step.calls),
                    )
                )

    def steps_of(self, part: _Part) -> Iterator[Call | Fused]:
        """Yield the steps with the values of a part."""
        values = part.values
        for step in self._steps:
            if isinstance(step, int):
                yield part.calls[step]
            elif isinstance(step, _Loop):
                yield Fused(
                    step.step.loop,
                    tuple([values[place] for place in step.reads]),
                    tuple([values[place] for place in step.results]),
                    tuple([part.calls[position] for position in step.calls]),
                )
            else:
                yield replace(
                    step,
                    operands=tuple([
                        values[self._part.place_of(operand)]
                        if isinstance(operand, Value)
                        else operand
                        for operand in step.operands
                    ]),
                    results=tuple([values[self._part.place_of(v)] for v in step.results]),
                )  # fmt: skip


def _shape_and_dtype(value: Value) -> Any:
    return value.shape, value.dtype, value.device
