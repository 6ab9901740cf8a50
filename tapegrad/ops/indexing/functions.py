"""NumPy indexing with ints, slices, None, `...`, integer arrays and masks: read and write.

Reading takes a basic slice, merges the axes that arrays index into one, and applies `take` to it.
Writing inverts these steps and computes a new array, so arrays that a tape saved never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS, execute
from tapegrad.core.values.device import device
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentTypeError, OutOfRangeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.elementwise.selection import where_p
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
from tapegrad.ops.indexing.views import SLICED, as_view, root_of, write
from tapegrad.ops.indexing.write_hook import write_number
from tapegrad.ops.shape.joining import unstack
from tapegrad.ops.shape.primitives import broadcast_p, permute_p, reshape_p

# Reading


def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]` with NumPy's semantics."""
    if type(x) is Tensor:
        if type(index) is int and x.node is None and type(x.array) is np.ndarray:
            array = x.array
            if array.ndim == 1 and -array.size <= index < array.size:  # the usual loop
                return wrap(array[index])
        basic = parse_basic(index, x.array.shape)
        if basic is not None:
            if x.node is None:
                part = wrap(x.array[basic])
            else:
                part = execute(slice_p, [x.array], (x.node,), {"index": basic})
            if not part.array.shape and _is_element(index):
                return part
            return as_view(part, x, SLICED, basic)
    else:
        x = as_operand(x)
        basic = parse_basic(index, x.shape)
        if basic is not None:
            part = slice_p(x, index=basic)
            if not part.shape and _is_element(index):
                return part
            return as_view(part, x, SLICED, basic)
    if not isinstance(index, tuple) and x.shape:
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


def _is_element(index: Any) -> bool:
    """Whether an index of one element gives a number, which is no view; `x[0, ...]` is an array."""
    return Ellipsis not in index if isinstance(index, tuple) else index is not Ellipsis


def iterate(x: Any) -> Iterator[Any]:
    """Return an iterator over the slices along the first axis, which are views."""
    x = as_operand(x)
    if not x.shape:
        raise ArgumentTypeError("Cannot iterate over a 0-d tensor.")
    if type(x) is Tensor and x.node is None:
        if len(x.array.shape) == 1:  # of numbers; a write in the loop gives `x` another array
            return (wrap(x.array[k]) for k in range(x.shape[0]))
        return (getitem(x, k) for k in range(x.shape[0]))
    return _iterate_recorded(x)


def _iterate_recorded(x: Any) -> Iterator[Any]:
    """Yield the slices of one recorded operation, so that the sweep computes one gradient for all.

    After a write to `x` in the body of the loop, the remaining slices are read from its new value.
    """
    value = _value_of(x)
    rest = (slice(None),) * (len(x.shape) - 1)
    for k, part in enumerate(unstack(x)):
        if _value_of(x) is not value:
            yield getitem(x, k)
        else:
            yield as_view(part, x, SLICED, (k, *rest)) if rest else part


def _value_of(x: Any) -> Any:
    """Return the object that a write to `x` replaces."""
    return x.array if isinstance(x, Tensor) else x.tensor


# Writing


class _Target(NamedTuple):
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
    mask = _only_mask(x, index)
    if mask is not None and _is_same_in_each_row(value, x, mask):
        return _write_where(x, mask, value)
    target = _find_target(x, index, value)
    written = take_set_p(target.merged, target.broadcast_value, target.where, axis=target.axis)
    written = reshape_p(written, shape=tuple(target.region.shape))
    if target.plan.is_whole:
        return written
    return slice_set_p(x, written, index=tuple(target.plan.basic))


def _only_mask(x: Any, index: Any) -> Any:
    """Return the mask if the index is one mask for the leading axes of `x`, else None."""
    item = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if isinstance(item, tuple) or item is None or item is Ellipsis:
        return None
    mask = as_item(item)
    fits = is_mask(mask) and mask.shape and tuple(mask.shape) == tuple(x.shape[: len(mask.shape)])
    return mask if fits else None


def _is_same_in_each_row(value: Any, x: Any, mask: Any) -> bool:
    """Whether a value has no axis for the selected rows, or one of length 1."""
    extra = len(value.shape) - (len(x.shape) - len(mask.shape))
    return all(n == 1 for n in value.shape[: max(extra, 0)])


def _write_where(x: Any, mask: Any, value: Any) -> Any:
    """Write to the rows that a mask selects; their number is not needed."""
    rest = tuple(x.shape[len(mask.shape) :])
    value = _without_extra_axes(value, rest)
    with device(x.device):  # for a mask on the host
        mask = as_operand(mask)
    return where_p(reshape_p(mask, shape=(*mask.shape, *[1] * len(rest))), value, x)


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


def check_range(value: Any, x: Any) -> None:
    """Raise if a Python integer, alone or in a list, is beyond the range of the dtype of `x`."""
    kind = type(value)
    if kind not in (int, list, tuple) or not x.dtype.is_integer:
        return
    if kind is not int:
        for item in value:
            check_range(item, x)
        return
    limits = np.iinfo(x.dtype.dtype)
    if not limits.min <= value <= limits.max:
        raise OutOfRangeError(f"Cannot write {value} into a tensor of {x.dtype}.")


def _fit_value(value: Any, x: Any) -> Any:
    """Cast a value to the dtype of `x`, or raise if that would lose information."""
    check_range(value, x)
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
    """Do `x[index] = value`: `x`, its base and their other views get new values on the tape."""
    if type(x) is Tensor and write_number(x, index, value):
        return
    if not isinstance(x, Tensor) and type(x) not in INTERPRETERS:
        raise ArgumentTypeError(
            f"{type(x).__name__} does not support item assignment. Convert it to a dense tensor "
            "first: x = tapegrad.convert_to_tensor(x)."
        )
    if not _is_view_of(value, x, index):
        write(x, index_update(x, index, value))


def _is_view_of(value: Any, x: Any, index: Any) -> bool:
    """Whether `value` is `x[index]`: Python ends `x[index] += v` by assigning that view."""
    if not hasattr(value, "view_of") or isinstance(value, type):
        return False
    base, kind, how = value.view_of
    return base is x and kind is SLICED and how == parse_basic(index, x.shape)


def augmented(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the method for an augmented assignment such as `x += y`.

    A view is written. Any other tensor is a value, as in TensorFlow: the method declines, and
    Python assigns the result of the operator to the name.
    """

    def assign(x: Any, y: Any) -> Any:
        if not hasattr(x, "view_of") or hasattr(root_of(x), "why_read_only"):
            return NotImplemented
        result = function(x, y)
        if result is NotImplemented:
            return result
        if result.shape != x.shape:
            raise ShapeError(f"Shape {x.shape} cannot hold a result of shape {result.shape}.")
        write(x, index_update(x, ..., result))
        return x

    return assign
