"""Joining and splitting arrays; parts are promoted to a common dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, described, is_whole
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.sizes import computed
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexKindError,
    IndexOutOfRangeError,
    ShapeError,
    ZeroDivisorError,
)
from tapegrad.numpy.manipulation import ravel
from tapegrad.numpy.values import (
    as_array,
    check_cast,
    checked_array,
    deliver,
    dtype_of,
    in_common_dtype,
    is_array,
    side_by_side,
    with_dtype,
    with_numbers,
)
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.creation import as_shape
from tapegrad.ops.indexing.slices_and_masks import compress
from tapegrad.ops.indexing.views import SLICED, as_view
from tapegrad.ops.shape import joining
from tapegrad.ops.shape.functions import broadcast_to, moveaxis, reshape


def _parts(
    arrays: Any, dtype: Any, casting: str = "same_kind", numbers_adapt: bool = False
) -> list[Any]:
    """Return the parts in the requested dtype, or in their common dtype."""
    if isinstance(arrays, Tensor | Variable):
        arrays = list(as_array(arrays))
    if not isinstance(arrays, Iterable):
        raise ArgumentTypeError(f"Joining needs a list of arrays. Got {arrays!r}.")
    given = list(arrays)
    is_usual = dtype is None and casting == "same_kind"
    are_tensors = is_usual and {type(value) for value in given} == {Tensor}
    if are_tensors and len({dtype_of(value) for value in given}) == 1:
        return given  # nothing to convert: the usual case
    parts = side_by_side(*given)
    if not parts:
        raise ArgumentError("Joining needs at least one array. Got none.")
    adapting = [numbers_adapt and type(value) in NUMBERS for value in given]
    if any(adapting):
        mixed = [given[k] if adapts else parts[k] for k, adapts in enumerate(adapting)]
        made = [with_dtype(part, dtype) for part in with_numbers(mixed)]
    else:
        made = [with_dtype(part, dtype) for part in in_common_dtype(parts)]
    if dtype is None and casting == "same_kind":
        return made  # a common dtype holds all parts
    for part, new, adapts in zip(parts, made, adapting):
        if not adapts:
            check_cast("Joining", dtype_of(part), dtype_of(new), casting)
    return made


def _target_dtype(out: Any, dtype: Any) -> Any:
    """Return the dtype to which the parts are cast; None means their common dtype."""
    if out is None:
        return dtype
    if dtype is not None:
        raise ArgumentTypeError("Joining takes out= or dtype=, not both: out has a dtype.")
    return getattr(out, "dtype", None)


def concat(
    arrays: Any,
    /,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Join arrays along an existing axis (None: flatten first).

    >>> concat([[1, 2], [3.5]]).tolist()
    [1.0, 2.0, 3.5]
    """
    dtype = _target_dtype(out, dtype)
    if axis is None:
        # Only here can a part be a Python number, which adapts to the dtype of the others.
        parts = _parts(arrays, dtype, casting, numbers_adapt=True)
        return deliver(joining.concat([ravel(part) for part in parts], 0), out, casting)
    parts = _parts(arrays, dtype, casting)
    place = normalize_axis(axis, len(parts[0].shape), "concatenate") if parts[0].shape else 0
    return deliver(joining.concat(parts, place), out, casting)


concatenate = concat


def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join arrays of one shape along a new axis.

    >>> stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    dtype = _target_dtype(out, dtype)
    parts = _parts(arrays, dtype, casting)
    place = normalize_axis(axis, len(parts[0].shape) + 1, "stack")
    return deliver(joining.stack(parts, place), out, casting)


def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join arrays along the first axis; vectors become rows.

    >>> vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return joining.vstack(_parts(tup, dtype, casting))


row_stack = vstack


def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join arrays along the second axis; vectors are joined along their only axis.

    >>> hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    return joining.hstack(_parts(tup, dtype, casting))


