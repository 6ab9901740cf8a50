"""Norms of vectors and matrices, for `numpy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.numpy.values import floating
from tapegrad.ops.linalg import norms


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the norm of vectors (one axis) or matrices (two axes); by default of all elements.

    >>> norm([3.0, 4.0]).tolist(), norm([[1.0, -2.0]], 1).tolist()
    (5.0, 2.0)
    """
    x = floating(x)
    if isinstance(axis, list | tuple):
        axis = tuple(normalize_axis(k, len(x.shape), "norm") for k in axis)
        if len(axis) > 2 or len(set(axis)) < len(axis):
            raise ArgumentError(f"norm needs one axis or two different ones. Got {axis}.")
        axis = axis[0] if len(axis) == 1 else axis
    if axis is None and ord is None:
        return norms.vector_norm(x, 2, None, keepdims)
    if axis is None:
        axis = 0 if len(x.shape) == 1 else (0, 1)
        if len(x.shape) > 2:
            raise ArgumentError(f"norm of {len(x.shape)} axes with ord={ord!r} needs axis=.")
    if isinstance(axis, list | tuple):
        return norms.matrix_norm(x, "fro" if ord is None else ord, tuple(axis), keepdims)
    return norms.vector_norm(x, 2 if ord is None else ord, axis, keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the `ord`-norm over axes (None: of all elements).

    >>> vector_norm([3.0, 4.0]).tolist()
    5.0
    """
    return norms.vector_norm(floating(x), 2 if ord is None else ord, axis, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return a norm of the matrices in the last two axes.

    >>> matrix_norm([[3.0, 4.0]]).tolist()
    5.0
    """
    return norms.matrix_norm(floating(x), "fro" if ord is None else ord, (-2, -1), keepdims)


def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number; by default the ratio of the extreme singular values.

    >>> cond([[2.0, 0.0], [0.0, 1.0]]).tolist()
    2.0
    """
    x = floating(x)
    if 0 in x.shape[-2:]:
        raise np.linalg.LinAlgError(f"cond needs matrices with elements. Got shape {x.shape}.")
    return norms.cond(x, p)
