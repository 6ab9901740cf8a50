"""Normalise the operands and axes of public functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.recorder import RAW, active_stack
from tapegrad.core.values.convert import adapted
from tapegrad.core.values.strings import to_any_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError, AxisError, ShapeError


def as_operand(value: Any) -> Any:
    """Return `value` as an operand that primitives accept and that has a shape.

    Tensors and batched values are returned as they are, and so are raw arrays inside the backward
    pass. Text becomes a string tensor, and everything else a tensor.
    """
    kind = type(value)
    if kind is Tensor or kind in INTERPRETERS:
        return value
    if kind is Variable:
        return value.shared_value()
    if active_stack() is RAW and find_backend(kind) is not None:
        return value
    return to_any_tensor(value)


def common_operands(*values: Any) -> list[Any]:
    """Return values as operands of one function: host values take the dtype of the first tensor.

    The rule is in docs/dtypes.md. Functions with two operands or more call this; `as_operand` would
    give an array of float64 its own dtype, also next to a tensor of float32.
    """
    found = []
    for value in values:
        kind = type(value)
        if kind is Variable:
            value = value.shared_value()
        elif kind is not Tensor and kind not in INTERPRETERS:
            return _with_host_values(values)
        found.append(value)
    return found


def _with_host_values(values: tuple[Any, ...]) -> list[Any]:
    if active_stack() is RAW:
        return [as_operand(value) for value in values]
    found = [value if type(value) in INTERPRETERS else adapted(value) for value in values]
    like = next((tensor for tensor in map(_tensor_in, found) if tensor is not None), None)
    if like is None:
        return [as_operand(value) for value in found]
    return [
        value if type(value) in INTERPRETERS else to_any_tensor(value, like=like) for value in found
    ]


def _tensor_in(value: Any) -> Tensor | None:
    """Return the tensor of a tensor or a batched value, and None for a host value."""
    while type(value) in INTERPRETERS:
        value = value.tensor
    return value if isinstance(value, Tensor) else None


class _AxisError(AxisError, np.exceptions.AxisError):
    """The error under both names; tapegrad.errors cannot derive from NumPy, which loads later."""

    __str__ = Exception.__str__  # NumPy's would append its sentence

    def __reduce__(self) -> Any:
        return axis_error, (str(self), self.axis, self.ndim)


_AxisError.__name__ = _AxisError.__qualname__ = "AxisError"
_AxisError.__module__ = AxisError.__module__


def axis_error(words: str, axis: int, ndim: int) -> AxisError:
    """Return an error that `except numpy.exceptions.AxisError` catches too.

    >>> isinstance(axis_error("sum got axis 2", 2, 1), np.exceptions.AxisError)
    True
    """
    error = _AxisError(words)
    error.axis, error.ndim = axis, ndim
    return error


def normalize_axis(axis: int, ndim: int, name: str) -> int:
    """Return the axis as a non-negative number, or raise an error that names the function."""
    try:
        index = operator.index(axis)
    except TypeError:
        raise ArgumentTypeError(f"{name} needs an integer axis. Got {axis!r}.") from None
    if not -ndim <= index < ndim:
        words = f"{name} got axis {index} for a tensor of {ndim} dimensions."
        raise axis_error(words, index, ndim)
    return index + ndim if index < 0 else index


def normalize_axes(axis: Any, ndim: int, name: str) -> tuple[int, ...]:
    """Return sorted non-negative axes; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    wanted = axis if isinstance(axis, list | tuple) else (axis,)
    axes = sorted(normalize_axis(a, ndim, name) for a in wanted)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name} got an axis twice: {tuple(wanted)}.")
    return tuple(axes)
