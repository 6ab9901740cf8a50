"""Helpers for writing VJPs: sum over and repeat broadcast axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.compat.autograd.vspaces import vspace


def metadata(A: Any) -> tuple[tuple[int, ...], int, np.dtype[Any], bool]:
    """Return shape, number of axes, dtype, and whether values are complex.

    >>> metadata(np.zeros((2, 3)))
    ((2, 3), 2, dtype('float64'), False)
    """
    space = vspace(A)
    return space.shape, space.ndim, space.dtype, space.iscomplex


def unbroadcast(x: Any, target_meta: Any, broadcast_idx: int = 0) -> Any:
    """Sum a cotangent over the axes that broadcasting added to the shape in `target_meta`.

    >>> unbroadcast(np.ones((2, 3)), metadata(np.zeros(3))).tolist()
    [2.0, 2.0, 2.0]
    """
    shape, ndim, _, is_complex = target_meta
    while np.ndim(x) > ndim:
        x = np.sum(x, axis=broadcast_idx)
    for axis, size in enumerate(shape):
        if size == 1 and np.shape(x)[axis] != 1:
            x = np.sum(x, axis=axis, keepdims=True)
    if vspace(x).iscomplex and not is_complex:
        x = np.real(x)
    return x


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `f` followed by `unbroadcast` to the shape of `target`.

    >>> float(unbroadcast_f(1.0, lambda g: 2.0 * g)(np.ones(3)))
    6.0
    """
    meta = metadata(target)
    return lambda g: unbroadcast(f(g), meta)


def repeat_to_match_shape(
    g: Any, shape: tuple[int, ...], dtype: Any, axis: Any, keepdims: bool
) -> tuple[Any, int]:
    """Broadcast a reduction's cotangent to the input's shape; also return the reduced size.

    >>> repeat_to_match_shape(np.array([1.0, 2.0]), (2, 3), float, 1, False)[1]
    3
    """
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis) % max(len(shape), 1)
    kept = [1 if place in list(axes) else size for place, size in enumerate(shape)]
    spread = np.reshape(g, kept) + np.zeros(shape, dtype)
    return spread, int(np.prod([shape[place] for place in axes], dtype=int))


def replace_zero(x: Any, val: Any) -> Any:
    """Return `x` with zeros replaced by `val`.

    >>> replace_zero(np.array([0.0, 2.0]), 1.0).tolist()
    [1.0, 2.0]
    """
    return np.where(x, x, val)


def match_complex(target: Any, x: Any) -> Any:
    """Return `x` converted to real or complex to match `target`.

    >>> float(match_complex(1.0, 2.0 + 1.0j))
    2.0
    """
    if vspace(x).iscomplex and not vspace(target).iscomplex:
        return np.real(x)
    return x + 0.0j if vspace(target).iscomplex and not vspace(x).iscomplex else x
