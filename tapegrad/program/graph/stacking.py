"""Build calls that concatenate matrices of a program.

Matrices that are consecutive rows of one array are not copied: the array is reshaped instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.shape.joining import concat_p
from tapegrad.ops.shape.primitives import reshape_p
from tapegrad.program.graph.dependence import makers_of, unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value

_ALL = slice(None)


class RowSpan(NamedTuple):
    """The rows of a matrix within an array whose leading axes are flattened."""

    source: Value
    start: int
    stop: int


class Stacking:
    """New calls for a graph; equal concatenations are made once."""

    def __init__(self, graph: Graph) -> None:
        self.calls: list[Call] = []
        self._graph_calls = graph.calls
        self._makers = makers_of(graph.calls)
        self._numbers: Iterator[int] = unused_numbers(graph)
        self._made: dict[Any, Value] = {}
        self._by_members: dict[tuple[int, ...], Value] = {}

    def add_call(
        self,
        primitive: Primitive,
        operands: tuple[Any, ...],
        result: Value,
        array_type: type,
        **params: Any,
    ) -> Value:
        """Add a call that makes `result`, and return `result`."""
        # The results of these two may share memory with the operand.
        aliases = primitive in (reshape_p, slice_p)
        self.calls.append(Call(primitive, operands, params, (result,), array_type, aliases))
        return result

    def taken(self) -> list[Call]:
        """Return the calls that were added since the last call of this method."""
        calls, self.calls = self.calls, []
        return calls

    def value(self, shape: Shape, like: Value) -> Value:
        """Return a new value with the dtype of another."""
        return Value(next(self._numbers), shape, like.dtype)

    def span_of(self, matrix: Value) -> RowSpan | None:
        """Return the rows of which a matrix is a slice, None if it is not a slice of rows."""
        place = self._makers.get(matrix.number)
        if place is None or len(matrix.shape) != 2:
            return None
        call = self._graph_calls[place]
        first = _first_row(call, matrix)
        if first is None:
            return None
        return RowSpan(call.reads[0], first, first + matrix.shape[0])

    def stacked(self, matrices: Sequence[Value], axis: int, array_type: type) -> Value:
        """Return the matrices concatenated along an axis."""
        key = (axis, *[matrix.number for matrix in matrices])
        if key not in self._made:
            span = self._whole_span(matrices) if axis == 0 else None
            if span is not None:
                self._made[key] = self._rows(span, array_type)
            else:
                self._made[key] = self._joined(matrices, axis, array_type)
            if axis == 0:
                self._by_members[tuple(sorted(key[1:]))] = self._made[key]
        return self._made[key]

    def stack_of(self, matrices: Sequence[Value]) -> Value | None:
        """Return an existing concatenation of these matrices, in any order, or None."""
        return self._by_members.get(tuple(sorted(matrix.number for matrix in matrices)))

    def part(self, stack: Value, axis: int, start: int, result: Value, array_type: type) -> None:
        """Add a call that slices `result` out of a concatenation, from `start`."""
        index = [_ALL, _ALL]
        index[axis] = slice(start, start + result.shape[axis])
        self.add_call(slice_p, (stack,), result, array_type, index=tuple(index))

    def _whole_span(self, matrices: Sequence[Value]) -> RowSpan | None:
        """The rows of all matrices, if they are consecutive."""
        spans = [self.span_of(matrix) for matrix in matrices]
        if any(span is None for span in spans):
            return None
        known = [span for span in spans if span is not None]
        first, last = known[0], known[-1]
        for one, other in pairwise(known):
            if other.source.number != first.source.number or other.start != one.stop:
                return None
        return RowSpan(first.source, first.start, last.stop)

    def _rows(self, span: RowSpan, array_type: type) -> Value:
        rows = span.source
        if len(rows.shape) != 2:
            flat = (prod(rows.shape[:-1]), rows.shape[-1])
            rows = self.add_call(reshape_p, (rows,), self.value(flat, rows), array_type, shape=flat)
        if span.stop - span.start == rows.shape[0]:
            return rows
        part = self.value((span.stop - span.start, rows.shape[1]), rows)
        self.part(rows, 0, span.start, part, array_type)
        return part

    def _joined(self, matrices: Sequence[Value], axis: int, array_type: type) -> Value:
        sizes = tuple(matrix.shape[axis] for matrix in matrices)
        shape = list(matrices[0].shape)
        shape[axis] = sum(sizes)
        result = self.value(tuple(shape), matrices[0])
        return self.add_call(concat_p, tuple(matrices), result, array_type, axis=axis, sizes=sizes)


def _first_row(call: Call, matrix: Value) -> int | None:
    """The first row of the slice that a call takes; None if it is not a slice of rows."""
    name, params = call.primitive.name, call.params
    if name == "slice":
        return _first_row_of_slice(call.reads[0].shape, params["index"])
    if name in ("unstack", "split") and params["axis"] == 0:
        before = [value.number for value in call.results].index(matrix.number)
        return sum(value.shape[0] for value in call.results[:before])
    return None


def _first_row_of_slice(shape: Shape, index: Any) -> int | None:
    """The first row of a slice by one number or by a range of the first axis."""
    if len(index) != len(shape) or index[1:] != (_ALL,) * (len(shape) - 1):
        return None
    first = index[0]
    if isinstance(first, slice):
        start, _, step = first.indices(shape[0])
        return start if step == 1 and len(shape) == 2 else None
    if type(first) is int and len(shape) == 3:
        return (first % shape[0]) * shape[1]
    return None
