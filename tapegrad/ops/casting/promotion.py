"""Promote arguments to tensors of one floating dtype, by SciPy's rules.

A Python float is float64, as in SciPy, unless the call also has an array of a floating dtype: then
it takes that dtype. Elsewhere in the package a Python float is float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import NUMBERS, to_host_array
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import as_constant, numpy_dtype_of
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.shape.joining import holds_tensors


def operands(*values: Any) -> list[Any]:
    """Convert all values to tensors of one floating or complex dtype, by NumPy's promotion.

    Arrays of integers promote as in NumPy: int64 with float32 gives float64. Python numbers and
    lists of them adapt. If nothing else is given, the dtype is float64.

    >>> import tapegrad
    >>> [x.dtype.name for x in operands(1.5, [2, 3])]
    ['float64', 'float64']
    >>> [x.dtype.name for x in operands(1.5, tapegrad.constant(2.0))]
    ['float32', 'float32']
    """
    given = [_as_given(value) for value in values]
    dtype = promoted_float([numpy_dtype_of(x) for x in given if not _adapts(x)])
    if any(_adapts(x) and x.dtype.kind == "c" for x in given):
        dtype = np.result_type(dtype, np.complex64)
    near = next((x for x in given if not _adapts(x)), None)
    return [_converted(x, dtype, near) for x in given]


def promoted_float(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the floating or complex dtype of a function of arrays of these dtypes.

    >>> promoted_float([np.dtype("int64"), np.dtype("float32")])
    dtype('float64')
    >>> promoted_float([np.dtype("int8"), np.dtype("float32")])
    dtype('float32')
    """
    inexact = [dtype for dtype in dtypes if dtype.kind not in "biu"]
    if not inexact:
        return np.dtype(np.float64)
    dtype = np.result_type(*inexact)
    others = [dtype for dtype in dtypes if dtype.kind in "iu"]
    # NumPy has no common dtype of bfloat16 and wide integers, so they adapt to it.
    return dtype if dtype.kind == "V" else np.result_type(dtype, *others)


def operand(value: Any) -> Any:
    """Convert one value to a tensor of a floating or complex dtype.

    >>> operand(2).dtype
    <dtype: 'float64'>
    """
    return operands(value)[0]


def _as_given(value: Any) -> Any:
    """Return tensors as they are, and Python numbers as a host array whose dtype may change."""
    if type(value) in NUMBERS:
        return np.asarray(value)
    if isinstance(value, list | tuple) and not holds_tensors(value):
        return _numbers_in(value)
    return as_operand(value)


def _numbers_in(value: Any) -> np.ndarray[Any, Any]:
    """Return a list of numbers as a host array; text and ragged lists raise."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RecursionError):
        array = np.asarray(None)
    return array if array.dtype.kind in "biufc" else to_host_array(value)


def _adapts(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def _converted(x: Any, dtype: np.dtype[Any], near: Any) -> Any:
    if not _adapts(x):
        return in_dtype(x, dtype)
    array = np.asarray(x, dtype)
    return as_constant(array) if near is None else place_next_to(near, array)


def numbers_like(x: Any, values: Any) -> Any:
    """Place host numbers on the device of a tensor, in its dtype.

    >>> numbers_like(operand(1.0), np.arange(3)).tolist()
    [0.0, 1.0, 2.0]
    """
    return place_next_to(x, np.array(values, numpy_dtype_of(x)))
