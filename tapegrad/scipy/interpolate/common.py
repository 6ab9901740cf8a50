"""What all interpolators share: points and values as tensors, and which interval a point is in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.operand import normalize_axis
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.sorting import searchsorted_p
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
"""Beyond so many pairs of points and values a device searches by halving."""


def known(x: Any, given: Any = None) -> np.ndarray | None:
    """Return the values of one tensor on the host, else None: looking would mean waiting.

    What was `given` for the tensor may have been a number, a list or an array of the host: its
    values are known wherever the tensor is, here in the tensor's dtype.

    >>> import tapegrad
    >>> known(tapegrad.constant([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    array = x.array if isinstance(x, Tensor) else x
    if isinstance(array, np.ndarray):
        return array
    if not is_plain(given):
        return None
    values, dtype = np.asarray(given), numpy_dtype_of(x)
    return (values if dtype.kind == "c" else values.real).astype(dtype)


def is_plain(value: Any) -> bool:
    """Whether this is a number, an array of the host, or a list of such.

    >>> import tapegrad
    >>> is_plain([1.0, np.ones(2)]), is_plain([tapegrad.constant(1.0)])
    (True, False)
    """
    if isinstance(value, list | tuple):
        return all(is_plain(part) for part in value)
    return isinstance(value, int | float | complex | np.ndarray | np.generic)


def known_ends(x: Any, given: Any) -> tuple[Any, Any] | None:
    """Return the least and the greatest of points in any order, where they can be seen.

    >>> import tapegrad
    >>> known_ends(tapegrad.constant([2.0, 1.0, 4.0]), None)
    (np.float32(1.0), np.float32(4.0))
    """
    values = known(x, given)
    return None if values is None or not values.size else (values.min(), values.max())


def check_increasing(x: Any, name: str, what: str = "x", given: Any = None) -> None:
    """Refuse points out of order, where they can be seen."""
    values = known(x, given)
    if values is not None and not (np.diff(values, axis=-1) > 0).all():
        raise ArgumentError(f"{name} needs {what} in increasing order, no value twice.")


def points_and_values(
    x: Any, y: Any, axis: int, name: str, least: int = 2, *, ordered: bool = True
) -> tuple[Any, Any, int]:
    """Return points, values with the axis of the points in front, and that axis."""
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
            f"{name} needs a value for each of {x.shape[0]} points along axis {axis}. "
            f"Got shape {y.shape}."
        )
    if ordered:
        check_increasing(x, name, given=given)
    return x, move_axis(y, axis, 0), axis


def query(at: Any, x: Any) -> tuple[Any, tuple[int, ...]]:
    """Return where to look, flat and in the dtype of the points, and the shape it had."""
    q = in_dtype(operand(at), numpy_dtype_of(x))
    shape = tuple(q.shape)
    return reshape_p(q, shape=(math.prod(shape),)), shape


def interval(x: Any, q: Any, lowest: int, highest: int) -> Any:
    """Return the number of the last point that is not beyond each value, within bounds."""
    return clip(place_among(x, q, right=True) - 1, lowest, highest)


def place_among(x: Any, q: Any, *, right: bool) -> Any:
    """Return how many points lie before each value, those equal to it included if `right`."""
    inside = q
    while type(inside) in INTERPRETERS:
        inside = inside.tensor
    is_small = x.shape[0] * math.prod(inside.shape) <= MOST_COMPARISONS
    if is_small or getattr(inside, "device", "cpu") == "cpu":
        return searchsorted_p(x, q, right=right)
    return bisect(x, q, right=right)


def bisect(x: Any, q: Any, *, right: bool) -> Any:
    """The same by halving, for devices on which every value is compared with every point.

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
    """Return numbers per point with unit axes behind, in the dtype of the values.

    >>> import tapegrad
    >>> as_columns(tapegrad.constant([1.0, 2.0]), tapegrad.constant([[1.0], [2.0]])).shape
    (2, 1)
    """
    rest = values.ndim - weights.ndim
    if rest > 0:
        weights = reshape_p(weights, shape=(*weights.shape, *[1] * rest))
    return in_dtype(weights, numpy_dtype_of(values))


def beside(condition: Any, y: Any) -> Any:
    """Return a condition per point with unit axes behind, to choose among values [point, ...]."""
    return reshape_p(condition, shape=(condition.shape[0], *[1] * (y.ndim - 1)))


def arranged(y: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Give results [point, *rest] the shape of the query, standing where the axis was."""
    rest = y.shape[1:]
    y = reshape_p(y, shape=(*shape, *rest))
    count = len(shape)
    if not axis or not count:
        return y
    return moveaxis(y, tuple(range(count)), tuple(range(axis, axis + count)))


def wrapped(q: Any, start: Any, stop: Any) -> Any:
    """Bring values into one period."""
    return start + (q - start) % (stop - start)
