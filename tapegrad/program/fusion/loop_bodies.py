"""The expressions of a group of calls that becomes a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol

from tapegrad.core.trace.expression import Expression, array_input, constant
from tapegrad.core.trace.loop import INDEXED, Loop, LoopInput, LoopOutput, Rows
from tapegrad.program.fusion.recomputation import Recomputation
from tapegrad.program.fusion.row_groups import Form, Seen
from tapegrad.program.graph.formulas import COMBINING, formulas_of, nodes_of
from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.graph.iteration_spaces import seen_through
from tapegrad.program.graph.row_sums import RowSum
from tapegrad.program.graph.short_products import is_short_product, sum_of_terms
from tapegrad.program.graph.windows import Windowed, windowed_through

_STAGES = 1 << 20
"""Stages are inputs from this position on until the number of arrays is known."""


@dataclass(frozen=True)
class Fused:
    """A loop, the calls that it fuses, and the values that it reads and makes."""

    loop: Loop
    reads: tuple[Value, ...]
    results: tuple[Value, ...]
    calls: tuple[Call, ...]
    effects = False


class Plan(Protocol):
    """What is known of all calls of a graph."""

    calls: tuple[Call, ...]
    places: dict[int, int]
    weights: list[int | None]
    combines: list[bool]
    axes: list[tuple[int, ...]]
    recomputation: Recomputation
    sums: list[RowSum | None]
    spaces: list[Shape]

    def reads_of(self, place: int) -> list[tuple[Value, Seen]]: ...


class Body:
    """The expressions of one group."""

    def __init__(self, plan: Plan, members: list[int], needed: set[int], form: Form) -> None:
        self._plan = plan
        self._members = set(members)
        self._needed = needed
        self._form = form
        self._inputs: dict[tuple[int, Seen], int] = {}
        self._values: list[Value] = []
        self._found: dict[tuple[int, Seen], Expression] = {}
        self._stages: list[LoopOutput] = []
        self._indices: dict[tuple[int, Shape], int] = {}
        self._read_anyway = self._certain_reads()

    def _certain_reads(self) -> set[int]:
        """The arrays of the size of the space that are read whatever is computed again."""
        again = self._plan.recomputation
        outside = {
            value.number: value
            for place in self._members
            for value, seen in self._plan.reads_of(place)
            if seen == self._form.space and self._plan.places.get(value.number) not in self._members
        }
        found = {number for number, value in outside.items() if self._is_array(value)}
        for value in outside.values():
            if value.number not in found and again.is_cheap(value, self._needed, found):
                found.update(again.sources_of(value))
        return found

    def _is_array(self, value: Value) -> bool:
        """Whether a value is stored for this loop in any case."""
        place = self._plan.places.get(value.number)
        if place is None or value.number in self._needed:
            return True
        return self._plan.weights[place] is None

    def fused(self, made: list[Value]) -> Fused:
        """Return the group as a loop that makes these values."""
        outputs = [self._output(value) for value in made]
        inputs = [self._input(value, seen) for value, (_, seen) in zip(self._values, self._inputs)]
        indices = tuple(self._found[key] for key in self._indices)
        calls = tuple(self._plan.calls[place] for place in sorted(self._members))
        count = len(self._stages)
        if count:
            both = _after_arrays([*self._stages, *outputs], len(inputs))
            self._stages, outputs = both[:count], both[count:]
        loop = Loop(self._form.space, tuple(inputs), tuple(outputs), tuple(self._stages), indices)
        return Fused(loop, tuple(self._values), tuple(made), calls)

    def _output(self, value: Value) -> LoopOutput:
        place, form = self._plan.places[value.number], self._form
        own = self._plan.sums[place]
        if own is not None:
            return self._row_sum(place, value, own)
        if self._plan.combines[place] and not form.has_stages:
            ((operand, seen),) = self._plan.reads_of(place)
            return self._reduction(place, value, self._expression(operand, seen))
        if form.is_per_row(self._plan.calls[place], self._plan.combines[place]):
            return LoopOutput(self._expression(value, form.row), value.shape, axes=form.axes)
        return LoopOutput(self._expression(value, form.space), value.shape)

    def _row_sum(self, place: int, value: Value, own: RowSum) -> LoopOutput:
        """Return the output that adds rows, or one value per row of a loop with stages."""
        ((operand, inner),) = self._plan.reads_of(place)
        is_per_row = self._plan.spaces[place] != self._form.space
        outer = self._form.row if is_per_row else self._form.space
        expression = self._expression(operand, _through(inner, outer))
        key = (own.positions.number, seen_through(own.seen, outer))
        self._expression(own.positions, key[1])
        number = self._indices.setdefault(key, len(self._indices))
        axes = self._form.axes if is_per_row else ()
        rows = Rows(number, own.size, own.axes)
        return LoopOutput(expression, value.shape, axes=axes, rows=rows)

    def _reduction(self, place: int, value: Value, operand: Expression) -> LoopOutput:
        call = self._plan.calls[place]
        finish = _mean_of_sum(call) if call.primitive.name == "mean" else None
        combine = COMBINING[call.primitive.name]
        return LoopOutput(operand, value.shape, combine, self._plan.axes[place], finish)

    def _expression(self, value: Value, seen: Seen) -> Expression:
        """The expression of a value with shape `seen` in this space; not recursive."""
        waiting = [(value, seen)]
        while waiting:
            key = (waiting[-1][0].number, waiting[-1][1])
            if key in self._found:
                waiting.pop()
                continue
            missing = self._compute(*waiting[-1])
            waiting.extend(missing)
        return self._found[value.number, seen]

    def _compute(self, value: Value, seen: Seen) -> list[tuple[Value, Seen]]:
        """Store the expression of a value, or return the operands that are still missing."""
        place = self._plan.places.get(value.number)
        if isinstance(seen, Windowed):
            unknown = [one for one in seen.indices if (one[0].number, one[1]) not in self._found]
            if unknown:
                return [*unknown]
        if place is None or isinstance(seen, Windowed) or not self._is_computed(value, place):
            self._found[value.number, seen] = self._read(value, seen)
            return []
        if self._plan.combines[place]:
            return self._add_stage(value, place, seen)
        call = self._plan.calls[place]
        reads = [(operand, _through(inner, seen)) for operand, inner in self._plan.reads_of(place)]
        missing = [read for read in reads if (read[0].number, read[1]) not in self._found]
        if missing:
            return missing
        found = [self._found[operand.number, inner] for operand, inner in reads]
        if is_short_product(call):
            self._found[value.number, seen] = sum_of_terms(found)
            return []
        arrays = iter(found)
        operands = [
            next(arrays, None) if isinstance(operand, Value) else operand
            for operand in call.operands
        ]
        for result, formula in zip(call.results, formulas_of(call, operands)):
            self._found[result.number, seen] = formula
        return []

    def _is_computed(self, value: Value, place: int) -> bool:
        """Whether this loop computes a value, because it is a member or to avoid a read."""
        if place in self._members:
            return self._form.has_stages or not self._plan.combines[place]
        if self._plan.weights[place] is None:
            return False
        return self._plan.recomputation.is_cheap(
            value, self._needed, self._read_anyway, prod(self._form.space)
        )

    def _add_stage(self, value: Value, place: int, seen: Shape) -> list[tuple[Value, Seen]]:
        """Add the reduction that makes a value, after those that its operand reads."""
        ((operand, inner),) = self._plan.reads_of(place)
        if (operand.number, inner) not in self._found:
            return [(operand, inner)]
        stage = self._reduction(place, value, self._found[operand.number, inner])
        self._found[value.number, seen] = array_input(_STAGES + len(self._stages), stage.dtype)
        self._stages.append(stage)
        return []

    def _read(self, value: Value, seen: Seen) -> Expression:
        index = self._inputs.setdefault((value.number, seen), len(self._inputs))
        if index == len(self._values):
            self._values.append(value)
        for array, shape in seen.indices if isinstance(seen, Windowed) else ():
            self._indices.setdefault((array.number, shape), len(self._indices))
        return array_input(index, value.dtype)

    def _input(self, value: Value, seen: Seen) -> LoopInput:
        if not isinstance(seen, Windowed):
            return LoopInput(value.shape, seen, value.dtype)
        numbers = [self._indices[array.number, shape] for array, shape in seen.indices]
        window = tuple(
            replace(one, index=numbers[one.index]) if one.mode == INDEXED else one
            for one in seen.window
        )
        return LoopInput(value.shape, seen.seen, value.dtype, window)


def _after_arrays(outputs: Sequence[LoopOutput], arrays: int) -> list[LoopOutput]:
    """Let stages be the inputs after the arrays."""
    new: dict[int, Expression] = {}
    for node in nodes_of([output.expression for output in outputs]):
        operands = tuple([new[id(operand)] for operand in node.operands])
        value = node.value
        if node.name == "input" and value >= _STAGES:
            value = value - _STAGES + arrays
        new[id(node)] = Expression(node.name, node.dtype, operands, value, node.weak)
    return [replace(output, expression=new[id(output.expression)]) for output in outputs]


def _through(inner: Seen, outer: Shape) -> Seen:
    """Compose how a value is seen in a space with how that space is seen in another one."""
    if isinstance(inner, Windowed):
        return windowed_through(inner, outer)
    return seen_through(inner, outer)


def _mean_of_sum(call: Call) -> Expression:
    """The expression of a mean, given the sum."""
    shape, dtype = call.reads[0].shape, call.reads[0].dtype
    count = 1
    for axis in call.params["axis"]:
        count *= shape[axis]
    total: Any = array_input(0, dtype)
    return Expression("divide", dtype, (total, constant(count, dtype)))
