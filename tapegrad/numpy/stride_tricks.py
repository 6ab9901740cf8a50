"""Windows that slide over an array: NumPy's `lib.stride_tricks`, as copies that are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.numpy.manipulation import moveaxis
from tapegrad.numpy.values import as_array
from tapegrad.ops.indexing import getitem


def sliding_window_view(
    x: Any,
    window_shape: int | Sequence[int],
    axis: Any = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Any:
    """Return all windows of a shape, their own axes last.

    >>> sliding_window_view([1, 2, 3, 4], 3).tolist()
    [[1, 2, 3], [2, 3, 4]]
    """
    if writeable:
        raise ArgumentTypeError("Windows of tensors are copies: writeable=True has no meaning.")
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
    for k, size in zip(axes, sizes, strict=True):
        count = x.shape[k] - size + 1
        if size < 0 or count <= 0:
            raise ShapeError(
                f"A window of {size} does not fit into axis {k} of shape {tuple(x.shape)}."
            )
        starts = np.arange(count)[:, None] + np.arange(size)
        x = moveaxis(getitem(x, (*[slice(None)] * k, starts)), k + 1, -1)
    return x