def dstack(tup: Any) -> Any:
    """Join arrays along the third axis.

    >>> dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return joining.dstack(_parts(tup, None))


def column_stack(tup: Any) -> Any:
    """Join arrays along the second axis; vectors become columns.

    >>> column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    return joining.column_stack(_parts(tup, None))


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Append values to the end of an array.

    >>> append([1, 2], [3]).tolist()
    [1, 2, 3]
    """
    return concat(side_by_side(arr, values), axis)


def block(arrays: Any) -> Any:
    """Assemble an array from nested lists of blocks; the innermost lists run along the last axis.

    >>> block([[1, 2], [3, 4]]).tolist(), block([as_array([1, 2]), 3]).tolist()
    ([[1, 2], [3, 4]], [1, 2, 3])
    """
    depth = _depth(arrays)
    if depth == 0:
        return identity(as_array(arrays))
    leaves = _leaves(arrays)
    near = next((leaf for leaf in leaves if is_array(leaf)), None)
    rank = max(depth, *[len(as_array(leaf, near).shape) for leaf in leaves])
    return _joined(arrays, rank, rank - depth, near)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _depth(value: Any) -> int:
    """Return the depth of nested lists, which must be the same for all of them."""
    if not _is_list(value):
        return 0
    if not value:
        raise ArgumentError("block needs blocks in every list. Got an empty list.")
    depths = {_depth(part) for part in value}
    if len(depths) > 1:
        raise ArgumentError("block needs lists of equal depth. Got different depths.")
    return 1 + depths.pop()


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if _is_list(value) else [value]


def _joined(value: Any, rank: int, axis: int, near: Any) -> Any:
    if not _is_list(value):
        x = as_array(value, near)
        return reshape(x, (*[1] * (rank - len(x.shape)), *x.shape))
    return concat([_joined(part, rank, axis + 1, near) for part in value], axis)


# Splitting


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices along an axis, one array each.

    >>> [part.tolist() for part in unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = as_array(x)
    if not x.shape:
        raise ShapeError("unstack needs an array with axes. Got a 0-d array.")
    place = normalize_axis(axis, len(x.shape), "unstack")
    if not x.shape[place]:
        return ()
    lead = (slice(None),) * place
    tail = (slice(None),) * (len(x.shape) - place - 1)
    parts = joining.unstack(x, axis=place)
    if len(x.shape) == 1:
        return tuple(parts)  # numbers, which are no views
    return tuple(as_view(part, x, SLICED, (*lead, k, *tail)) for k, part in enumerate(parts))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split into equal parts along an axis (a number of them), or at the given indices.

    >>> [part.tolist() for part in split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    x = as_array(ary)
    place = normalize_axis(axis, len(x.shape), "split")
    if np.ndim(indices_or_sections) == 0:
        count = _whole(indices_or_sections)
        if count == 0:
            raise ZeroDivisorError("split needs 1 or more parts. Got 0.")
        if x.shape[place] % count:
            raise ArgumentError(
                f"split cannot divide {x.shape[place]} entries into {count} equal parts; use "
                "array_split."
            )
    return array_split(x, indices_or_sections, place)


def _whole(count: Any) -> int:
    if not is_whole(count):
        raise ArgumentTypeError(
            f"Splitting needs a number of parts or a list of indices for indices_or_sections. "
            f"Got {described(count)}."
        )
    return int(count)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split into parts of nearly equal size along an axis, or at the given indices.

    >>> [part.tolist() for part in array_split([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    x = as_array(ary)
    axis = normalize_axis(axis, len(x.shape), "array_split")
    if np.ndim(indices_or_sections):
        length = x.shape[axis]
        places = [
            computed(_place, k, length)
            for k in as_shape(indices_or_sections, "indices_or_sections")
        ]
        whole = [slice(None)] * axis
        starts, ends = [0, *places], [*places, length]
        return [x[(*whole, slice(i, max(i, j)))] for i, j in zip(starts, ends, strict=True)]
    return _as_slices(x, joining.array_split(x, _whole(indices_or_sections), axis), axis)


def _place(k: int, length: int) -> int:
    """Return an index that counts from the start and lies within an axis."""
    return min(max(k + length, 0) if k < 0 else k, length)


def _as_slices(x: Any, parts: list[Any], axis: int) -> list[Any]:
    """Return adjacent parts of `x` along an axis as views."""
    start = 0
    for part in parts:
        stop = start + part.shape[axis]
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(start, stop, 1)
        as_view(part, x, SLICED, tuple(index))
        start = stop
    return list(parts)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the first axis.

    >>> len(vsplit([[1, 2], [3, 4]], 2))
    2
    """
    return split(_of_rank(ary, 2, "vsplit"), indices_or_sections, 0)


