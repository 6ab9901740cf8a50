"""Sorting, partitioning, searching and nonzero."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapegrad.numpy.values import as_array, as_arrays, dtype_of, is_array, side_by_side
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import as_constant
from tapegrad.ops.elementwise.complex_numbers import imag, real
from tapegrad.ops.indexing import slices_and_masks
from tapegrad.ops.indexing.along_axis import take_along_axis_p
from tapegrad.ops.indexing.sorting import argsort_p, searchsorted_p, sort_p
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.shape.functions import ravel, reshape
from tapegrad.ops.shape.joining import stack


def _along(a: Any, axis: int | None, name: str) -> tuple[Any, int]:
    x = as_array(a)
    if axis is None or not x.shape:
        return ravel(x), 0
    return x, normalize_axis(axis, len(x.shape), name)


def _in_order(primitive: Any, a: Any, axis: int | None, name: str, **params: Any) -> Any:
    """Call a primitive that orders elements along `axis`; a scalar is a vector for it."""
    x = a if type(a) is Tensor else as_array(a)
    rank = x.ndim
    if axis is None or not rank:
        result = primitive(ravel(x), axis=0, **params)
        return result if axis is None else reshape(result, ())
    is_last = type(axis) is int and axis == -1  # the default takes a short way
    axis = rank - 1 if is_last else normalize_axis(axis, rank, name)
    return primitive(x, axis=axis, **params)


KINDS = ("quicksort", "heapsort", "mergesort", "stable")


def _check_options(kind: Any, order: Any, stable: Any) -> None:
    """Raise for the arguments that NumPy rejects; every sort here is stable."""
    if order is not None:
        raise ArgumentError(f"Tensors have no fields to sort by. Got order={order!r}.")
    if kind is None:
        return
    # NumPy reads the first letter.
    if kind[:1] not in {name[0] for name in KINDS}:
        check_choice("kind", kind, KINDS)
    if stable is not None:
        raise ArgumentError("Give kind or stable, not both.")


def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """Sort the elements along `axis` (None: of the flattened array).

    >>> sort([3, 1, 2]).tolist(), sort([3, 1, 2], descending=True).tolist()
    ([1, 2, 3], [3, 2, 1])
    """
    if kind is not None or order is not None:
        _check_options(kind, order, stable)
    return _in_order(sort_p, a, axis, "sort", descending=bool(descending))


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: Any = None,
    descending: bool = False,
) -> Any:
    """Return the indices that sort the elements along `axis`.

    >>> argsort([30, 10, 20]).tolist()
    [1, 2, 0]
    """
    _check_options(kind, order, stable)
    return _in_order(argsort_p, a, axis, "argsort", descending=bool(descending), stable=True)


def sort_complex(a: Any) -> Any:
    """Sort complex numbers by real part, then by imaginary part.

    >>> sort_complex([2, 1]).tolist()
    [(1+0j), (2+0j)]
    """
    x = as_array(a)
    if not is_complex(x):
        kind = dtype_of(x)
        x = cast(x, "complex64" if kind.kind in "iu" and kind.itemsize < 3 else "complex128")
    return sort(x)


def lexsort(keys: Any, axis: int = -1) -> Any:
    """Return the indices that sort by several keys; the last key is the primary one.

    >>> lexsort([[1, 0, 2], [5, 5, 4]]).tolist()
    [2, 1, 0]
    """
    rows = list(as_array(keys)) if hasattr(keys, "shape") else side_by_side(*keys)
    place = normalize_axis(axis, len(rows[0].shape), "lexsort")
    order = None
    for key in rows:
        if order is not None:
            key = take_along_axis_p(key, order, axis=place, unique=True)
        step = argsort_p(key, axis=place, descending=False, stable=True)
        order = step if order is None else take_along_axis_p(order, step, axis=place, unique=True)
    return order


def partition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """Partition: the k-th element is at its sorted position (here, all elements are).

    >>> partition([3, 1, 2], 1).tolist()
    [1, 2, 3]
    """
    _check_places(a, kth, axis, kind)
    return sort(a, axis, order=order)


def _check_places(a: Any, kth: Any, axis: int | None, kind: str) -> None:
    if kind != "introselect":
        raise ArgumentError(f"kind must be 'introselect'. Got {kind!r}.")
    if (dtype_of(kth) if is_array(kth) else np.asarray(kth).dtype).kind not in "iub":
        raise ArgumentTypeError(f"kth must be one or several integers. Got {kth}.")
    x, place = _along(a, axis, "partition")
    count = x.shape[place]
    if not is_array(kth) and np.any((np.asarray(kth) >= count) | (np.asarray(kth) < -count)):
        raise ArgumentError(f"kth must be below {count}, the length of the axis. Got {kth}.")


def argpartition(
    a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Any:
    """Return the indices for `partition`.

    >>> argpartition([3, 1, 2], 1).tolist()
    [1, 2, 0]
    """
    _check_places(a, kth, axis, kind)
    return argsort(a, axis, order=order)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Return the indices at which values would be inserted to keep a sequence sorted.

    >>> searchsorted([1, 3, 5], [3, 4]).tolist()
    [1, 2]
    """
    check_choice("side", side, ("left", "right"))
    sequence, values = as_arrays([a, v])
    if len(sequence.shape) != 1:
        raise ShapeError(f"searchsorted needs a vector. Got shape {tuple(sequence.shape)}.")
    if sorter is not None:
        if tuple(np.shape(sorter)) != tuple(sequence.shape):
            raise ShapeError(
                f"searchsorted needs a sorter of shape {tuple(sequence.shape)}. "
                f"Got shape {tuple(np.shape(sorter))}."
            )
        sequence = slices_and_masks.take(sequence, as_array(sorter, sequence))
    found = searchsorted_p(sequence, ravel(values), right=side == "right")
    return reshape(found, tuple(values.shape))


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Return the bin index of each value; `bins` may be increasing or decreasing.

    >>> digitize([0.5, 2.5], [1.0, 2.0]).tolist()
    [0, 2]
    """
    values, edges = side_by_side(x, bins)
    if is_complex(values):
        raise DTypeError("digitize needs real numbers. Got complex numbers.")
    on_host = read_on_host(edges, "digitize()")
    rises = on_host[1:] >= on_host[:-1]
    falls = on_host[1:] <= on_host[:-1]
    side = "left" if right else "right"
    if rises.all():
        return searchsorted(edges, values, side)
    if falls.all():
        return len(on_host) - searchsorted(on_host[::-1], values, side)
    raise ArgumentError("digitize needs monotonic bins.")


# Nonzero elements


def nonzero(a: Any) -> tuple[Any, ...]:
    """Return the coordinates of the nonzero elements, one array per axis.

    >>> [part.tolist() for part in nonzero([0, 5, 7])]
    [[1, 2]]
    """
    x = as_array(a)
    if not x.shape:
        raise ArgumentError("nonzero needs an array with axes. Got a single value.")
    return slices_and_masks.nonzero(x)


def flatnonzero(a: Any) -> Any:
    """Return the flat indices of the nonzero elements.

    >>> flatnonzero([[0, 5], [7, 0]]).tolist()
    [1, 2]
    """
    return slices_and_masks.flatnonzero(as_array(a))


def argwhere(a: Any) -> Any:
    """Return the coordinates of the nonzero elements, one row each.

    >>> argwhere([[0, 5], [7, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    x = as_array(a)
    if not x.shape:
        return as_constant(np.argwhere(read_on_host(x, "argwhere()")))
    return stack(slices_and_masks.nonzero(x), axis=1)


def complex_keys(x: Any) -> list[Any]:
    """Return the sort keys of the elements, the primary one last.

    Complex numbers are sorted by the real part and then by the imaginary part. Numbers with NaN
    come last: first those with a real part, then those with an imaginary part, then the others.
    """
    if not is_complex(x):
        return [x]
    parts = real(x), imag(x)
    missing = [cast(part != part, "int8") for part in parts]
    return [parts[1], parts[0], 2 * missing[0] + missing[1]]
