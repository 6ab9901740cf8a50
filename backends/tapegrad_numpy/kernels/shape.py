"""Shape manipulation by NumPy's fastest calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name

Array = Any


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    if x.size != 1:
        return np.broadcast_to(x, shape)
    # A view with zero strides, several times faster than np.broadcast_to.
    view: Array = np.ndarray(shape, x.dtype, np.ascontiguousarray(x), 0, (0,) * len(shape))
    view.flags.writeable = False
    return view


def permute_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


def take_slice(x: Array, *, index: tuple[Any, ...]) -> Array:
    return x[index]


def full_like(x: Array, *, shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    array = np.empty(shape, dtype)
    array.fill(value)
    return array


def roll(x: Array, *, shift: tuple[int, ...], axis: tuple[int, ...]) -> Array:
    """Move entries along axes, those beyond the end to the beginning."""
    result = x
    for by, at in zip(shift, axis, strict=True):
        length = x.shape[at]
        by = by % length if length else 0
        if not by:
            continue
        before = (slice(None),) * at
        moved = np.empty(x.shape, x.dtype)
        moved[(*before, slice(by, None))] = result[(*before, slice(length - by))]
        moved[(*before, slice(by))] = result[(*before, slice(length - by, None))]
        result = moved
    return x.copy() if result is x else result


KERNELS = {**by_name(broadcast_to, full_like, permute_dims, reshape, roll), "slice": take_slice}