def _of_rank(ary: Any, least: int, name: str) -> Any:
    x = as_array(ary)
    if len(x.shape) < least:
        raise ShapeError(f"{name} needs an array of {least} or more axes. Got {len(x.shape)}.")
    return x


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the second axis (vectors: along their only axis).

    >>> [part.tolist() for part in hsplit([1, 2], 2)]
    [[1], [2]]
    """
    x = _of_rank(ary, 1, "hsplit")
    return split(x, indices_or_sections, 1 if len(x.shape) > 1 else 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the third axis.

    >>> len(dsplit([[[1, 2]]], 2))
    2
    """
    return split(_of_rank(ary, 3, "dsplit"), indices_or_sections, 2)


# Insertion and deletion


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Insert values before the given indices.

    >>> insert([1, 2, 3], 1, 9).tolist(), insert([1, 2, 3], [0, 2], [8, 9]).tolist()
    ([1, 9, 2, 3], [8, 1, 2, 9, 3])
    """
    x, new = side_by_side(arr, values)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape), "insert")
    length = x.shape[axis]
    places = np.arange(length)[obj] if isinstance(obj, slice) else _places(obj, "insert")
    places = np.flatnonzero(places) if places.dtype.kind == "b" else places
    if places.ndim > 1:
        raise ShapeError(f"insert needs one index or a list. Got shape {places.shape}.")
    _check_places(places, length, length, "insert")
    if type(values) in NUMBERS and dtype_of(x).kind in "iu":
        new = as_array(checked_array(values, dtype_of(x)), x)
    new = with_dtype(new, x.dtype)
    if places.size == 1:
        # One index may insert several entries: those along `axis` of the values.
        new = reshape(new, (*[1] * (len(x.shape) - len(new.shape)), *new.shape))
        new = new if places.ndim else moveaxis(new, 0, axis)
        places = np.repeat(places, new.shape[axis])
    where = np.where(places < 0, places + length, places).astype(int)
    spread = _broadcast(new, (*x.shape[:axis], where.size, *x.shape[axis + 1 :]))
    # Each new entry precedes the old one at its index, in the given order.
    keys = np.concatenate([np.arange(length) + 0.5, where])
    return concat([x, spread], axis).take(np.argsort(keys, kind="stable"), axis)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    wide = reshape(x, (*[1] * (len(shape) - len(x.shape)), *x.shape))
    return broadcast_to(wide, shape)


def _places(obj: Any, name: str) -> np.ndarray:
    """Return indices as a host array of integers or booleans."""
    places = np.asarray(obj.numpy() if isinstance(obj, Tensor | Variable) else obj)
    if not places.size:
        return places.astype(int)
    if places.dtype.kind not in "iub":
        raise IndexKindError(f"{name} needs integers or a mask. Got {places.dtype}.")
    return places


def _check_places(places: np.ndarray, length: int, last: int, name: str) -> None:
    wrong = places[(places < -length) | (places > last)]
    if wrong.size:
        raise IndexOutOfRangeError(
            f"{name} got index {wrong[0]}, which is out of range for an axis of length {length}."
        )


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Delete the entries at the given indices.

    >>> delete([1, 2, 3], 1).tolist()
    [1, 3]
    """
    x = as_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape), "delete")
    length = x.shape[axis]
    kept = np.ones(length, bool)
    places = obj if isinstance(obj, slice) else _places(obj, "delete")
    if isinstance(places, np.ndarray) and places.dtype.kind == "b":
        if places.shape != (length,):
            raise ShapeError(f"delete needs a mask of length {length}. Got shape {places.shape}.")
    elif isinstance(places, np.ndarray):
        _check_places(places, length, length - 1, "delete")
    kept[places] = False
    return compress(kept, x, axis)


def meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Return the coordinate arrays of the grid of several vectors.

    >>> [x.tolist() for x in meshgrid([1, 2], [3, 4])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    from_vectors = [ravel(x) for x in arrays]
    check_choice("indexing", indexing, ("xy", "ij"))
    places = list(range(len(from_vectors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = [1, 0]
    rank = len(places)
    thin = [
        reshape(x, tuple(x.shape[0] if k == place else 1 for k in range(rank)))
        for x, place in zip(from_vectors, places, strict=True)
    ]
    if sparse or not thin:
        return tuple(thin)
    shape = np.broadcast_shapes(*[tuple(x.shape) for x in thin])
    return tuple(_broadcast(x, shape) for x in thin)
