"""Write the sum of a product over several axes as a product of sums over one each.

The squared norm of the gradient of one example by a matrix is the sum over i and j of
`(x[i] * t[j]) ** 2`, since the gradient is an outer product. That is `sum(x ** 2) * sum(t ** 2)`,
which needs no value per element of the matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value, without_dead_calls
from tapegrad.program.passes.new_calls import NewCalls
from tapegrad.program.passes.separation import Factor, InseparableError, Separation

LEAST = 1 << 12
"""The fewest elements of an array that is summed."""

SMALLER = 4
"""A sum of factors reads at most one element of so many of the whole array."""

_DTYPES = ("float32", "float64")


class _Part(NamedTuple):
    """Factors that share summed axes, and these axes; none for factors outside of the sum."""

    factors: list[Factor]
    axes: frozenset[int]


def with_separated_sums(graph: Graph) -> Graph:
    """Replace sums over several axes by products of sums, where factors share no summed axis."""
    large = [call for call in graph.calls if _is_large_sum(call)]
    if not large:
        return graph
    makers = {value.number: call for call in graph.calls for value in call.results}
    found = {call.results[0].number: parts for call in large if (parts := _parts(call, makers))}
    if not found:
        return graph
    numbers = unused_numbers(graph)
    calls: list[Call] = []
    for call in graph.calls:
        known = found.get(call.results[0].number) if call.results else None
        calls.extend([call] if known is None else _product(call, *known, numbers))
    return without_dead_calls(replace(graph, calls=tuple(calls)))


def _summed(call: Call) -> frozenset[int]:
    shape = call.reads[0].shape
    return frozenset(axis for axis in call.params["axis"] if shape[axis] != 1)


def _is_large_sum(call: Call) -> bool:
    if call.primitive.name not in ("sum", "mean") or call.region or len(call.reads) != 1:
        return False
    operand, result = call.reads[0], call.results[0]
    is_known = operand.dtype == result.dtype and operand.dtype.name in _DTYPES
    return is_known and operand.size >= LEAST and len(_summed(call)) > 1


def _parts(call: Call, makers: Mapping[int, Call]) -> tuple[float, list[_Part]] | None:
    """Return a number and the parts of the product that is summed, None if it has only one."""
    operand, summed = call.reads[0], _summed(call)
    try:
        terms = Separation(operand.shape, summed, makers).terms_of(operand)
    except InseparableError:
        return None
    if len(terms) != 1:
        return None
    parts: list[_Part] = []
    for factor in terms[0].factors:
        axes = factor.axes & summed
        meeting = [part for part in parts if part.axes & axes or part.axes == axes]
        parts = [part for part in parts if part not in meeting]
        joined = [one for part in meeting for one in part.factors]
        parts.append(_Part([*joined, factor], axes.union(*[part.axes for part in meeting])))
    if sum(bool(part.axes) for part in parts) < 2 or not _pays(parts, operand):
        return None
    # A value is added once for each element of an axis along which no factor varies.
    repeated = summed.difference(*[part.axes for part in parts])
    number = terms[0].number * prod(operand.shape[axis] for axis in repeated)
    if call.primitive.name == "mean":
        number *= call.results[0].size / operand.size
    return number, parts


def _pays(parts: Collection[_Part], operand: Value) -> bool:
    for part in parts:
        axes = frozenset[int]().union(*[factor.axes for factor in part.factors])
        size = prod(operand.shape[axis] for axis in axes)
        has_no_value = all(factor.divides for factor in part.factors)
        if has_no_value or size * SMALLER > operand.size:
            return False
        if any(factor.value.dtype != operand.dtype for factor in part.factors):
            return False
    return True


def _product(
    call: Call, number: float, parts: Sequence[_Part], numbers: Iterator[int]
) -> list[Call]:
    """Return the calls that make the product of sums; the last one makes the result."""
    new, (operand,), (result,) = NewCalls(call, numbers), call.reads, call.results
    total: Value | None = None
    for part in parts:
        value = _multiplied(new, part.factors)
        if part.axes:
            axes = tuple(sorted(part.axes))
            shape = tuple(1 if axis in axes else n for axis, n in enumerate(value.shape))
            value = new.add("sum", (value,), {"axis": axes, "keepdims": True}, shape)
        total = value if total is None else _both(new, "multiply", total, value)
    assert total is not None
    if number != 1.0:
        total = new.add("multiply", (total, number), {}, total.shape)
    gone = call.params["axis"]
    kept = tuple(1 if axis in gone else n for axis, n in enumerate(operand.shape))
    if total.shape != kept:
        total = new.add("broadcast_to", (total,), {"shape": kept}, kept)
    if total.shape != result.shape:
        new.add("reshape", (total,), {"shape": result.shape}, result.shape)
    return new.ending_in(result)


def _multiplied(new: NewCalls, factors: Sequence[Factor]) -> Value:
    """Return the product of factors, of which one at least is no divisor."""
    made: Value | None = None
    for factor in sorted(factors, key=lambda factor: factor.divides):
        value = _in_space(new, factor.value, factor.shape)
        name = "divide" if factor.divides else "multiply"
        made = value if made is None else _both(new, name, made, value)
    assert made is not None
    return made


def _in_space(new: NewCalls, value: Value, shape: Shape) -> Value:
    """Return a value with all axes of the space."""
    return value if value.shape == shape else new.add("reshape", (value,), {"shape": shape}, shape)


def _both(new: NewCalls, name: str, a: Value, b: Value) -> Value:
    return new.add(name, (a, b), {}, np.broadcast_shapes(a.shape, b.shape))
