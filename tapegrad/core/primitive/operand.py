"""Normalise the operands and axes of public functions."""

from __future__ import annotations

import operator
from typing import Any

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.recorder import RAW, active_stack
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError, ShapeError


def as_operand(value: Any) -> Any:
    """Return `value` as an operand that primitives accept and that has a shape.

    Tensors and batched values are returned as they are, and so are raw arrays inside the backward
    pass. Everything else becomes a tensor.
    """
    kind = type(value)
    if kind is Tensor or kind in INTERPRETERS:
        return value
    if kind is Variable:
        return value.shared_value()
    if active_stack() is RAW and find_backend(kind) is not None:
        return value
    return to_tensor(value)


def normalize_axis(axis: int, ndim: int, name: str) -> int:
    """Return the axis as a non-negative number, or raise an error that names the function."""
    try:
        index = operator.index(axis)
    except TypeError:
        raise ArgumentTypeError(f"{name} needs an integer axis. Got {axis!r}.") from None
    if not -ndim <= index < ndim:
        raise ShapeError(f"{name} got axis {index} for a tensor of {ndim} dimensions.")
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
