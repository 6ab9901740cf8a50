"""NumPy's indexing, for reading and for writing: ints, slices, None, `...`, arrays and masks.

Reading is a basic slice, then a `take` along the axes that arrays index, merged into one. Writing
is the same backwards and makes a new array, so views and recorded values never change.
"""

from __future__ import annotations

import builtins
import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapegrad.core.convert import to_host_array
from tapegrad.core.families import nondifferentiable
from tapegrad.core.operand import as_operand
from tapegrad.core.primitive import INTERPRETERS, Primitive
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError, ShapeError
from tapegrad.ops import arithmetic
from tapegrad.ops.basic import broadcast_p, permute_p, reshape_p, sum_to_shape
from tapegrad.ops.cast import cast
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.gather import linear_index, take_add_p, take_p
from tapegrad.ops.joining import holds_tensors, unstack
from tapegrad.ops.scatter import like, take_set_p
from tapegrad.ops.slicing import slice_p, unslice_p

_ALL = slice(None)


def _slice_set(xp: Any, x: Any, v: Any, *, index: tuple[Any, ...]) -> Any:
    result = xp.asarray(x, copy=True)
    result[index] = v
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


nonzero_p = nondifferentiable("nonzero", lambda xp, x: tuple(xp.nonzero(x)), many=True)


# What an index means


@dataclass
class _Plan:
    """An index taken apart: a basic one, then integer arrays by axis of what it gives."""

    basic: list[Any] = field(default_factory=list)
    arrays: dict[int, Any] = field(default_factory=dict)
    labels: list[int] = field(default_factory=list)
    spots: list[int] = field(default_factory=list)
    ellipses: int = 0

    @property
    def is_adjacent(self) -> bool:
        """Whether the arrays stand side by side; else their axes come first in the result."""
        return self.spots[-1] - self.spots[0] == len(self.spots) - 1

    @property
    def is_whole(self) -> bool:
        """Whether the basic index changes nothing."""
        return all(part == _ALL for part in self.basic)


