"""Remove sums of deviations from a mean, which are zero.

The gradient of a variance reaches its operand directly, and through the mean that is subtracted:
by the sum of all deviations, which is nothing but rounding errors. It would take a pass over the
whole array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.graph.iteration_spaces import is_view

_FACTORS = ("multiply", "multiply_no_nan", "divide", "zero_with")
_FIRST_VARIES = ("divide", "zero_with")
"""Calls of which only the first operand may vary along the axes of a sum."""

MOST_CALLS = 4
"""The most calls that are followed to see that a value is constant along axes."""

_SUMS = ("sum", "mean")


def without_centred_sums(graph: Graph) -> Graph:
    """Replace sums along axes of (x - mean of x) times what is constant along them by zeros."""
    if sum(call.primitive.name in _SUMS for call in graph.calls) < 2:
        return graph
    makers = {value.number: call for call in graph.calls for value in call.results}
    calls = [_zeros(call) if _is_centred(call, makers) else call for call in graph.calls]
    return without_dead_calls(replace(graph, calls=tuple(calls)))


def _zeros(call: Call) -> Call:
    (result,) = call.results
    params = {"shape": result.shape, "value": 0, "dtype": result.dtype}
    return replace(call, primitive=PRIMITIVES["full_like"], params=params)


def _is_centred(call: Call, makers: Mapping[int, Call]) -> bool:
    """Whether a call sums deviations from a mean, each times the same factor."""
    if call.primitive.name not in _SUMS or call.region or call.results[0].dtype.kind != "f":
        return False
    value = call.reads[0]
    rank = len(value.shape)
    # Axes are counted from the end, so that they are the same for operands that broadcast.
    axes = frozenset(axis - rank for axis in call.params["axis"] if value.shape[axis] != 1)
    while axes:
        made = makers.get(value.number)
        if made is None or made.region:
            return False
        if made.primitive.name == "subtract":
            return _is_deviation(made, axes, makers)
        following = _varying_factor(made, axes, makers)
        if following is None or following.dtype != value.dtype:
            return False
        value = following
    return False


def _varying_factor(call: Call, axes: frozenset[int], makers: Mapping[int, Call]) -> Value | None:
    """Return the operand that varies along axes if the others are constant along them."""
    name = call.primitive.name
    if name == "negative":
        return call.reads[0]
    if name not in _FACTORS:
        return None
    varying = [x for x in call.operands if not _is_constant(x, axes, makers)]
    if len(varying) != 1 or not isinstance(varying[0], Value):
        return None
    if name in _FIRST_VARIES and varying[0] is not call.operands[0]:
        return None
    return varying[0]


def _is_constant(
    operand: Any, axes: frozenset[int], makers: Mapping[int, Call], depth: int = MOST_CALLS
) -> bool:
    """Whether an operand has one value along all of these axes."""
    if not isinstance(operand, Value):
        return isinstance(operand, int | float)
    shape = operand.shape
    if all(-axis > len(shape) or shape[axis] == 1 for axis in axes):
        return True
    made = makers.get(operand.number)
    if made is None or not depth:
        return False
    name = made.primitive.name
    if name != "broadcast_to" and name not in _FACTORS:
        return False
    return all(_is_constant(x, axes, makers, depth - 1) for x in made.operands)


def _is_deviation(call: Call, axes: frozenset[int], makers: Mapping[int, Call]) -> bool:
    """Whether a difference is that of a value and its mean along exactly these axes."""
    first, second = call.operands
    if not isinstance(first, Value) or not isinstance(second, Value):
        return False
    x, mean = (second, first) if first.shape == _kept(second, axes) else (first, second)
    if call.results[0].shape != x.shape:
        return False
    made = _maker_behind_views(mean, makers)
    if made is None or mean.shape != _kept(x, axes):
        return False
    name = made.primitive.name
    if name == "mean":
        return _reduces(made, x, axes)
    count = prod(x.shape[axis] for axis in axes)
    if name == "divide" and made.operands[1] == count and made.reads:
        total = _maker_behind_views(made.reads[0], makers)
        return total is not None and total.primitive.name == "sum" and _reduces(total, x, axes)
    return False


def _maker_behind_views(value: Value, makers: Mapping[int, Call]) -> Call | None:
    """Return the call that makes a value, of which the axes of length 1 were perhaps inserted."""
    made = makers.get(value.number)
    while made is not None and made.primitive.name == "reshape" and is_view(made):
        made = makers.get(made.reads[0].number)
    return made


def _reduces(call: Call, x: Value, axes: frozenset[int]) -> bool:
    """Whether a call reduces a value along these axes, and no others that matter."""
    if call.reads[0].number != x.number:
        return False
    rank = len(x.shape)
    own = {axis - rank for axis in call.params["axis"] if x.shape[axis] != 1}
    return own == axes


def _kept(x: Value, axes: frozenset[int]) -> tuple[int, ...]:
    rank = len(x.shape)
    return tuple(1 if axis - rank in axes else n for axis, n in enumerate(x.shape))
