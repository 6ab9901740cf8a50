"""TensorFlow's `tf.sets`: operations on the sets in the last axis, computed on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.errors import ShapeError
from tapegrad.sparse.tensor import SparseTensor, as_tensor

__all__ = ["difference", "intersection", "size", "union"]

_Rows = dict[tuple[int, ...], set[Any]]


def intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Return the values that are in both sets, in ascending order, for each row.

    >>> intersection([[1, 2, 3]], [[3, 1, 7]]).values.tolist()
    [1, 3]
    """
    return _combined(a, b, set.__and__)


def union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Return the values that are in one of the sets or in both, in ascending order.

    >>> union([[1, 2, 3]], [[3, 1, 7]]).values.tolist()
    [1, 2, 3, 7]
    """
    return _combined(a, b, set.__or__)


def difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Return the values of `a` that are not in `b`; without `aminusb`, those of `b` not in `a`.

    >>> difference([[1, 2, 3]], [[3, 1, 7]]).values.tolist()
    [2]
    """
    first, second = (a, b) if aminusb else (b, a)
    return _combined(first, second, set.__sub__)


def size(a: Any, validate_indices: bool = True) -> Any:
    """Return the number of different values in each row of a sparse tensor.

    >>> size(union([[1, 2], [4, 4]], [[2, 3], [4, 4]])).tolist()
    [3, 1]
    """
    rows, lead, _ = _rows(a)
    counts = np.zeros(lead, np.int32)
    for place, values in rows.items():
        counts[place] = len(values)
    return as_tensor(counts)


def _combined(a: Any, b: Any, combine: Callable[[set[Any], set[Any]], set[Any]]) -> SparseTensor:
    ours, lead, dtype = _rows(a)
    theirs, other_lead, _ = _rows(b)
    if lead != other_lead:
        raise ShapeError(
            f"Sets need tensors that agree in all axes but the last. Got {lead} and {other_lead} "
            "before the last axis."
        )
    places: list[tuple[int, ...]] = []
    found: list[Any] = []
    for place in np.ndindex(*lead):
        values = sorted(combine(ours.get(place, set()), theirs.get(place, set())))
        places += [(*place, k) for k in range(len(values))]
        found += values
    longest = max((place[-1] + 1 for place in places), default=0)
    indices = np.array(places, np.int64).reshape(len(places), len(lead) + 1)
    return SparseTensor(indices, as_tensor(np.array(found, dtype)), [*lead, longest])


def _rows(value: Any) -> tuple[_Rows, tuple[int, ...], Any]:
    """Return the set of each row, the shape without the last axis, and the dtype."""
    if isinstance(value, SparseTensor):
        values, lead = _on_host(value.values), tuple(value.shape)[:-1]
        rows: _Rows = {}
        for place, one in zip(value.places().tolist(), values.tolist()):
            rows.setdefault(tuple(place[:-1]), set()).add(one)
        return rows, lead, values.dtype
    array = _on_host(value)
    if not array.ndim:
        raise ShapeError("Sets are in the last axis of a tensor. Got a tensor without axes.")
    lead = array.shape[:-1]
    return {place: {*array[place].tolist()} for place in np.ndindex(*lead)}, lead, array.dtype


def _on_host(value: Any) -> np.ndarray:
    found: np.ndarray = (
        text_array(value) if is_text(value) else read_on_host(value, "tapegrad.sets")
    )
    return found


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("sets", name)


_check_calls(globals(), __all__)
