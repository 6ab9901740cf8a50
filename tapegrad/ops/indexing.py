"""NumPy's indexing, for reading and for writing: ints, slices, None, `...`, arrays and masks.

Reading is a basic slice, then a `take` along the axes that arrays index, merged into one. Writing
is the same backwards and makes a new array, so views and recorded values never change.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tapegrad.core.operand import as_operand
from tapegrad.core.primitive import INTERPRETERS, Primitive, execute
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops import arithmetic
from tapegrad.ops.basic import broadcast_p, permute_p, reshape_p, sum_to_shape
from tapegrad.ops.cast import cast
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.gather import linear_index, take_add_p, take_p
from tapegrad.ops.index_plan import (
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
from tapegrad.ops.joining import unstack
from tapegrad.ops.scatter import like, take_set_p
from tapegrad.ops.slicing import slice_p, unslice_p, write

_ALL = slice(None)


def _slice_set(xp: Any, x: Any, v: Any, *, index: tuple[Any, ...]) -> Any:
    result = xp.asarray(x, copy=True)
    write(xp, result, v, index)
    return result


def _cleared(t: Any, index: tuple[Any, ...]) -> Any:
    return slice_set_p(t, zeros_for(t, (), t.dtype), index=index)


slice_set_p = Primitive("slice_set", _slice_set)
slice_set_p.vjps(
    lambda t, *, index: _cleared(t, index),
    lambda t, x2_shape, *, index: sum_to_shape(slice_p(t, index=index), x2_shape),
)
slice_set_p.jvps(
    lambda t, *, index: _cleared(t, index),
    lambda t, x1_shape, *, index: slice_set_p(zeros_for(t, x1_shape, t.dtype), t, index=index),
)


@slice_set_p.batch
def _batch_slice_set(
    size: int, batched: tuple[bool, bool], x: Any, v: Any, *, index: tuple[Any, ...]
) -> Any:
    if not batched[0]:
        x = broadcast_p(x, shape=(size, *x.shape))
    if batched[1]:
        # The examples' axis stands in front of the axes of the place that is written.
        kept = builtins.sum(not isinstance(part, int) for part in index)
        missing = kept - (len(v.shape) - 1)
        v = reshape_p(v, shape=(size, *[1] * missing, *v.shape[1:]))
    return slice_set_p(x, v, index=(_ALL, *index))


# Reading


def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]`, with NumPy's meaning of every index."""
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
        if not is_mask(item):  # rows by one array of integers: no plan is needed
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
    """Go through the slices along the first axis."""
    x = as_operand(x)
    if not x.shape:
        raise ArgumentTypeError("Cannot iterate over a 0-d tensor: it has no axis to go along.")
    if type(x) is Tensor and x.node is None:
        return (getitem(x, k) for k in range(x.shape[0]))
    return iter(unstack(x))  # one gradient for all slices together


# Writing


@dataclass
class _Place:
    """Where a value is written: the merged region, positions in it, and the value spread out."""

    plan: Plan
    region: Any
    merged: Any
    where: Any
    spread: Any
    axis: int


def _find_place(x: Any, index: Any, value: Any) -> _Place:
    plan = parse(index, tuple(x.shape))
    region = x if plan.is_whole else slice_p(x, index=tuple(plan.basic))
    where, first, last, rank = find_positions(region, plan)
    merged = merge_axes(region, first, last)
    shape = (*merged.shape[:first], *where.shape, *merged.shape[first + 1 :])
    order = tuple(range(len(shape)))
    if not plan.is_adjacent:
        order = arrays_first(first, rank, len(shape))
    wanted = tuple(shape[axis] for axis in order)
    spread = broadcast_p(_without_extra_axes(value, wanted), shape=wanted)
    if not plan.is_adjacent:
        spread = permute_p(spread, axes=tuple(order.index(axis) for axis in range(len(order))))
    return _Place(plan, region, merged, where, spread, first)


def index_update(x: Any, index: Any, value: Any) -> Any:
    """Return a copy of `x` with `x[index]` replaced; of repeated indices the last one stays.

    >>> index_update([1.0, 2.0, 3.0], slice(1, None), 9.0).tolist()
    [1.0, 9.0, 9.0]
    """
    x = as_operand(x)
    value = _fit_value(value, x)
    basic = parse_basic(index, x.shape)
    if basic is not None:
        value = _without_extra_axes(value, shape_of_basic(basic, x.shape))
        return slice_set_p(x, value, index=basic)
    place = _find_place(x, index, value)
    written = take_set_p(place.merged, place.spread, place.where, axis=place.axis)
    written = reshape_p(written, shape=tuple(place.region.shape))
    if place.plan.is_whole:
        return written
    return slice_set_p(x, written, index=tuple(place.plan.basic))


def index_add(x: Any, index: Any, value: Any) -> Any:
    """Return `x` with `value` added at an index; repeated indices add up.

    >>> index_add([1.0, 2.0], [0, 0], 1.0).tolist()
    [3.0, 2.0]
    """
    x = as_operand(x)
    value = _fit_value(value, x)
    shape = tuple(x.shape)
    basic = parse_basic(index, shape)
    if basic is not None:
        wanted = shape_of_basic(basic, shape)
        spread = broadcast_p(_without_extra_axes(value, wanted), shape=wanted)
        return arithmetic.add(x, unslice_p(spread, index=basic, shape=shape))
    place = _find_place(x, index, value)
    size = place.merged.shape[place.axis]
    added = take_add_p(place.spread, place.where, axis=place.axis, size=size)
    added = reshape_p(added, shape=tuple(place.region.shape))
    if not place.plan.is_whole:
        added = unslice_p(added, index=tuple(place.plan.basic), shape=shape)
    return arithmetic.add(x, added)


def _fit_value(value: Any, x: Any) -> Any:
    """Bring a value that is written to the dtype of `x`, if nothing is lost by that."""
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
    """Drop leading unit axes beyond the place's rank, and check that the value fits."""
    extra = max(0, len(value.shape) - len(shape))
    have = tuple(value.shape)
    tail = have[extra:]
    pairs = zip(tail, shape[len(shape) - len(tail) :], strict=True)
    if any(n != 1 for n in have[:extra]) or any(n not in (1, want) for n, want in pairs):
        raise ShapeError(f"Cannot write a value of shape {have} to a place of shape {shape}.")
    return reshape_p(value, shape=tail) if extra else value


def setitem(x: Any, index: Any, value: Any) -> None:
    """Do `x[index] = value`: the handle gets a new array and a new place on the tape."""
    if not isinstance(x, Tensor) and type(x) not in INTERPRETERS:
        raise ArgumentTypeError(
            f"{type(x).__name__} cannot be written to. Make it dense first: "
            "x = tapegrad.convert_to_tensor(x)."
        )
    base = getattr(x, "base", None)
    if base is not None and base() is not None:
        raise ArgumentError(
            "This tensor is a slice of another one, which writing here would not change. Write "
            "`x[0, 1] = v` instead of `x[0][1] = v`, or copy the slice first: "
            "tapegrad.identity(x[0])."
        )
    result = index_update(x, index, value)
    if type(result) is type(x) and type(x) in INTERPRETERS:
        x.tensor, x.level = result.tensor, result.level
        return
    if type(result) in INTERPRETERS:
        raise ArgumentTypeError(
            "Inside vmap a value that differs between examples cannot be written into a tensor "
            "that they share. Use y = tapegrad.index_update(x, index, v)."
        )
    x.array, x.node = result.array, result.node
