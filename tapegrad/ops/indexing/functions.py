"""NumPy indexing with ints, slices, None, `...`, integer arrays and masks: read and write.

Reading takes a basic slice, merges the axes that arrays index into one, and applies `take` to it.
Writing inverts these steps and returns a new array, so views and recorded values never change.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS, execute
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.indexing.gather import linear_index, take_add_p, take_p
from tapegrad.ops.indexing.index_plan import (
    Plan,
    arrays_first,
    as_item,
    find_positions,
    is_mask,
    merge_axes,
    parse,
    parse_basic,
    shape_of_basic,
)
from tapegrad.ops.indexing.primitives import slice_p, slice_set_p, unslice_p
from tapegrad.ops.indexing.scatter import like, take_set_p
from tapegrad.ops.shape.joining import unstack
from tapegrad.ops.shape.primitives import broadcast_p, permute_p, reshape_p

# Reading


def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]` with NumPy's semantics."""
    if type(x) is Tensor:
        basic = parse_basic(index, x.array.shape)
        if basic is not None:
            if x.node is None:
                part = wrap(x.array[basic])
            else:
                part = execute(slice_p, [x.array], (x.node,), {"index": basic})
            part.base = weakref.ref(x)
            return part
    else:
        x = as_operand(x)
        basic = parse_basic(index, x.shape)
        if basic is not None:
            return slice_p(x, index=basic)
    if type(index) is not tuple and x.shape:
        item = as_item(index)
        if not is_mask(item):  # one array of integers selects rows: no plan needed
            where = linear_index(x, [item], (x.shape[0],), (0,), "Indexing")
            return take_p(x, where, axis=0)
    plan = parse(index, tuple(x.shape))
    if not plan.is_whole:
        x = slice_p(x, index=tuple(plan.basic))
    where, first, last, rank = find_positions(x, plan)
    taken = take_p(merge_axes(x, first, last), where, axis=first)
    if plan.is_adjacent:
        return taken
    return permute_p(taken, axes=arrays_first(first, rank, len(taken.shape)))


def iterate(x: Any) -> Iterator[Any]:
    """Return an iterator over the slices along the first axis."""
    x = as_operand(x)
    if not x.shape:
        raise ArgumentTypeError("Cannot iterate over a 0-d tensor.")
    if type(x) is Tensor and x.node is None:
        return (getitem(x, k) for k in range(x.shape[0]))
    return iter(unstack(x))  # one node, so the sweep computes one gradient for all slices


# Writing


@dataclass
class _Target:
    """Where a value is written: the merged region, the positions in it, the broadcast value."""

    plan: Plan
    region: Any
    merged: Any
    where: Any
    broadcast_value: Any
    axis: int


def _find_target(x: Any, index: Any, value: Any) -> _Target:
    plan = parse(index, tuple(x.shape))
    region = x if plan.is_whole else slice_p(x, index=tuple(plan.basic))
    where, first, last, rank = find_positions(region, plan)
    merged = merge_axes(region, first, last)
    shape = (*merged.shape[:first], *where.shape, *merged.shape[first + 1 :])
    order = tuple(range(len(shape)))
    if not plan.is_adjacent:
        order = arrays_first(first, rank, len(shape))
    wanted = tuple(shape[axis] for axis in order)
    broadcast_value = broadcast_p(_without_extra_axes(value, wanted), shape=wanted)
    if not plan.is_adjacent:
        broadcast_value = permute_p(
            broadcast_value, axes=tuple(order.index(axis) for axis in range(len(order)))
        )
    return _Target(plan, region, merged, where, broadcast_value, first)


