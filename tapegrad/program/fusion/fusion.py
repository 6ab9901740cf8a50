"""Fuse elementwise calls, and reductions of their results, into loops.

Calls over the same iteration space are merged unless another call must run between them. A call
that reads a reduced value is merged with the reduction where a loop may pass over its rows several
times (row_groups.py). Cheap values of a smaller space are recomputed inside the loop that reads
them instead of being stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from tapegrad.core.background import with_checkpoints
from tapegrad.core.trace.loop import Along
from tapegrad.program.fusion.equal_loops import EqualLoops
from tapegrad.program.fusion.fusion_groups import Grouping
from tapegrad.program.fusion.gathers import Gathers, from_any_table, gathered_in_loops
from tapegrad.program.fusion.loop_bodies import Body, Fused
from tapegrad.program.fusion.outer_combinations import Recomputes, shared_work, stores_all
from tapegrad.program.fusion.recomputation import CHEAP, Recomputation
from tapegrad.program.fusion.row_groups import (
    Seen,
    TakesStages,
    continues,
    form_of,
    without_stages,
)
from tapegrad.program.graph.formulas import is_combining, number_of
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.graph.iteration_spaces import is_view, seen_from, space_of
from tapegrad.program.graph.row_sums import AddsRows, row_sum_of, without_row_sums
from tapegrad.program.graph.short_products import factors_of, fusible_weight, is_short_product
from tapegrad.program.graph.windows import PARTS, Windowed, placed, window_of

MOST_ARRAYS = 24
"""The most arrays that one loop reads and writes."""

MOST_WEIGHT = 256
"""The largest total weight of the calls in a loop; larger loops take long to compile.

