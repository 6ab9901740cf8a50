"""Set operations: distinct values, membership, union and difference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values import host
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.numpy.joining import concat
from tapegrad.numpy.searching import complex_keys, lexsort, searchsorted, sort
from tapegrad.numpy.values import as_array, as_arrays, dtype_of
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.indexing import slices_and_masks
from tapegrad.ops.indexing.functions import getitem, index_update
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.reduction import cumulative, primitives as reduction
from tapegrad.ops.shape.functions import moveaxis, ravel, reshape


class UniqueAllResult(NamedTuple):
    """Distinct values, the indices of their first occurrence, the inverse, and the counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Distinct values and their counts."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Distinct values and the inverse: the index of each element's value."""

    values: Any
    inverse_indices: Any


def _rows(x: Any) -> list[Any]:
    """Return the keys by which rows are sorted, the primary one last."""
    columns = [ravel(x[:, k]) for k in range(x.shape[1])] if len(x.shape) > 1 else [x]
    return [key for column in reversed(columns) for key in complex_keys(column)]


def _distinct(x: Any, equal_nan: bool) -> UniqueAllResult:
    """Find the distinct entries along the first axis by sorting."""
    count = x.shape[0]
    keys = _rows(x)
    order = lexsort(keys) if keys else None
    true = full_like_p(x, shape=(min(count, 1),), value=True, dtype=np.dtype(bool))
    changed = full_like_p(x, shape=(max(count - 1, 0),), value=False, dtype=np.dtype(bool))
    if order is None:
        order = cumulative.cumsum(full_like_p(x, shape=(count,), value=1, dtype=_INDEX), 0) - 1
    for key in keys:
        ranked = getitem(key, order)
        changed = changed | (ranked[1:] != ranked[:-1])
    if equal_nan:
        # A complex number is NaN if one of its parts is; these come last in the order.
        ranked = getitem(x, order)
        changed = changed & ~((ranked[1:] != ranked[1:]) & (ranked[:-1] != ranked[:-1]))
    first = concat([true, changed])
    if isinstance(x, Tensor):
        host.note_read(x.array, "unique()", nbytes=8)
    starts = slices_and_masks.nonzero(first)[0] if count else order
    ends = concat([starts[1:], full_like_p(starts, shape=(1,), value=count, dtype=_INDEX)])
    number = cumulative.cumsum(cast(first, "int64"), 0) - 1 if count else order
    inverse = index_update(order, order, number) if count else order
    places = getitem(order, starts) if count else order
    counts = (ends if count else ends[:0]) - starts
    return UniqueAllResult(getitem(x, places), places, inverse, counts)


_INDEX = np.dtype("int64")


def unique_all(x: Any) -> UniqueAllResult:
    """Return sorted distinct values, first indices, inverse and counts; every NaN is distinct.

    >>> unique_all([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    x = as_array(x)
    found = _distinct(ravel(x), equal_nan=False)
    return found._replace(inverse_indices=reshape(found.inverse_indices, tuple(x.shape)))


def unique_counts(x: Any) -> UniqueCountsResult:
    """Return sorted distinct values and their counts.

    >>> unique_counts([3, 1, 3]).values.tolist()
    [1, 3]
    """
    found = unique_all(x)
    return UniqueCountsResult(found.values, found.counts)


def unique_inverse(x: Any) -> UniqueInverseResult:
    """Return sorted distinct values and the inverse.

    >>> unique_inverse([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    found = unique_all(x)
    return UniqueInverseResult(found.values, found.inverse_indices)


def unique_values(x: Any) -> Any:
    """Return sorted distinct values.

    >>> unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return unique_all(x).values


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """Return sorted distinct values (along `axis`: distinct slices), and the requested extras.

    Gradients flow to the first occurrence of each value.

    >>> [part.tolist() for part in unique([3, 1, 3], return_counts=True)]
    [[1, 3], [1, 2]]
    """
    x = as_array(ar)
    if axis is not None:
        axis = normalize_axis(axis, len(x.shape), "unique")
    if axis is None or len(x.shape) == 1:
        found = _distinct(ravel(x), equal_nan)
        values, inverse = found.values, reshape(found.inverse_indices, tuple(x.shape))
    else:
        moved = moveaxis(x, axis, 0)
        size = int(np.prod(moved.shape[1:]))
        found = _distinct(reshape(moved, (moved.shape[0], size)), False)
        values = moveaxis(getitem(moved, found.indices), 0, axis)
        inverse = found.inverse_indices
    extras = [(return_index, found.indices), (return_inverse, inverse)]
    wanted = [value for flag, value in [*extras, (return_counts, found.counts)] if flag]
    return (values, *wanted) if wanted else values


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Any:
    """Return for each element whether it is in `test_elements`.

    >>> isin([1, 2, 3], [2, 3]).tolist()
    [False, True, True]
    """
    check_choice("kind", kind, ("sort", "table", None))
    x, tests = as_arrays([element, test_elements])
    sought = ravel(tests)
    if kind == "table" and any(dtype_of(as_array(v)).kind not in "biu" for v in (element, tests)):
        raise ArgumentError(f"isin with kind='table' needs integers. Got {x.dtype}.")
    if is_complex(x) or not sought.shape[0]:
        hits = reduction.any(reshape(x, (*x.shape, 1)) == sought, -1)
    else:
        # Only the element at the insertion index can be equal.
        ordered = sort(sought)
        place = searchsorted(ordered, x).clip(0, sought.shape[0] - 1)
        hits = getitem(ordered, place) == x
    return ~hits if invert else hits


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """Return for each element of the flattened `ar1` whether it is in `ar2`.

    >>> in1d([1, 2], [2]).tolist()
    [False, True]
    """
    return isin(ravel(as_array(ar1)), ar2, invert=invert)


def union1d(ar1: Any, ar2: Any) -> Any:
    """Return the sorted distinct values of both arrays.

    >>> union1d([1, 2], [2, 3]).tolist()
    [1, 2, 3]
    """
    return unique(concat([ar1, ar2], None))


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """Return the sorted values that are in both arrays, and optionally their indices.

    >>> intersect1d([1, 2, 2], [2, 3]).tolist()
    [2]
    """
    (first, at1), (second, at2) = (unique(x, return_index=True) for x in as_arrays([ar1, ar2]))
    hits = isin(first, second)
    common = getitem(first, hits)
    if not return_indices:
        return common
    return common, getitem(at1, hits), getitem(at2, isin(second, first))


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Return the sorted distinct values of `ar1` that are not in `ar2`.

    >>> setdiff1d([1, 2, 3], [2]).tolist()
    [1, 3]
    """
    first = ravel(as_array(ar1)) if assume_unique else unique(ar1)
    return getitem(first, isin(first, ar2, invert=True))


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """Return the sorted values that are in exactly one of the arrays.

    >>> setxor1d([1, 2], [2, 3]).tolist()
    [1, 3]
    """
    return unique(concat([setdiff1d(ar1, ar2), setdiff1d(ar2, ar1)]), equal_nan=False)
