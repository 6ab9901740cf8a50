"""Reading and writing elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, DTypeError, IndexOutOfRangeError, ShapeError
from tapegrad.numpy.values import (
    as_array,
    check_cast,
    checked_array,
    deliver,
    dtype_of,
    is_array,
    known_values,
    side_by_side,
    with_dtype,
    with_numbers,
)
from tapegrad.ops.creation import as_constant, as_shape
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.indexing import along_axis, slices_and_masks
from tapegrad.ops.indexing.functions import check_range, getitem, index_update
from tapegrad.ops.shape.functions import moveaxis, ravel, reshape


def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    """Return the entries at `indices` along an axis (None: of the flattened array).

    >>> take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    # Indices on the host stay there, so they are checked without waiting for a device.
    index = indices if is_array(indices) else np.asarray(indices)
    return deliver(slices_and_masks.take(as_array(a, indices), index, axis, mode), out)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return elements at `indices` along one axis, matched by position along the others.

    >>> take_along_axis([[3, 1], [2, 5]], [[1], [0]]).tolist()
    [[1], [2]]
    """
    x, index = side_by_side(arr, indices)
    if axis is None:
        return along_axis.take_along_axis(ravel(x), index, 0)
    return along_axis.take_along_axis(x, index, axis)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """Write `values` at `indices` along an axis, in place.

    >>> x = as_array([[1.0, 2.0], [3.0, 4.0]])
    >>> put_along_axis(x, [[0], [1]], 9.0, 1)
    >>> x.tolist()
    [[9.0, 2.0], [3.0, 9.0]]
    """
    flat = ravel(arr) if axis is None else as_array(arr)
    place = 0 if axis is None else normalize_axis(axis, len(arr.shape), "put_along_axis")
    new = with_dtype(as_array(values, arr), dtype_of(as_array(arr)))
    changed = slices_and_masks.put_along_axis(flat, as_array(indices, flat), new, place)
    arr[...] = reshape(changed, tuple(arr.shape))


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write values into the flattened array at the given indices, in place.

    >>> x = as_array([1, 2, 3])
    >>> put(x, [0, 2], [7, 9])
    >>> x.tolist()
    [7, 2, 9]
    """
    where = np.atleast_1d(read_on_host(ind, "put()")).reshape(-1)
    if not np.size(v):
        return  # as in NumPy, where there are no values to repeat
    size = int(np.prod(a.shape))
    where = np.clip(where, 0, size - 1) if mode == "clip" else where
    where = where % size if mode == "wrap" else where
    new = _cycled(v, where.size, as_array(a))
    a[...] = reshape(index_update(ravel(a), where, new), tuple(a.shape))


def _cycled(v: Any, count: int, a: Any) -> Any:
    """Return `count` values to write into `a`, repeated as needed."""
    check_range(v, a)
    flat = with_dtype(ravel(as_array(v, a)), dtype_of(a))
    return getitem(flat, np.arange(count) % max(flat.shape[0], 1))


def _true_places(name: str, a: Any, mask: Any) -> np.ndarray:
    """Return where a mask of as many elements as the flattened array is true."""
    known = read_on_host(mask, f"{name}()")
    if known.size != math.prod(a.shape):
        raise ShapeError(f"{name} needs a mask of shape {a.shape}. Got {known.shape}.")
    return np.flatnonzero(known)


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write values in sequence where a mask is true, in place.

    >>> x = as_array([1, 2, 3])
    >>> place(x, [True, False, True], [7, 9])
    >>> x.tolist()
    [7, 2, 9]
    """
    where = _true_places("place", arr, mask)
    if where.size and not np.size(vals):
        raise ArgumentError("place needs values to write. Got none.")
    put(arr, where, vals)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write values where a mask is true, each from the same position, in place.

    >>> x = as_array([1, 2, 3])
    >>> putmask(x, [True, False, True], [7, 8, 9])
    >>> x.tolist()
    [7, 2, 9]
    """
    where = _true_places("putmask", a, mask)
    if not np.size(values):
        return
    size = int(np.prod(a.shape))
    put(a, where, getitem(_cycled(values, size, as_array(a)), where))


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write one array into another, in place.

    >>> x = as_array([1.0, 2.0])
    >>> copyto(x, 5.0)
    >>> x.tolist()
    [5.0, 5.0]
    """
    wanted = dtype_of(as_array(dst))
    if type(src) is int and wanted.kind in "iu":  # a Python number adapts if it fits
        src = checked_array(src, wanted)
    source = as_array(src, dst)
    check_cast("copyto", dtype_of(source), wanted, casting)
    new = with_dtype(source, wanted)
    dst[...] = new if where is True else choose(as_array(where, dst), new, as_array(dst))


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write a value (or values in sequence) onto the main diagonal, in place.

    >>> x = as_array([[1, 2], [3, 4]])
    >>> fill_diagonal(x, 0)
    >>> x.tolist()
    [[0, 2], [3, 0]]
    """
    shape = tuple(a.shape)
    if len(shape) < 2:
        raise ArgumentError(f"fill_diagonal needs two or more axes. Got shape {shape}.")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ArgumentError("fill_diagonal needs axes of equal length for more than two axes.")
    step = 1 + int(np.cumprod(shape[1:][::-1] if len(shape) > 2 else shape[1:]).sum())
    end = shape[1] * shape[1] if len(shape) == 2 and not wrap else None
    places = np.arange(int(np.prod(shape)))[:end:step]
    put(a, places, val)


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the entries along an axis where a condition vector is true.

    >>> compress([False, True], [10, 20, 30]).tolist()
    [20]
    """
    return deliver(slices_and_masks.compress(condition, as_array(a), axis), out)


def extract(condition: Any, arr: Any) -> Any:
    """Return the elements where a condition of the same size is true.

    >>> extract([True, False], [10, 20]).tolist()
    [10]
    """
    return slices_and_masks.extract(condition, as_array(arr))


def choose_from(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Return `choices[a]` element by element; all broadcast together.

    >>> choose_from([0, 1], [[1, 2], [10, 20]]).tolist()
    [1, 20]
    """
    options = list(as_array(choices)) if hasattr(choices, "shape") else list(choices)
    options = with_numbers(options)
    index, count = as_array(a, options[0]), len(options)
    index = with_dtype(index, "int64") if dtype_of(index).kind == "b" else index
    if mode == "wrap":
        index = index % count
    elif mode == "clip":
        index = index.clip(0, count - 1)
    elif mode != "raise":
        raise ArgumentError(f"mode must be 'raise', 'wrap' or 'clip'. Got {mode!r}.")
    else:
        _check_choices(index, count)
    return deliver(slices_and_masks.choose(index, options), out)


