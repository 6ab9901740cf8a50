"""Write one number into a tensor on the host, without a new array where that is possible.

`x[i] = v` in a loop would otherwise copy all of `x` each time.
"""

from __future__ import annotations

from typing import Any
from weakref import getweakrefcount

import numpy as np

from tapegrad.core.ownership import is_held_alone
from tapegrad.core.values.tensor import Tensor
from tapegrad.ops.indexing.index_plan import parse_basic
from tapegrad.ops.indexing.views import WRITE_GUARDS

_FOR_FLOATS, _FOR_INTS = "fd", "fdilq"
"""The codes of the dtypes that take Python floats and ints: float32 and float64, int32, int64."""
_LARGEST_FLOAT, _LARGEST_INT = 1e38, 2**31
"""Numbers up to these fit into all of these; larger ones are left to the general way."""


def write_number(x: Tensor, index: Any, value: Any) -> bool:
    """Do `x[index] = value` if that is one number and no tape has to know; return whether it was.

    The memory is written if nothing but the tensor holds it: no tape that saved it, no view, no
    program. Otherwise the tensor gets a copy first.
    """
    array = x.array
    if type(array) is not np.ndarray or x.node is not None:
        return False
    number = _number_for(array, value)
    if number is None:
        return False
    index = _place_of(array, index)
    if index is None:
        return False
    # The base of a view has a weak reference to it; to ask for `view_of` would take longer.
    if getweakrefcount(x) or (hasattr(x, "views") and _has_views(x)):
        return False
    for guard in WRITE_GUARDS:
        guard(x)
    is_writeable = array.flags.writeable
    del array  # it would count as a holder
    if not is_writeable or not is_held_alone(x):
        x.array = x.array.copy()
    x.array[index] = number
    return True


def with_number(array: Any, index: Any, value: Any) -> Any:
    """Return a copy of an array with one other number, or None if that is not all there is to do.

    >>> with_number(np.array([1.0, 2.0]), 1, 5.0).tolist()
    [1.0, 5.0]
    """
    number = _number_for(array, value) if type(array) is np.ndarray else None
    if number is None:
        return None
    index = _place_of(array, index)
    if index is None:
        return None
    changed = array.copy()
    changed[index] = number
    return changed


def _number_for(array: np.ndarray, value: Any) -> Any:
    """Return a number that fits into an array as it is, or None."""
    kind, number = type(value), value
    if kind is float:
        if array.dtype.char not in _FOR_FLOATS or not -_LARGEST_FLOAT < value < _LARGEST_FLOAT:
            return None
    elif kind is int:
        if array.dtype.char not in _FOR_INTS or not -_LARGEST_INT < value < _LARGEST_INT:
            return None
    else:
        number = value.array if kind is Tensor and value.node is None else value
        is_number = type(number) is np.ndarray and not number.shape
        if type(number) is not array.dtype.type and not (is_number and number.dtype == array.dtype):
            return None
    return number


def _place_of(array: np.ndarray, index: Any) -> Any:
    """Return the index of one element as NumPy takes it, or None if it is of another kind."""
    if type(index) is int and array.ndim == 1 and -array.size <= index < array.size:
        return index
    return parse_basic(index, array.shape)


def _has_views(x: Tensor) -> bool:
    return any(ref() is not None for ref in x.views)