def index_update(x: Any, index: Any, value: Any) -> Any:
    """Return a copy of `x` with `x[index]` replaced; of repeated indices the last one wins.

    >>> index_update([1.0, 2.0, 3.0], slice(1, None), 9.0).tolist()
    [1.0, 9.0, 9.0]
    """
    x = as_operand(x)
    value = _fit_value(value, x)
    basic = parse_basic(index, x.shape)
    if basic is not None:
        value = _without_extra_axes(value, shape_of_basic(basic, x.shape))
        return slice_set_p(x, value, index=basic)
    target = _find_target(x, index, value)
    written = take_set_p(target.merged, target.broadcast_value, target.where, axis=target.axis)
    written = reshape_p(written, shape=tuple(target.region.shape))
    if target.plan.is_whole:
        return written
    return slice_set_p(x, written, index=tuple(target.plan.basic))


def index_add(x: Any, index: Any, value: Any) -> Any:
    """Return a copy of `x` with `value` added at `index`; repeated indices accumulate.

    >>> index_add([1.0, 2.0], [0, 0], 1.0).tolist()
    [3.0, 2.0]
    """
    x = as_operand(x)
    value = _fit_value(value, x)
    shape = tuple(x.shape)
    basic = parse_basic(index, shape)
    if basic is not None:
        wanted = shape_of_basic(basic, shape)
        broadcast_value = broadcast_p(_without_extra_axes(value, wanted), shape=wanted)
        return arithmetic.add(x, unslice_p(broadcast_value, index=basic, shape=shape))
    target = _find_target(x, index, value)
    size = target.merged.shape[target.axis]
    added = take_add_p(target.broadcast_value, target.where, axis=target.axis, size=size)
    added = reshape_p(added, shape=tuple(target.region.shape))
    if not target.plan.is_whole:
        added = unslice_p(added, index=tuple(target.plan.basic), shape=shape)
    return arithmetic.add(x, added)


def _fit_value(value: Any, x: Any) -> Any:
    """Cast a value to the dtype of `x`, or raise if that would lose information."""
    value = like(value, x)
    if value.dtype == x.dtype:
        return value
    order = "biufc"
    if order.find(value.dtype.kind) > order.find(x.dtype.kind):
        raise ArgumentTypeError(
            f"Cannot write {value.dtype} values into a tensor of {x.dtype}: cast one of them with "
            f"tapegrad.cast(x, '{value.dtype}')."
        )
    return cast(value, x.dtype)


def _without_extra_axes(value: Any, shape: tuple[int, ...]) -> Any:
    """Drop leading unit axes in excess of `shape`, and check that the value broadcasts to it."""
    extra = max(0, len(value.shape) - len(shape))
    have = tuple(value.shape)
    tail = have[extra:]
    pairs = zip(tail, shape[len(shape) - len(tail) :], strict=True)
    if any(n != 1 for n in have[:extra]) or any(n not in (1, want) for n, want in pairs):
        raise ShapeError(f"Cannot write a value of shape {have} to a selection of shape {shape}.")
    return reshape_p(value, shape=tail) if extra else value


def setitem(x: Any, index: Any, value: Any) -> None:
    """Do `x[index] = value`: `x` gets a new array and a new node on the tape."""
    if not isinstance(x, Tensor) and type(x) not in INTERPRETERS:
        raise ArgumentTypeError(
            f"{type(x).__name__} does not support item assignment. Convert it to a dense tensor "
            "first: x = tapegrad.convert_to_tensor(x)."
        )
    base = getattr(x, "base", None)
    if base is not None and base() is not None:
        raise ArgumentError(
            "This tensor is a slice of another one, and writing to it would not change the other. "
            "Write `x[0, 1] = v` instead of `x[0][1] = v`, or copy the slice first: "
            "tapegrad.identity(x[0])."
        )
    result = index_update(x, index, value)
    if type(result) is type(x) and type(x) in INTERPRETERS:
        x.tensor, x.level = result.tensor, result.level
        return
    if type(result) in INTERPRETERS:
        raise ArgumentTypeError(
            "Inside vmap, a batched value cannot be written into an unbatched tensor. "
            "Use y = tapegrad.index_update(x, index, v)."
        )
    x.array, x.node = result.array, result.node
