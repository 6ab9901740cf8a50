"""Compute sums of products of elements as matrix products.

`sum(a[:, None] * b, -1)` is a product of two matrices. So is what forward mode makes of a sum for
many tangents at once: each is multiplied by the same values and summed. A loop over all elements
of the three axes would multiply and add them one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls
from tapegrad.program.passes.separation import Factor, InseparableError, Separation, Term

FEWEST = 8
"""The fewest rows, and columns, of a product."""

SHORTEST = 8
"""The fewest terms of a sum. Loops add fewer in registers, and need not store the result."""

LEAST = 1 << 15
"""The fewest elements of the array that is summed; smaller ones are left to loops."""

MOST_STORED = 1 << 24
"""The most elements of an operand of a product. A loop would not store it."""


def with_contractions(graph: Graph, rounds_operands: bool = False) -> Graph:
    """Replace sums of products of smaller arrays by matrix products.

    `rounds_operands` says that products of float32 are less exact than sums of products.
    """
    dtypes = {"float64"} if rounds_operands else {"float32", "float64"}
    large = [call for call in graph.calls if _is_large_sum(call, dtypes)]
    if not large:
        return graph
    makers = {value.number: call for call in graph.calls for value in call.results}
    found = _without_other_readers([s for call in large if (s := _sum_of(call, makers))], graph)
    if not found:
        return graph
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        known = found.get(call.results[0].number) if call.results else None
        calls.extend([call] if known is None else _Product(known, numbers).calls())
    return without_dead_calls(replace(graph, calls=tuple(calls)))


def _is_large_sum(call: Call, dtypes: Collection[str]) -> bool:
    if call.primitive.name not in ("sum", "mean") or call.region:
        return False
    operand, result = call.reads[0], call.results[0]
    return operand.size >= LEAST and operand.dtype == result.dtype and operand.dtype.name in dtypes


class _Sides(NamedTuple):
    """The axes of a product of matrices: of the stack, the rows, the columns and the sum."""

    stack: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    summed: tuple[int, ...]


@dataclass(frozen=True)
class _Sum:
    """A sum over axes of a value that is a sum of products of smaller values."""

    call: Call
    terms: list[Term]
    sides: _Sides
    inner: Collection[int]
    """The numbers of the values that only this sum needs, or others like it."""


def _sum_of(call: Call, makers: Mapping[int, Call]) -> _Sum | None:
    operand, reduced = call.reads[0], frozenset(call.params["axis"])
    space = operand.shape
    wide = frozenset(axis for axis, length in enumerate(space) if length != 1)
    if len(wide - reduced) < 2 or not wide & reduced:
        return None
    separation = Separation(space, wide - reduced, makers)
    try:
        terms = separation.terms_of(operand)
    except InseparableError:
        return None
    sides = _sides(terms, wide - reduced, tuple(sorted(wide & reduced)))
    if sides is None or not _pays(terms, sides, operand):
        return None
    if call.primitive.name == "mean":
        terms = [term.times(call.results[0].size / operand.size) for term in terms]
    return _Sum(call, terms, sides, separation.calls.keys())


def _sides(terms: Sequence[Term], free: frozenset[int], summed: tuple[int, ...]) -> _Sides | None:
    """Return the axes of rows and columns such that each factor has those of one side."""
    factors = [factor for term in terms for factor in term.factors if factor.axes & free]
    stack = free.intersection(*[factor.axes for factor in factors])
    parts: list[frozenset[int]] = []
    for factor in factors:
        joined = (factor.axes & free) - stack
        meeting = [part for part in parts if part & joined]
        parts = [part for part in parts if not part & joined]
        parts.append(joined.union(*meeting))
    parts = sorted([part for part in parts if part], key=min)
    if len(parts) != 2 or stack | parts[0] | parts[1] != free:
        return None
    rows, columns = (tuple(sorted(part)) for part in parts)
    order = (*sorted(stack), *rows, *columns)
    if order != tuple(sorted(free)):
        return None
    return _Sides(tuple(sorted(stack)), rows, columns, summed)


def _pays(terms: Sequence[Term], sides: _Sides, operand: Value) -> bool:
    """Whether all terms are products of two matrices that are worth storing."""
    if prod(operand.shape[axis] for axis in sides.summed) < SHORTEST:
        return False
    for axes in (sides.rows, sides.columns):
        if prod(operand.shape[axis] for axis in axes) < FEWEST:
            return False
        stored = prod(operand.shape[axis] for axis in (*sides.stack, *axes, *sides.summed))
        if stored * len(terms) > MOST_STORED:
            return False
    return all(
        factor.value.dtype == operand.dtype for term in terms for factor in term.factors
    ) and all(_has_both_sides(term, sides) for term in terms)


def _has_both_sides(term: Term, sides: _Sides) -> bool:
    for part in _parts(term, sides):
        axes = frozenset[int]().union(*[factor.axes for factor in part])
        if not axes.issuperset(sides.summed) or all(factor.divides for factor in part):
            return False
    return True


def _parts(term: Term, sides: _Sides) -> tuple[list[Factor], list[Factor]]:
    """Return the factors of the rows and those of the columns."""
    left = [factor for factor in term.factors if factor.axes.intersection(sides.rows)]
    right = [factor for factor in term.factors if not factor.axes.intersection(sides.rows)]
    return left, right


def _without_other_readers(sums: list[_Sum], graph: Graph) -> dict[int, _Sum]:
    """Return the sums, by their results, whose inner values nothing else reads."""
    kept = {value.number for value in graph.results}
    while True:
        inner = {number for s in sums for number in s.inner}
        gone = inner | {s.call.results[0].number for s in sums}
        outside = {
            value.number
            for call in graph.calls
            if not call.results or call.results[0].number not in gone
            for value in call.reads
        }
        read = inner & (outside | kept)
        if not read:
            return {s.call.results[0].number: s for s in sums}
        sums = [s for s in sums if not read.intersection(s.inner)]


class _Product:
    """The calls that make a sum of products of matrices."""

    def __init__(self, sum_: _Sum, numbers: Iterator[int]) -> None:
        self._sum, self._sides = sum_, sum_.sides
        self._space = sum_.call.reads[0].shape
        self._new = NewCalls(sum_.call, numbers)

    def calls(self) -> list[Call]:
        """Return the calls; the last one makes the result of the sum."""
        lefts, rights = zip(*self._pairs())
        left, is_turned = self._matrix(lefts, self._sides.rows)
        right, is_right_turned = self._matrix(rights, self._sides.columns)
        sides, result = self._sides, self._sum.call.results[0]
        shape = (*self._lengths(sides.stack), self._length(sides.rows), self._length(sides.columns))
        params = {"transpose_a": is_turned, "transpose_b": not is_right_turned}
        name = "matmul_stack" if sides.stack else "matmul"
        made = self._new.add(name, (left, right), params, shape)
        if shape != result.shape:
            self._new.add("reshape", (made,), {"shape": result.shape}, result.shape)
        return self._new.ending_in(result)

    def _pairs(self) -> list[tuple[Value, Value]]:
        """Return the pairs of factors whose products are added, with each left factor once."""
        groups: dict[tuple[Factor, ...], list[Term]] = defaultdict(list)
        for term in self._sum.terms:
            left, right = _parts(term, self._sides)
            groups[tuple(left)].append(Term(term.number, tuple(right)))
        return [
            (self._value(factors, 1.0), self._total(terms)) for factors, terms in groups.items()
        ]

    def _total(self, terms: Sequence[Term]) -> Value:
        """Return the sum of products."""
        total, *others = [self._value(term.factors, term.number) for term in terms]
        for other in others:
            shape = np.broadcast_shapes(total.shape, other.shape)
            total = self._new.add("add", (total, other), {}, shape)
        return total

    def _value(self, factors: Sequence[Factor], number: float) -> Value:
        """Return the product of a number and factors, of which one at least is no divisor."""
        made, *above = [self._in_space(factor) for factor in factors if not factor.divides]
        below = [self._in_space(factor) for factor in factors if factor.divides]
        for name, others in (("multiply", above), ("divide", below)):
            for other in others:
                shape = np.broadcast_shapes(made.shape, other.shape)
                made = self._new.add(name, (made, other), {}, shape)
        return made if number == 1.0 else self._new.add("multiply", (made, number), {}, made.shape)

    def _in_space(self, factor: Factor) -> Value:
        """Return a factor with all axes of the space."""
        if factor.value.shape == factor.shape:
            return factor.value
        return self._new.add("reshape", (factor.value,), {"shape": factor.shape}, factor.shape)

    def _matrix(self, values: Sequence[Value], axes: tuple[int, ...]) -> tuple[Value, bool]:
        """Return values as one matrix or stack of matrices, and whether the summed axis is first.

        They stand side by side along the summed axis.
        """
        sides = self._sides
        stack, length = self._lengths(sides.stack), self._length(axes)
        is_turned = (*sides.stack, *sides.summed, *axes) == tuple(
            sorted((*sides.stack, *axes, *sides.summed))
        )
        order = (
            (*sides.stack, *sides.summed, *axes)
            if is_turned
            else (*sides.stack, *axes, *sides.summed)
        )
        depth = self._length(sides.summed)
        shape = (*stack, depth, length) if is_turned else (*stack, length, depth)
        matrices = []
        for value in values:
            full = self._full(value, (*sides.stack, *axes, *sides.summed))
            matrices.append(self._turned(full, order, shape))
        if len(matrices) == 1:
            return matrices[0], is_turned
        axis = len(stack) + (0 if is_turned else 1)
        joined = [*shape]
        joined[axis] *= len(matrices)
        params = {"axis": axis, "sizes": (depth,) * len(matrices)}
        return self._new.add("concat", matrices, params, tuple(joined)), is_turned

    def _full(self, value: Value, axes: Sequence[int]) -> Value:
        """Repeat a value along axes of the matrix that it lacks."""
        shape = tuple(n if axis in axes else 1 for axis, n in enumerate(self._space))
        if value.shape == shape:
            return value
        return self._new.add("broadcast_to", (value,), {"shape": shape}, shape)

    def _turned(self, value: Value, order: tuple[int, ...], shape: Shape) -> Value:
        """Return a value with some axes in another order, then as a matrix."""
        ones = tuple(axis for axis in range(len(self._space)) if axis not in order)
        if (*order,) != tuple(sorted(order)):
            axes = (*ones, *order)
            turned = tuple(value.shape[axis] for axis in axes)
            value = self._new.add("permute_dims", (value,), {"axes": axes}, turned)
        if value.shape == shape:
            return value
        return self._new.add("reshape", (value,), {"shape": shape}, shape)

    def _lengths(self, axes: Sequence[int]) -> Shape:
        return tuple(self._space[axis] for axis in axes)

    def _length(self, axes: Sequence[int]) -> int:
        return prod(self._lengths(axes))
