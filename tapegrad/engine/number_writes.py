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
    kind, number = type(value), value
    if kind is float:
        if array.dtype.char not in _FOR_FLOATS or not -_LARGEST_FLOAT < value < _LARGEST_FLOAT:
            return False
    elif kind is int:
        if array.dtype.char not in _FOR_INTS or not -_LARGEST_INT < value < _LARGEST_INT:
            return False
    else:
        number = value.array if kind is Tensor and value.node is None else value
        is_number = type(number) is np.ndarray and not number.shape
        if type(number) is not array.dtype.type and not (is_number and number.dtype == array.dtype):
            return False
    if type(index) is not int or array.ndim != 1 or not -array.size <= index < array.size:
        index = parse_basic(index, array.shape)
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


def _has_views(x: Tensor) -> bool:
    return any(ref() is not None for ref in x.views)