A longer chain becomes several loops. Those of equal expressions are compiled once.
"""

Takes = Callable[[Call], bool]
"""Whether a call may be part of a loop."""


class _Needs(NamedTuple):
    """The values that a call reads and makes, for the dependence analysis."""

    reads: tuple[Value, ...]
    results: tuple[Value, ...]
    effects: bool = False


class _Total(NamedTuple):
    """The weight of the calls of a group, and the numbers of the values that they read and make."""

    weight: int
    read: frozenset[int]
    made: frozenset[int]
    with_several_results: int

    @property
    def arrays(self) -> int:
        """How many arrays a loop of these calls has at least."""
        return len(self.read - self.made) + self.with_several_results

    def joined(self, other: _Total) -> _Total:
        several = self.with_several_results + other.with_several_results
        read, made = self.read | other.read, self.made | other.made
        return _Total(self.weight + other.weight, read, made, several)


def fused(
    graph: Graph,
    takes: Takes,
    cheap: int = CHEAP,
    windows: Collection[str] = (),
    takes_stages: TakesStages = without_stages,
    recomputes: Recomputes = stores_all,
    adds_rows: AddsRows = without_row_sums,
    gathers: Gathers = from_any_table,
    unseen: Collection[int] = (),
) -> list[Call | Fused]:
    """Return the steps in order: loops, and calls that are not fused.

    Values of a weight up to `cheap` are recomputed where they are read, and those made of much
    smaller arrays if `recomputes` is true of them. Loops read the operands of the primitives in
    `windows` where these show them, and pass several times over rows for which `takes_stages` is
    true. They add rows where `adds_rows` allows it, and read tables by index where `gathers` does.
    They read the results `unseen` of windows as they are.
    """
    plan = _Plan(graph, takes, cheap, windows, takes_stages, recomputes, adds_rows, gathers, unseen)
    plan.merge_with_makers()
    plan.merge_readers_of_one_value()
    return plan.steps()


class _Plan:
    """Groups of calls; each group has one iteration space."""

    def __init__(
        self,
        graph: Graph,
        takes: Takes,
        cheap: int,
        windows: Collection[str],
        takes_stages: TakesStages,
        recomputes: Recomputes,
        adds_rows: AddsRows,
        gathers: Gathers,
        unseen: Collection[int],
    ) -> None:
        self.graph = graph
        self._windows, self._unseen = windows, unseen
        # Loops that look through windows also look through parts of what these show.
        self._shown = {*windows, *PARTS} if windows else {*windows}
        self._takes_stages = takes_stages
        self._reads: dict[int, list[tuple[Value, Seen]]] = {}
        self._totals: dict[int, _Total] = {}
        self.calls = graph.calls
        self.makers = {v.number: c for c in self.calls for v in c.results if v.number not in unseen}
        self.places = {
            value.number: place for place, call in enumerate(self.calls) for value in call.results
        }
        self.weights = [self._weight(call, takes) for call in self.calls]
        self.combines = [self._combines(call, takes) for call in self.calls]
        self.sums = [row_sum_of(c, adds_rows) if takes(c) else None for c in self.calls]
        self.axes = [
            combined_axes(call) if combines else ()
            for call, combines in zip(self.calls, self.combines)
        ]
        self.spaces = [
            space_of(self.full_shape(place)) if self.is_fusible(place) else ()
            for place in range(len(self.calls))
        ]
        self._gathered = gathered_in_loops(graph, windows, self.is_fusible, gathers)
        places = with_checkpoints(range(len(self.calls)))
        self.groups = Grouping([self._needs(place) for place in places])
        self._stored = self._read_by_others()
        self.recomputation = Recomputation(self, self._stored, cheap, recomputes)

    def _needs(self, place: int) -> Any:
        """The dependences of a call: a loop reads the values behind views, not the views."""
        call = self.calls[place]
        if not self.is_fusible(place) or is_constant(call):
            return call
        reads = self.reads_of(place)
        found = [value for value, _ in reads]
        return _Needs((*found, *self._indices_of(place)), call.results)

    def _indices_of(self, place: int) -> list[Value]:
        """The index arrays by which a call reads or adds rows."""
        found = []
        for _, seen in self.reads_of(place):
            found += [index for index, _ in seen.indices] if isinstance(seen, Windowed) else []
        own = self.sums[place]
        return found if own is None else [*found, own.positions]

    def _weight(self, call: Call, takes: Takes) -> int | None:
        return fusible_weight(call) if takes(call) else None

    def _combines(self, call: Call, takes: Takes) -> bool:
        return is_combining(call) and takes(call)

    def is_fusible(self, place: int) -> bool:
        is_sum = self.sums[place] is not None
        return self.weights[place] is not None or self.combines[place] or is_sum

    def full_shape(self, place: int) -> Shape:
        call = self.calls[place]
        is_smaller = self.combines[place] or self.sums[place] is not None
        return call.reads[0].shape if is_smaller else call.results[0].shape

    def reads_of(self, place: int) -> list[tuple[Value, Seen]]:
        """The values that a call reads, behind views and windows, and how it sees them."""
        found = self._reads.get(place)
        if found is None:
            call, shape = self.calls[place], self.full_shape(place)
            # `full_like` reads no elements of its operand.
            reads = () if is_constant(call) else call.reads
            reads = reads if self.sums[place] is None else reads[:1]
            if is_short_product(call):
                found = [self._placed(value, along, shape) for value, along in factors_of(call)]
            else:
                found = [self._seen(value, shape) for value in reads]
            self._reads[place] = found
        return found

    def _seen(self, value: Value, shape: Shape) -> tuple[Value, Seen]:
        if self._windows:
            window = window_of(value, shape, self.makers, self._windows, self._gathered)
            if window is not None:
                return window
        return seen_from(value, shape, self.makers)

    def _placed(self, value: Value, along: Sequence[Along], shape: Shape) -> tuple[Value, Seen]:
        return placed(value, along, shape, self.makers, self._windows, self._gathered)

    # Grouping

    def merge_with_makers(self) -> None:
        """Merge each call with the elementwise calls that made its operands."""
        for place in with_checkpoints(range(len(self.calls))):
            if not self.is_fusible(place):
                continue
            space = self.spaces[place]
            makers = [(self.places.get(v.number), seen) for v, seen in self.reads_of(place)]
            for maker, seen in makers:
                # A loop cannot read what it has not finished.
                if maker is not None and self._must_be_finished(maker, place, seen):
                    self.groups.keep_apart(maker, place)
            for index in self._indices_of(place):
                if index.number in self.places:
                    self.groups.keep_apart(self.places[index.number], place)
            for maker, seen in makers:
                if maker is not None and self._may_be_merged(maker, seen, space):
                    self._try_to_merge(maker, place)

    def _must_be_finished(self, maker: int, place: int, seen: Seen) -> bool:
        """Whether a value must be complete before a call can read it."""
        if isinstance(seen, Windowed) or self.sums[maker] is not None:
            return True
        return self.combines[maker] and not continues(self, maker, place, seen, self._takes_stages)

    def _may_be_merged(self, maker: int, seen: Seen, space: Shape) -> bool:
        """Whether a call may be in the loop that makes one of its operands."""
        if isinstance(seen, Windowed) or not self.is_fusible(maker):
            return False
        if self.sums[maker] is not None:
            return False
        if seen == space and not self.combines[maker]:
            return True
        # Otherwise it is a value per row, made by a loop that reduces rows.
        members = self.groups.members[self.groups.group_of(maker)]
        return any(self.combines[member] for member in members)

    def merge_readers_of_one_value(self) -> None:
        """Merge groups that read the same value elementwise, so that it is read once."""
        readers: dict[tuple[Any, Shape], int] = {}
        for place in with_checkpoints(range(len(self.calls))):
            if not self.is_fusible(place):
                continue
            space = self.spaces[place]
            for number in self._read_whole(place) if space else ():
                first = readers.setdefault((number, space), place)
                if not self._try_to_merge(first, place):
                    readers[number, space] = place

    def _read_whole(self, place: int) -> list[Any]:
        """The values that a call reads elementwise, or from which it computes its operand again.

        Rows that are gathered by one index array count as well, and so does the loop that makes
        the operands of reductions along the same axes: what they compute again of it is shared.
        """
        reads, space = self.reads_of(place), self.spaces[place]
        found: list[Any] = [value.number for value, seen in reads if seen == space]
        found += [
            (value.number, seen)
            for value, seen in reads
            if isinstance(seen, Windowed) and seen.indices and seen.seen == space
        ]
        if self.combines[place]:
            found += shared_work(self, place, self.recomputation.again, self.axes)
            operand = reads[0][0].number
            maker, cost = self.places.get(operand), self.recomputation.costs.get(operand)
            if maker is not None and cost is not None and not self._are_together(maker, place):
                found += [n for n in cost.read if type(n) is int and self._space_of(n) == space]
            if maker is not None and not self._are_together(maker, place):
                found.append(("loop", self.groups.group_of(maker), self.axes[place]))
        return found

    def _are_together(self, first: int, second: int) -> bool:
        return self.groups.group_of(first) == self.groups.group_of(second)

    def _space_of(self, number: int) -> Shape:
        return space_of(self._shapes[number])

    @cached_property
    def _shapes(self) -> dict[int, Shape]:
        return {v.number: v.shape for call in self.calls for v in (*call.reads, *call.results)}

    def _try_to_merge(self, first: int, second: int) -> bool:
        one, other = self.groups.group_of(first), self.groups.group_of(second)
        if one == other:
            return True
        if self.calls[first].region != self.calls[second].region:
            return False
        one_total, other_total = self._total(one), self._total(other)
        if one_total.weight + other_total.weight > MOST_WEIGHT:
            return False
        if not self.groups.can_merge(one, other):
            return False
        total = one_total.joined(other_total)
        if total.arrays > MOST_ARRAYS:
            return False
        members = [*self.groups.members[one], *self.groups.members[other]]
        if form_of(self, members, self._takes_stages) is None:
            return False
        self._totals[self.groups.merge(one, other)] = total
        return True

    def _total(self, group: int) -> _Total:
        """What a group has in total, which is kept since each attempt to merge it asks."""
        found = self._totals.get(group)
        if found is None:  # a group of one call
            call = self.calls[group]
            read = frozenset([value.number for value, _ in self.reads_of(group)])
            made = frozenset([value.number for value in call.results])
            found = _Total(self.weights[group] or 1, read, made, int(len(call.results) > 1))
            self._totals[group] = found
        return found

    # Loops from groups

    def steps(self) -> list[Call | Fused]:
        """Return the groups as loops, in order, without calls that became dead."""
        self.recomputation.settle(self._crossing())
        needed = set(self._stored)
        different = EqualLoops()
        found: list[Call | Fused] = []
        for group in with_checkpoints(reversed(self.groups.in_order()), every=8):
            members = self.groups.members[group]
            calls = [self.calls[place] for place in members]
            made = [value for call in calls for value in call.results if value.number in needed]
            if not made and not any(call.effects for call in calls):
                continue
            step: Call | Fused = calls[0]
            if len(members) > 1 or self._is_worth_a_loop(members[0], needed):
                form = form_of(self, members, self._takes_stages)
                assert form is not None
                step = Body(self, members, needed, form).fused(made)
                if not step.reads:
                    if step.loop.axes:  # a reduction of constants that no pass has folded
                        calls.reverse()
                    else:
                        calls = self._filled(step)
                    found.extend(calls)
                    needed.update(value.number for call in calls for value in call.reads)
                    continue
                step = replace(step, loop=different.first_of(step.loop))
            found.append(step)
            needed.update(value.number for value in step.reads)
        return found[::-1]

    def _crossing(self) -> set[int]:
        """The values that a group reads and another one makes."""
        return {
            value.number
            for place in range(len(self.calls))
            if self.is_fusible(place)
            for value, _ in self.reads_of(place)
            if value.number in self.places
            and not self._are_together(self.places[value.number], place)
        }

    def _is_worth_a_loop(self, place: int, needed: set[int]) -> bool:
        """Whether a single call becomes a loop.

        Reductions and sums of rows do if the operand is gathered or recomputed.
        """
        if not self.combines[place] and self.sums[place] is None:
            return self.weights[place] is not None
        reads, cheap = self.reads_of(place), self.recomputation.is_cheap
        return any(cheap(value, needed) for value, _ in reads) or any(
            isinstance(seen, Windowed) for _, seen in reads
        )

    def _read_by_others(self) -> set[int]:
        """The values that must be stored: results, and operands of calls that are not fused."""
        needed = {value.number for value in self.graph.results}
        for place in range(len(self.calls) - 1, -1, -1):
            call = self.calls[place]
            shows = is_view(call) or call.primitive.name in self._shown
            shows = shows and not any(value.number in self._unseen for value in call.results)
            if not self.is_fusible(place) and (
                not shows or any(value.number in needed for value in call.results)
            ):
                needed.update(value.number for value in call.reads)
        return needed

    def _filled(self, step: Fused) -> list[Call]:
        """Replace a loop that reads nothing by calls that fill arrays."""
        source = self._constant_behind(step.results[0])
        return [
            replace(
                source,
                params={
                    "shape": value.shape,
                    "value": number_of(output.expression),
                    "dtype": value.dtype,
                },
                results=(value,),
            )
            for value, output in zip(step.results, step.loop.outputs)
        ]

    def _constant_behind(self, value: Value) -> Call:
        """The fill call from which a value is made."""
        call = self.makers[value.number]
        while not is_constant(call):
            value, _ = self.reads_of(self.places[call.results[0].number])[0]
            call = self.makers[value.number]
        return call


def is_constant(call: Call) -> bool:
    """Whether a call fills an array with a constant."""
    return call.primitive.name == "full_like"


def combined_axes(call: Call) -> tuple[int, ...]:
    """The axes of the space that a reduction removes."""
    shape = call.reads[0].shape
    places = {axis: k for k, axis in enumerate(a for a, n in enumerate(shape) if n != 1)}
    return tuple(sorted(places[axis] for axis in call.params["axis"] if axis in places))
