"""Diagonal, triangular and Vandermonde matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.device import device as on_device
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ShapeError
from tapegrad.numpy.manipulation import ravel
from tapegrad.numpy.products import diagonal
from tapegrad.numpy.values import as_array, dtype_of, refuse_order, with_dtype
from tapegrad.ops.creation import as_constant, full_like_p
from tapegrad.ops.reduction.cumulative import cumprod
from tapegrad.ops.shape.diagonal import band_p, matrix_diag
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.rearranging import flip


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    """Return a matrix with ones on diagonal `k` and zeros elsewhere.

    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    refuse_order(order)
    kind = numpy_dtype("float64" if dtype is None else dtype)
    columns = N if M is None else int(M)
    with on_device(device):
        return as_constant(np.eye(int(N), columns, k=int(k), dtype=kind))


def identity(n: int, dtype: Any = None, *, like: Any = None) -> Any:
    """Return the identity matrix.

    >>> identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> Any:
    """Return ones on and below diagonal `k`, zeros above.

    >>> tri(2).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return as_constant(np.tri(N, M, k, numpy_dtype(dtype)))


def _matrices(m: Any, name: str) -> Any:
    x = as_array(m)
    if not x.shape:
        raise ShapeError(f"{name} needs a matrix. Got a single value.")
    return x if len(x.shape) > 1 else broadcast_to(x, (x.shape[0], x.shape[0]))


def tril(m: Any, k: int = 0) -> Any:
    """Return matrices with zeros above diagonal `k`.

    >>> tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return band_p(_matrices(m, "tril"), low=None, high=int(k))


def triu(m: Any, k: int = 0) -> Any:
    """Return matrices with zeros below diagonal `k`.

    >>> triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return band_p(_matrices(m, "triu"), low=int(k), high=None)


def diag(v: Any, k: int = 0) -> Any:
    """Return a matrix with diagonal `v`, or the diagonal of a matrix.

    >>> diag([1, 2]).tolist(), diag([[1, 2], [3, 4]]).tolist()
    ([[1, 0], [0, 2]], [1, 4])
    """
    x = as_array(v)
    if len(x.shape) == 2:
        return diagonal(x, k)
    if len(x.shape) != 1:
        raise ShapeError(f"diag needs one or two axes. Got shape {x.shape}.")
    if not x.shape[0]:
        return full_like_p(x, shape=(abs(k), abs(k)), value=0, dtype=dtype_of(x))
    return matrix_diag(x, k=k)


def diagflat(v: Any, k: int = 0) -> Any:
    """Return a matrix with all elements of `v` on diagonal `k`.

    >>> diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return diag(ravel(v), k)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Return the Vandermonde matrix: columns are powers of `x`, highest first unless `increasing`.

    >>> vander([2, 3], 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    x = as_array(x)
    if len(x.shape) != 1:
        raise ShapeError(f"vander needs one axis. Got shape {x.shape}.")
    x = with_dtype(x, np.promote_types(dtype_of(x), int))
    count, columns = x.shape[0], x.shape[0] if N is None else int(N)
    ones = full_like_p(x, shape=(count, min(columns, 1)), value=1, dtype=dtype_of(x))
    if columns < 2:
        return ones
    wide = broadcast_to(reshape(x, (count, 1)), (count, columns - 1))
    powers = concat([ones, cumprod(wide, 1)], 1)
    return powers if increasing else flip(powers, 1)


# Indices of diagonals and triangles


def _places(arrays: Any) -> tuple[Any, ...]:
    return tuple(as_constant(part) for part in arrays)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, ...]:
    """Return the indices of the lower triangle of an n × m matrix.

    >>> [part.tolist() for part in tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _places(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, ...]:
    """Return the indices of the upper triangle of an n × m matrix.

    >>> [part.tolist() for part in triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _places(np.triu_indices(n, k, m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """Return the indices of the lower triangle of a matrix.

    >>> [part.tolist() for part in tril_indices_from([[1, 2], [3, 4]])]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = as_array(arr).shape
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, ...]:
    """Return the indices of the upper triangle of a matrix.

    >>> [part.tolist() for part in triu_indices_from([[1, 2], [3, 4]])]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = as_array(arr).shape
    return triu_indices(rows, k, columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Return the indices of the main diagonal of an array of `ndim` axes of length n.

    >>> [part.tolist() for part in diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    return _places(np.diag_indices(n, ndim))


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Return the indices of the main diagonal of an array.

    >>> [part.tolist() for part in diag_indices_from([[1, 2], [3, 4]])]
    [[0, 1], [0, 1]]
    """
    shape = tuple(as_array(arr).shape)
    if len(set(shape)) != 1 or len(shape) < 2:
        raise ShapeError(f"diag_indices_from needs axes of equal length. Got shape {shape}.")
    return diag_indices(shape[0], len(shape))
