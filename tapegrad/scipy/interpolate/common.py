"""Helpers of all interpolators: points and values as tensors, and interval lookup."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.sorting import searchsorted_p
from tapegrad.scipy.vocabulary import (
    cast,
    clip,
    in_dtype,
    is_complex,
    move_axis,
    moveaxis,
    numpy_dtype_of,
    operand,
    operands,
    real,
    reshape_p,
    take,
    where,
)

MOST_COMPARISONS = 2**22
"""Above this many pairs of points and queries, a GPU uses bisection."""


def host_values(x: Any, given: Any = None) -> np.ndarray | None:
    """Return the values of a tensor if the host has them without a transfer, else None.

    `given` is the argument that the tensor was made from. If it is host data, its values are
    returned in the dtype of the tensor, even if the tensor is on a GPU.

    >>> import tapegrad
    >>> host_values(tapegrad.constant([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    array = x.array if isinstance(x, Tensor) else x
    if isinstance(array, np.ndarray):
        return array
    if not is_host_data(given):
        return None
    values, dtype = np.asarray(given), numpy_dtype_of(x)
    return (values if dtype.kind == "c" else values.real).astype(dtype)


def is_host_data(value: Any) -> bool:
    """Whether a value is a Python number, a NumPy array, or a list of such.

    >>> import tapegrad
    >>> is_host_data([1.0, np.ones(2)]), is_host_data([tapegrad.constant(1.0)])
    (True, False)
    """
    if isinstance(value, list | tuple):
        return all(is_host_data(part) for part in value)
    return isinstance(value, int | float | complex | np.ndarray | np.generic)


def host_range(x: Any, given: Any) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of unsorted points if they are available on the host.

    >>> import tapegrad
    >>> host_range(tapegrad.constant([2.0, 1.0, 4.0]), None)
    (np.float32(1.0), np.float32(4.0))
    """
    values = host_values(x, given)
    return None if values is None or not values.size else (values.min(), values.max())


def check_increasing(x: Any, name: str, what: str = "x", given: Any = None) -> None:
    """Raise if the points are available on the host and not strictly increasing."""
    values = host_values(x, given)
    if values is not None and not (np.diff(values, axis=-1) > 0).all():
        raise ArgumentError(f"{name} needs {what} in strictly increasing order.")


def points_and_values(
    x: Any, y: Any, axis: int, name: str, least: int = 2, *, ordered: bool = True
) -> tuple[Any, Any, int]:
    """Return the points, the values with the interpolation axis first, and that axis."""
    given = x
    x, y = operands(x, y)
    if is_complex(x):
        x = real(x)
    if x.ndim != 1 or x.shape[0] < least:
        raise ShapeError(
            f"{name} needs at least {least} points along one axis. Got shape {x.shape}."
        )
    axis = normalize_axis(axis, y.ndim, name)
    if not y.shape or y.shape[axis] != x.shape[0]:
        raise ShapeError(
            f"{name} needs one value for each of {x.shape[0]} points along axis {axis}. "
            f"Got shape {y.shape}."
        )
    if ordered:
        check_increasing(x, name, given=given)
    return x, move_axis(y, axis, 0), axis


def query(at: Any, x: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the query points flat in the dtype of the points, and their original shape."""
    q = in_dtype(operand(at), numpy_dtype_of(x))
    shape = tuple(q.shape)
    return reshape_p(q, shape=(math.prod(shape),)), shape


def interval(x: Any, q: Any, lowest: int, highest: int) -> Any:
    """Return the index of the last point <= each query, clipped to [lowest, highest]."""
    return clip(count_before(x, q, right=True) - 1, lowest, highest)


def count_before(x: Any, q: Any, *, right: bool) -> Any:
    """Return how many points are < each query, or <= each query if `right`."""
    inside = q
    while type(inside) in INTERPRETERS:
        inside = inside.tensor
    is_small = x.shape[0] * math.prod(inside.shape) <= MOST_COMPARISONS
    if is_small or getattr(inside, "device", "cpu") == "cpu":
        return searchsorted_p(x, q, right=right)
    return bisect(x, q, right=right)


def bisect(x: Any, q: Any, *, right: bool) -> Any:
    """Count by bisection, for devices where searchsorted compares all pairs.

    >>> import tapegrad
    >>> bisect(tapegrad.constant([1.0, 2.0, 2.0]), tapegrad.constant([2.0]), right=True).numpy()
    array([3])
    """
    count = x.shape[0]
    found = cast(q * 0.0, "int64")
    step = 1 << max(count.bit_length() - 1, 0)
    while step:
        further = found + step
        point = take(x, clip(further - 1, 0, count - 1))
        goes = (further <= count) & (point <= q if right else point < q)
        found = where(goes, further, found)
        step //= 2
    return found


def as_columns(weights: Any, values: Any) -> Any:
    """Append unit axes to per-point numbers and cast them to the dtype of the values.

    >>> import tapegrad
    >>> as_columns(tapegrad.constant([1.0, 2.0]), tapegrad.constant([[1.0], [2.0]])).shape
    (2, 1)
    """
    rest = values.ndim - weights.ndim
    if rest > 0:
        weights = reshape_p(weights, shape=(*weights.shape, *[1] * rest))
    return in_dtype(weights, numpy_dtype_of(values))


def broadcast_condition(condition: Any, y: Any) -> Any:
    """Append unit axes to a per-point condition so that it broadcasts to values [point, ...]."""
    return reshape_p(condition, shape=(condition.shape[0], *[1] * (y.ndim - 1)))


def restore_shape(y: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Reshape results [point, *rest] to the query shape at the interpolation axis."""
    rest = y.shape[1:]
    y = reshape_p(y, shape=(*shape, *rest))
    count = len(shape)
    if not axis or not count:
        return y
    return moveaxis(y, tuple(range(count)), tuple(range(axis, axis + count)))


def wrap_period(q: Any, start: Any, stop: Any) -> Any:
    """Map values into the period from start to stop."""
    return start + (q - start) % (stop - start)
