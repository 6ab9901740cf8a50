"""What callers hand in, as tensors of one floating dtype.

Here Python's floats are float64, as in SciPy, unless an array of floating numbers stands beside
them: then they take its dtype. The rest of the package takes them for float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.convert import NUMBERS
from tapegrad.core.operand import as_operand
from tapegrad.ops.cast import in_dtype
from tapegrad.ops.creation import as_constant, numpy_dtype_of
from tapegrad.ops.gather import place_next_to, take_p
from tapegrad.ops.joining import holds_tensors
from tapegrad.ops.kinds import kind_of


def operands(*values: Any) -> list[Any]:
    """Return each value as a tensor, all of the widest floating (or complex) dtype among them.

    Python numbers, lists of them and integers adapt; with nothing else the dtype is float64.

    >>> import tapegrad
    >>> [x.dtype.name for x in operands(1.5, [2, 3])]
    ['float64', 'float64']
    >>> [x.dtype.name for x in operands(1.5, tapegrad.constant(2.0))]
    ['float32', 'float32']
    """
    given = [_as_given(value) for value in values]
    kinds = [numpy_dtype_of(x) for x in given if not _adapts(x) and kind_of(x) in ("f", "c")]
    dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
    if any(_adapts(x) and x.dtype.kind == "c" for x in given):
        dtype = np.result_type(dtype, np.complex64)
    beside = next((x for x in given if not _adapts(x)), None)
    return [_converted(x, dtype, beside) for x in given]


def operand(value: Any) -> Any:
    """Return one value as a tensor of a floating dtype.

    >>> operand(2).dtype
    <dtype: 'float64'>
    """
    return operands(value)[0]


def _as_given(value: Any) -> Any:
    """Return a tensor or the like, or a host array of Python's numbers, which have no dtype yet."""
    if type(value) in NUMBERS:
        return np.asarray(value)
    if isinstance(value, list | tuple) and not holds_tensors(value):
        return np.asarray(value)
    return as_operand(value)


def _adapts(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def _converted(x: Any, dtype: np.dtype[Any], beside: Any) -> Any:
    if not _adapts(x):
        return in_dtype(x, dtype)
    array = np.asarray(x, dtype)
    return as_constant(array) if beside is None else place_next_to(beside, array)


def numbers_like(x: Any, values: Any) -> Any:
    """Return numbers of the host beside a tensor, in its dtype.

    >>> numbers_like(operand(1.0), np.arange(3)).tolist()
    [0.0, 1.0, 2.0]
    """
    return place_next_to(x, np.array(values, numpy_dtype_of(x)))


def take(x: Any, index: Any) -> Any:
    """Return entries along axis 0; the indices are in range by their making."""
    return take_p(x, index, axis=0)


def eps_of(x: Any) -> float:
    """Return the distance from 1 to the next number in the dtype of a tensor.

    >>> eps_of(operand(1.0)) == 2.0**-52
    True
    """
    return float(np.finfo(numpy_dtype_of(x)).eps)


def is_number(value: Any, number: float) -> bool:
    """Whether the value is this Python number (a tensor is not, whatever it holds).

    >>> is_number(1, 1), is_number(2.0, 1)
    (True, False)
    """
    return type(value) in NUMBERS and value == number


def arguments(args: Any) -> tuple[Any, ...]:
    """Return what a function takes besides its variable: one value need not be in a tuple.

    >>> arguments([1, 2]), arguments(3)
    ((1, 2), (3,))
    """
    return tuple(args) if isinstance(args, tuple | list) else (args,)