def _check_choices(index: Any, count: int) -> None:
    """Raise for numbers below 0, if they can be read without waiting."""
    known = known_values(index)
    if known is not None and known.size and known.min() < 0:
        raise IndexOutOfRangeError(
            f"choose got number {known.min()} for {count} choices. "
            "Use mode='wrap' to count from the end."
        )


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return for each element the first choice whose condition is true, else the default.

    >>> x = as_array([1, 5, 9])
    >>> select([x < 3, x > 7], [x, 10 * x]).tolist()
    [1, 0, 90]
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(
            f"select needs as many conditions as choices, at least one. "
            f"Got {len(condlist)} and {len(choicelist)}."
        )
    near = next((v for v in (*choicelist, *condlist) if is_array(v)), None)
    with device(getattr(near, "device", None)):
        *options, rest = with_numbers([*choicelist, default])
    conditions = [as_array(c, rest) for c in condlist]
    for condition in conditions:
        if dtype_of(condition).kind != "b":
            raise DTypeError(f"select needs booleans as conditions. Got {condition.dtype}.")
    return slices_and_masks.select(conditions, options, rest)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Apply to each element the last function (or number) whose condition is true.

    >>> x = as_array([-2.0, 3.0])
    >>> piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v]).tolist()
    [2.0, 3.0]
    """
    x = as_array(x)
    functions = [_bound(f, args, kw, dtype_of(x)) for f in funclist]
    conditions = [as_array(c, x) for c in _conditions(condlist, len(x.shape))]
    return with_dtype(slices_and_masks.piecewise(x, conditions, functions), dtype_of(x))


def _conditions(condlist: Any, rank: int) -> list[Any]:
    """Return a list of conditions; one condition alone, or a list of booleans, may stand for it."""
    if isinstance(condlist, list | tuple):
        return list(condlist) if rank == 0 or np.ndim(condlist[0]) else [condlist]
    return list(condlist) if len(np.shape(condlist)) > rank else [condlist]


def _bound(function: Any, args: Any, kw: Any, kind: Any) -> Any:
    if callable(function):
        return lambda v: with_dtype(as_array(function(v, *args, **kw), v), kind)
    return kind.type(function).item()


# Index conversion


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Convert flat indices to coordinates, one array per axis.

    >>> [part.tolist() for part in unravel_index([5, 2], (2, 3))]
    [[1, 0], [2, 2]]
    """
    values = read_on_host(indices, "unravel_index()")
    parts = np.unravel_index(values, as_shape(shape), order=order)  # type: ignore[call-overload]
    return tuple(as_constant(np.asarray(part)) for part in parts)


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Convert coordinates to flat indices.

    >>> ravel_multi_index(([1, 0], [2, 2]), (2, 3)).tolist()
    [5, 2]
    """
    parts = tuple(read_on_host(part, "ravel_multi_index()") for part in multi_index)
    found = np.ravel_multi_index(parts, as_shape(dims, "dims"), mode, order)  # type: ignore[call-overload]
    return as_constant(np.asarray(found))


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a function to each vector along an axis.

    >>> apply_along_axis(lambda v: v.sum(), 1, [[1, 2], [3, 4]]).tolist()
    [3, 7]
    """
    x = as_array(arr)
    place = normalize_axis(axis, len(x.shape), "apply_along_axis")
    moved = moveaxis(x, place, -1)
    lead = tuple(moved.shape[:-1])
    rows = reshape(moved, (int(np.prod(lead)), moved.shape[-1]))
    results = as_array([as_array(func1d(row, *args, **kwargs)) for row in rows])
    tail = tuple(results.shape[1:])
    whole = reshape(results, (*lead, *tail))
    at = range(len(lead), len(lead) + len(tail))
    return moveaxis(whole, tuple(at), tuple(range(place, place + len(tail)))) if tail else whole


def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """Apply a reduction over axes in sequence; the axes stay with length 1.

    >>> import tapegrad.numpy as tnp
    >>> apply_over_axes(tnp.sum, [[1, 2], [3, 4]], [0, 1]).tolist()
    [[10]]
    """
    x = as_array(a)
    for axis in np.atleast_1d(axes).tolist():
        rank = len(x.shape)
        reduced = func(x, axis)
        if len(reduced.shape) < rank:
            place = axis % rank
            shape = (*reduced.shape[:place], 1, *reduced.shape[place:])
            reduced = reshape(reduced, shape)
        x = reduced
    return x