def _parse_basic(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Return a full basic index with ints and slices in range, or None if arrays are in it."""
    items = index if type(index) is tuple else (index,)
    parts: list[Any] = []
    axis = 0
    for position, item in enumerate(items):
        if item is None:
            parts.append(None)
            continue
        if item is Ellipsis:
            later = builtins.sum(part is not None for part in items[position + 1 :])
            rest = max(len(shape) - axis - later, 0)
            parts.extend([_ALL] * rest)
            axis += rest
            continue
        number = item if type(item) is int else _as_int(item)
        if number is None and type(item) is not slice:
            return None
        if axis == len(shape):
            raise _too_many(items, shape)
        if number is None:
            parts.append(_span(item, shape[axis]))
        elif -shape[axis] <= number < shape[axis]:
            parts.append(number)
        else:
            raise IndexOutOfRangeError(
                f"Indexing got index {number} for axis {axis} of length {shape[axis]}."
            )
        axis += 1
    return (*parts, *[_ALL] * (len(shape) - axis))


def _as_int(item: Any) -> int | None:
    """Return an integer scalar of any kind as a Python int if it can be had without waiting."""
    if isinstance(item, Variable):
        item = item.value()
    if isinstance(item, Tensor):
        item = item.array
    if isinstance(item, bool | np.bool_):
        return None
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, np.ndarray) and item.ndim == 0 and item.dtype.kind in "iu":
        return int(item)
    return None


def _too_many(items: Any, shape: tuple[int, ...]) -> IndexOutOfRangeError:
    count = builtins.sum(item is not None and item is not Ellipsis for item in items)
    return IndexOutOfRangeError(
        f"Too many indices: a tensor of shape {tuple(shape)} has {len(shape)} axes. Got {count}."
    )


def _span(part: slice, length: int) -> slice:
    """Return a slice with ends in range, as strict namespaces want them."""
    if part.start is None and part.stop is None and part.step is None:
        return part
    try:
        start, stop, step = part.indices(length)
    except TypeError as error:
        raise ArgumentTypeError(f"The ends and step of a slice are integers: {error}.") from error
    except ValueError as error:
        raise ArgumentError("The step of a slice cannot be 0.") from error
    if step > 0:
        return slice(start, max(start, stop), step)
    if start < 0:
        return slice(0, 0, 1)
    return slice(start, None if stop < 0 else stop, step)


def _parse(index: Any, shape: tuple[int, ...]) -> _Plan:
    """Take apart an index in which arrays or masks occur."""
    items = [_as_item(item) for item in (index if type(index) is tuple else (index,))]
    taken = builtins.sum(_axes_taken(item) for item in items)
    if taken > len(shape):
        raise _too_many(items, shape)
    plan = _Plan()
    axis = 0
    for item in items:
        axis += _add_item(plan, item, shape, axis, len(shape) - taken)
    plan.basic.extend([_ALL] * (len(shape) - axis))
    return plan


def _as_item(item: Any) -> Any:
    """Return None, Ellipsis, slices and ints as they are, all else as an array or operand."""
    if item is None or item is Ellipsis or type(item) is slice:
        return item
    number = _as_int(item)
    if number is not None:
        return number
    if isinstance(item, Variable):
        item = item.value()
    if isinstance(item, list | tuple) and holds_tensors(item):
        item = as_operand(item)
    if not isinstance(item, Tensor) and type(item) not in INTERPRETERS:
        item = to_host_array(item)
        item = item if item.size else item.astype(np.int64 if item.dtype.kind == "f" else item.dtype)
    if item.dtype.kind not in "iub":
        raise ArgumentTypeError(
            f"An index is made of integers, booleans, slices, None and `...`. Got {item.dtype}."
        )
    return item


def _axes_taken(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return len(item.shape) if _is_mask(item) else 1


def _is_mask(item: Any) -> bool:
    return hasattr(item, "dtype") and item.dtype.kind == "b"


def _add_item(plan: _Plan, item: Any, shape: tuple[int, ...], axis: int, rest: int) -> int:
    """Add one item to the plan and return how many axes it takes."""
    if item is None:
        plan.basic.append(None)
        return 0
    if item is Ellipsis:
        plan.basic.extend([_ALL] * rest)
        plan.ellipses += 1  # separates arrays even where it stands for no axis
        return rest
    if type(item) is slice:
        plan.basic.append(_span(item, shape[axis]))
        return 1
    if not _is_mask(item):
        _add_array(plan, item, axis, _ALL)
        return 1
    if not item.shape:  # True keeps a new axis of length 1, False empties it
        _add_array(plan, np.zeros(int(bool(item)), np.int64), axis, None)
        return 0
    found = _where_true(item, shape[axis : axis + len(item.shape)], axis)
    for offset, array in enumerate(found):
        _add_array(plan, array, axis + offset, _ALL)
    return len(found)


def _add_array(plan: _Plan, array: Any, axis: int, part: Any) -> None:
    plan.arrays[len(plan.basic)] = array
    plan.spots.append(len(plan.basic) + plan.ellipses)
    plan.labels.append(axis)
    plan.basic.append(part)


def _where_true(mask: Any, shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    if tuple(mask.shape) != tuple(shape):
        raise ShapeError(
            f"A mask at axis {axis} must have the shape {tuple(shape)} of what it selects from. "
            f"Got {tuple(mask.shape)}."
        )
    if isinstance(mask, np.ndarray):
        return tuple(np.nonzero(mask))
    if type(mask) in INTERPRETERS:
        raise ArgumentTypeError(
            "Inside vmap a mask cannot select entries: each example would get its own length. "
            "Use tapegrad.where(mask, x, 0)."
        )
    found: tuple[Any, ...] = nonzero_p(mask)
    return found


def _positions(x: Any, plan: _Plan) -> tuple[Any, int, int, int]:
    """Return positions along the merged axes, the first and last of these, and the arrays' rank."""
    shape = tuple(x.shape)
    shapes = [np.shape(array) if isinstance(array, int) else tuple(array.shape)
              for array in plan.arrays.values()]
    try:
        rank = len(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise ShapeError(
            f"Index arrays must broadcast together. Got shapes {', '.join(map(str, shapes))}."
        ) from error
    first, last = min(plan.arrays), max(plan.arrays)
    between = [axis for axis in range(first, last) if axis not in plan.arrays]
    labels = dict(zip(plan.arrays, plan.labels, strict=True))
    arrays = []
    for axis in range(first, last + 1):
        if axis in plan.arrays:
            arrays.append(_with_unit_axes(plan.arrays[axis], len(between)))
        else:
            behind = len(between) - between.index(axis) - 1
            arrays.append(np.arange(shape[axis]).reshape(-1, *[1] * behind))
    axes = tuple(labels.get(axis, axis) for axis in range(first, last + 1))
    where = linear_index(x, arrays, shape[first : last + 1], axes, "Indexing")
    return where, first, last, rank


def _with_unit_axes(array: Any, count: int) -> Any:
    if isinstance(array, int):
        return np.asarray(array)
    if not count:
        return array
    shape = (*array.shape, *[1] * count)
    return array.reshape(shape) if isinstance(array, np.ndarray) else reshape_p(array, shape=shape)


def _merged(x: Any, first: int, last: int) -> Any:
    if first == last:
        return x
    shape = x.shape
    length = math.prod(shape[first : last + 1])
    return reshape_p(x, shape=(*shape[:first], length, *shape[last + 1 :]))


def _to_front(first: int, rank: int, ndim: int) -> tuple[int, ...]:
    """The order of axes that puts the arrays' axes first."""
    return (*range(first, first + rank), *range(first), *range(first + rank, ndim))


# Reading


def getitem(x: Any, index: Any) -> Any:
    """Return `x[index]`, with NumPy's meaning of every index."""
    if type(x) is not Tensor:
        x = as_operand(x)
    basic = _parse_basic(index, x.shape)
    if basic is not None:
        part = slice_p(x, index=basic)
        if type(x) is Tensor and type(part) is Tensor:
            part.base = weakref.ref(x)
        return part
    plan = _parse(index, tuple(x.shape))
    if not plan.is_whole:
        x = slice_p(x, index=tuple(plan.basic))
    where, first, last, rank = _positions(x, plan)
    taken = take_p(_merged(x, first, last), where, axis=first)
    if plan.is_adjacent:
        return taken
    return permute_p(taken, axes=_to_front(first, rank, len(taken.shape)))


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

    plan: _Plan
    region: Any
    merged: Any
    where: Any
    spread: Any
    axis: int


def _find_place(x: Any, index: Any, value: Any) -> _Place:
    plan = _parse(index, tuple(x.shape))
    region = x if plan.is_whole else slice_p(x, index=tuple(plan.basic))
    where, first, last, rank = _positions(region, plan)
    merged = _merged(region, first, last)
    shape = (*merged.shape[:first], *where.shape, *merged.shape[first + 1 :])
    order = tuple(range(len(shape)))
    if not plan.is_adjacent:
        order = _to_front(first, rank, len(shape))
    wanted = tuple(shape[axis] for axis in order)
    spread = broadcast_p(_without_extra_axes(value, wanted), shape=wanted)
    if not plan.is_adjacent:
        spread = permute_p(spread, axes=tuple(order.index(axis) for axis in range(len(order))))
    return _Place(plan, region, merged, where, spread, first)


def index_update(x: Any, index: Any, value: Any) -> Any:
    """Return a copy of `x` with `x[index]` replaced; of repeated indices the last one stays.

    >>> import tapegrad
    >>> index_update(tapegrad.constant([1.0, 2.0, 3.0]), slice(1, None), 9.0).numpy().tolist()
    [1.0, 9.0, 9.0]
    """
    x = as_operand(x)
    value = _fit_value(value, x)
    basic = _parse_basic(index, x.shape)
    if basic is not None:
        value = _without_extra_axes(value, _basic_shape(basic, x.shape))
        return slice_set_p(x, value, index=basic)
    place = _find_place(x, index, value)
    written = take_set_p(place.merged, place.spread, place.where, axis=place.axis)
    written = reshape_p(written, shape=tuple(place.region.shape))
    if place.plan.is_whole:
        return written
    return slice_set_p(x, written, index=tuple(place.plan.basic))


def index_add(x: Any, index: Any, value: Any) -> Any:
    """Return `x` with `value` added at an index; repeated indices add up.

    >>> import tapegrad
    >>> index_add(tapegrad.constant([1.0, 2.0]), [0, 0], 1.0).numpy().tolist()
    [3.0, 2.0]
    """
    x = as_operand(x)
    value = _fit_value(value, x)
    shape = tuple(x.shape)
    basic = _parse_basic(index, shape)
    if basic is not None:
        wanted = _basic_shape(basic, shape)
        spread = broadcast_p(_without_extra_axes(value, wanted), shape=wanted)
        return arithmetic.add(x, unslice_p(spread, index=basic, shape=shape))
    place = _find_place(x, index, value)
    size = place.merged.shape[place.axis]
    added = take_add_p(place.spread, place.where, axis=place.axis, size=size)
    added = reshape_p(added, shape=tuple(place.region.shape))
    if not place.plan.is_whole:
        added = unslice_p(added, index=tuple(place.plan.basic), shape=shape)
    return arithmetic.add(x, added)


def _basic_shape(basic: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_to(np.zeros(()), shape)[basic].shape


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
