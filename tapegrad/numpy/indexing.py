"""Taking entries out by index and putting them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.convert import read_on_host
from tapegrad.core.device import device
from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.numpy.values import (
    as_array,
    as_arrays,
    check_cast,
    deliver,
    dtype_of,
    is_array,
    side_by_side,
    with_dtype,
    with_numbers,
)
from tapegrad.ops import along_axis, picking
from tapegrad.ops.creation import as_constant, as_shape
from tapegrad.ops.indexing import getitem, index_update
from tapegrad.ops.selection import where as choose
from tapegrad.ops.shape import moveaxis, ravel, reshape


def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    """Return the entries at `indices` along an axis (None: of the flattened array).

    >>> take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    # Indices on the host stay there: they are checked without waiting for a device.
    index = indices if is_array(indices) else np.asarray(indices)
    return deliver(picking.take(as_array(a, indices), index, axis, mode), out)


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return elements at `indices` along one axis, all else matched by position.

    >>> take_along_axis([[3, 1], [2, 5]], [[1], [0]]).tolist()
    [[1], [2]]
    """
    x, index = side_by_side(arr, indices)
    if axis is None:
        return along_axis.take_along_axis(ravel(x), index, 0)
    return along_axis.take_along_axis(x, index, axis)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """Write `values` into an array where `indices` point along an axis, in place.

    >>> x = as_array([[1.0, 2.0], [3.0, 4.0]])
    >>> put_along_axis(x, [[0], [1]], 9.0, 1)
    >>> x.tolist()
    [[9.0, 2.0], [3.0, 9.0]]
    """
    flat = ravel(arr) if axis is None else as_array(arr)
    place = 0 if axis is None else normalize_axis(axis, len(arr.shape), "put_along_axis")
    new = with_dtype(as_array(values, arr), dtype_of(as_array(arr)))
    changed = picking.put_along_axis(flat, as_array(indices, flat), new, place)
    arr[...] = reshape(changed, tuple(arr.shape))


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write values into the flattened array at the given places, in place.

    >>> x = as_array([1, 2, 3])
    >>> put(x, [0, 2], [7, 9])
    >>> x.tolist()
    [7, 2, 9]
    """
    where = np.atleast_1d(read_on_host(ind, "put()")).reshape(-1)
    size = int(np.prod(a.shape))
    where = np.clip(where, 0, size - 1) if mode == "clip" else where
    where = where % size if mode == "wrap" else where
    new = _cycled(v, where.size, as_array(a))
    a[...] = reshape(index_update(ravel(a), where, new), tuple(a.shape))


def _cycled(v: Any, count: int, a: Any) -> Any:
    """Return `count` values to be written into `a`, over again where they run out."""
    flat = with_dtype(ravel(as_array(v, a)), dtype_of(a))
    return getitem(flat, np.arange(count) % max(flat.shape[0], 1))


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write values in turn into an array where a mask holds, in place.

    >>> x = as_array([1, 2, 3])
    >>> place(x, [True, False, True], [7, 9])
    >>> x.tolist()
    [7, 2, 9]
    """
    put(arr, np.flatnonzero(read_on_host(mask, "place()")), vals)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write values into an array where a mask holds, each from its own place, in place.

    >>> x = as_array([1, 2, 3])
    >>> putmask(x, [True, False, True], [7, 8, 9])
    >>> x.tolist()
    [7, 2, 9]
    """
    where = np.flatnonzero(read_on_host(mask, "putmask()"))
    size = int(np.prod(a.shape))
    put(a, where, getitem(_cycled(values, size, as_array(a)), where))


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write one array into another, in place.

    >>> x = as_array([1.0, 2.0])
    >>> copyto(x, 5.0)
    >>> x.tolist()
    [5.0, 5.0]
    """
    source, wanted = as_array(src, dst), dtype_of(as_array(dst))
    check_cast("copyto", dtype_of(source), wanted, casting)
    new = with_dtype(source, wanted)
    dst[...] = new if where is True else choose(as_array(where, dst), new, as_array(dst))


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write a value (or values in turn) onto the main diagonal, in place.

    >>> x = as_array([[1, 2], [3, 4]])
    >>> fill_diagonal(x, 0)
    >>> x.tolist()
    [[0, 2], [3, 0]]
    """
    shape = tuple(a.shape)
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ArgumentError("fill_diagonal needs axes of equal length beyond two.")
    step = 1 + int(np.cumprod(shape[1:][::-1] if len(shape) > 2 else shape[1:]).sum())
    end = shape[1] * shape[1] if len(shape) == 2 and not wrap else None
    places = np.arange(int(np.prod(shape)))[:end:step]
    put(a, places, val)


def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the entries along an axis where a vector of conditions holds.

    >>> compress([False, True], [10, 20, 30]).tolist()
    [20]
    """
    return deliver(picking.compress(condition, as_array(a), axis), out)


def extract(condition: Any, arr: Any) -> Any:
    """Return the elements where a condition of the same size holds.

    >>> extract([True, False], [10, 20]).tolist()
    [10]
    """
    return picking.extract(condition, as_array(arr))


def choose_from(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Return `choices[a]` element by element; all broadcast together.

    >>> choose_from([0, 1], [[1, 2], [10, 20]]).tolist()
    [1, 20]
    """
    options = list(as_array(choices)) if hasattr(choices, "shape") else list(choices)
    options = as_arrays(options)
    index, count = as_array(a, options[0]), len(options)
    if mode == "wrap":
        index = index % count
    elif mode == "clip":
        index = index.clip(0, count - 1)
    elif mode != "raise":
        raise ArgumentError(f"mode must be 'raise', 'wrap' or 'clip'. Got {mode!r}.")
    return deliver(picking.choose(index, options), out)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return, element by element, the choice whose condition holds first, else the default.

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
            raise DTypeError(f"select needs truth values as conditions. Got {condition.dtype}.")
    return picking.select(conditions, options, rest)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Apply to each element the function (or take the number) whose condition holds last.

    >>> x = as_array([-2.0, 3.0])
    >>> piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v]).tolist()
    [2.0, 3.0]
    """
    x = as_array(x)
    if not isinstance(condlist, list | tuple) or np.ndim(condlist[0]) == 0:
        condlist = [condlist]
    functions = [_bound(f, args, kw, dtype_of(x)) for f in funclist]
    return picking.piecewise(x, [as_array(c, x) for c in condlist], functions)


def _bound(function: Any, args: Any, kw: Any, kind: Any) -> Any:
    if callable(function):
        return lambda v: with_dtype(as_array(function(v, *args, **kw), v), kind)
    return kind.type(function).item()


# Positions


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """Return the coordinates of positions in a flattened array, one array per axis.

    >>> [part.tolist() for part in unravel_index([5, 2], (2, 3))]
    [[1, 0], [2, 2]]
    """
    values = read_on_host(indices, "unravel_index()")
    parts = np.unravel_index(values, as_shape(shape), order=order)  # type: ignore[call-overload]
    return tuple(as_constant(np.asarray(part)) for part in parts)


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """Return the positions in a flattened array of coordinates.

    >>> ravel_multi_index(([1, 0], [2, 2]), (2, 3)).tolist()
    [5, 2]
    """
    parts = tuple(read_on_host(part, "ravel_multi_index()") for part in multi_index)
    found = np.ravel_multi_index(parts, as_shape(dims), mode, order)  # type: ignore[call-overload]
    return as_constant(np.asarray(found))


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what a function gives of each vector along an axis.

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
    """Apply a reduction over axes in turn, which stay as axes of length 1.

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
