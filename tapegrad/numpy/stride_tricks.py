"""NumPy's `lib.stride_tricks`: sliding windows, as read-only views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.numpy.manipulation import moveaxis
from tapegrad.numpy.values import as_array, dtype_of
from tapegrad.ops.indexing.functions import getitem
from tapegrad.ops.indexing.views import READ_ONLY, ReadOnly, as_view
from tapegrad.ops.shape.functions import reshape


def as_strided(
    x: Any,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    subok: bool = False,
    writeable: bool = False,
    *,
    check_bounds: Any = None,
) -> Any:
    """Return a read-only view with the given shape and strides in bytes.

    An element that occurs several times gets the sum of the gradients.

    >>> as_strided([1, 2, 3, 4], (3, 2), (8, 8)).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    if writeable:
        raise ArgumentTypeError(
            "Windows of tensors are read-only, so writeable=True is not supported."
        )
    x = as_array(x)
    size, lengths = dtype_of(x).itemsize, tuple(x.shape)
    usual = [size * math.prod(lengths[k + 1 :]) for k in range(len(lengths))]
    wanted = lengths if shape is None else tuple(int(n) for n in shape)
    steps = usual if strides is None else [int(step) for step in strides]
    if len(steps) != len(wanted) or any(step % size for step in steps):
        raise ArgumentError(
            f"as_strided needs one stride per axis of {wanted}, in multiples of {size} bytes. "
            f"Got {tuple(steps)}."
        )
    places = np.zeros(wanted, dtype=np.int64)
    for k, step in enumerate(steps):
        offsets = np.arange(wanted[k]) * (step // size)
        places = places + offsets.reshape(-1, *[1] * (len(wanted) - k - 1))
    if places.size and not 0 <= places.min() <= places.max() < math.prod(lengths):
        raise ShapeError(
            f"Shape {wanted} with strides {tuple(steps)} exceeds the array of shape {lengths}."
        )

    def windows(x: Any) -> Any:
        return getitem(reshape(x, (-1,)), places)

    def layout(x: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(x, wanted, [step // size for step in steps])

    return as_view(windows(x), x, READ_ONLY, ReadOnly("as_strided", windows, layout))


def sliding_window_view(
    x: Any,
    window_shape: int | Sequence[int],
    axis: Any = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Any:
    """Return all windows of a shape; the axes of a window come last.

    >>> sliding_window_view([1, 2, 3, 4], 3).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    if writeable:
        raise ArgumentTypeError(
            "Windows of tensors are read-only, so writeable=True is not supported."
        )
    x = as_array(x)
    rank = len(x.shape)
    sizes = (window_shape,) if isinstance(window_shape, int) else tuple(window_shape)
    given = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = [normalize_axis(k, rank, "sliding_window_view") for k in given]
    if len(axes) != len(sizes):
        raise ArgumentError(
            f"sliding_window_view needs one axis per window size. Got {len(sizes)} sizes for "
            f"{len(axes)} axes."
        )

    def windows(x: Any) -> Any:
        for k, size in zip(axes, sizes, strict=True):
            count = x.shape[k] - size + 1
            if size < 0 or count <= 0:
                raise ShapeError(
                    f"A window of {size} does not fit into axis {k} of shape {x.shape}."
                )
            starts = np.arange(count)[:, None] + np.arange(size)
            x = moveaxis(getitem(x, (*[slice(None)] * k, starts)), k + 1, -1)
        return x

    def layout(x: np.ndarray) -> np.ndarray:
        shown: np.ndarray = np.lib.stride_tricks.sliding_window_view(x, sizes, tuple(axes))
        return shown

    how = ReadOnly("sliding_window_view", windows, layout)
    return as_view(windows(x), x, READ_ONLY, how)
