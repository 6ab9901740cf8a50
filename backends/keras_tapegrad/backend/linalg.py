"""Matrix functions of Keras' backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import axes_of, convert_to_tensor, is_whole
from tapegrad.keras import ops
from tapegrad.numpy import linalg as matrices


def cholesky(a: Any, upper: bool = False) -> Any:
    """Return the Cholesky factor."""
    factor = matrices.cholesky(convert_to_tensor(a))
    return tg.linalg.adjoint(factor) if upper else factor


def cholesky_inverse(a: Any, upper: bool = False) -> Any:
    """Return the inverse of the matrix with the Cholesky factor `a`."""
    return ops.cholesky_inverse(convert_to_tensor(a), upper)


def det(a: Any) -> Any:
    """Return the determinant."""
    return matrices.det(convert_to_tensor(a))


def eig(a: Any) -> Any:
    """Return eigenvalues and eigenvectors."""
    return tuple(matrices.eig(convert_to_tensor(a)))


def eigh(a: Any) -> Any:
    """Return eigenvalues and eigenvectors of a symmetric matrix."""
    return tuple(matrices.eigh(convert_to_tensor(a)))


def inv(a: Any) -> Any:
    """Return the inverse."""
    return matrices.inv(convert_to_tensor(a))


def lu_factor(a: Any) -> Any:
    """Return the LU decomposition in one matrix, and the row that each step swaps with its own."""
    return ops.lu_factor(convert_to_tensor(a))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the norm of a vector or matrix."""
    x = convert_to_tensor(x)
    if is_whole(x):
        x = tg.cast(x, result_type(x.dtype, "float32"))
    return matrices.norm(x, ord=ord, axis=axes_of(axis), keepdims=keepdims)


def qr(x: Any, mode: str = "reduced") -> Any:
    """Return the QR decomposition."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr has no mode {mode!r}. Expected one of {{'reduced', 'complete'}}.")
    return tuple(matrices.qr(convert_to_tensor(x), mode=mode))


def solve(a: Any, b: Any) -> Any:
    """Solve `a @ x = b`; b may be a batch of vectors."""
    a, b = convert_to_tensor(a), convert_to_tensor(b)
    if b.ndim == a.ndim - 1:
        return matrices.solve(a, b[..., None])[..., 0]
    return matrices.solve(a, b)


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    """Solve `a @ x = b` for a triangular matrix."""
    return ops.solve_triangular(convert_to_tensor(a), convert_to_tensor(b), lower)


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Return the singular value decomposition."""
    found = matrices.svd(convert_to_tensor(x), full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(found) if compute_uv else found


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Return the least-squares solution."""
    return matrices.lstsq(convert_to_tensor(a), convert_to_tensor(b), rcond=rcond)[0]


def matrix_rank(x: Any, tol: Any = None) -> Any:
    """Return the rank by the singular values above a tolerance."""
    x = convert_to_tensor(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_rank takes matrices. Got an array of shape {tuple(x.shape)}.")
    return tg.cast(matrices.matrix_rank(x, tol=tol), "int32")


def pinv(x: Any, rcond: Any = None) -> Any:
    """Return the pseudo-inverse."""
    x = convert_to_tensor(x)
    return matrices.pinv(x) if rcond is None else matrices.pinv(x, rcond=rcond)


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """Return the value of `fun` and its derivative along tangents."""
    primals = [convert_to_tensor(x) for x in primals]
    tangents = [convert_to_tensor(x) for x in tangents]
    return ops.jvp(fun, tuple(primals), tuple(tangents), has_aux)
