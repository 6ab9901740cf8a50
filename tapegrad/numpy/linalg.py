"""`numpy.linalg` and the Array API's `linalg`: decompositions, solvers, norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.numpy.manipulation import matrix_transpose
from tapegrad.numpy.norms import cond, matrix_norm, norm, vector_norm
from tapegrad.numpy.products import (
    cross as _cross,
    diagonal as _diagonal,
    matmul,
    outer as _outer,
    tensordot,
    vecdot,
)
from tapegrad.numpy.values import (
    as_array,
    as_arrays,
    deliver,
    dtype_of,
    floating,
    is_array,
    side_by_side,
    with_dtype,
)
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.sorting import argsort, sort
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.linalg import decompositions, determinants, eigen, solve as solve_module, traces
from tapegrad.ops.linalg.common import adjoint_of, as_row
from tapegrad.ops.linalg.solve import solve_p
from tapegrad.ops.reduction.primitives import any as some, sum as total
from tapegrad.ops.shape.diagonal import band_p
from tapegrad.ops.shape.functions import reshape

LinAlgError = np.linalg.LinAlgError


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of Hermitian matrices."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """An orthogonal and an upper triangular factor."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Left singular vectors, singular values, right singular vectors as rows."""

    U: Any
    S: Any
    Vh: Any


def _square(x: Any, name: str) -> Any:
    x = floating(x)
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"{name} needs square matrices. Got shape {x.shape}.")
    return x


def cholesky(a: Any, *, upper: bool = False) -> Any:
    """Return the lower (or upper) triangular factor of positive definite matrices.

    >>> cholesky([[4.0, 0.0], [0.0, 9.0]]).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    factor = decompositions.cholesky(_square(a, "cholesky"))
    if not upper:
        return factor
    turned = matrix_transpose(factor)
    return conj(turned) if is_complex(turned) else turned


def qr(a: Any, mode: str = "reduced") -> Any:
    """Return orthogonal and upper triangular factors; modes 'reduced', 'complete' and 'r'.

    >>> qr([[2.0], [0.0]]).R.shape
    (1, 1)
    """
    check_choice("mode", mode, ("reduced", "complete", "r"))
    q, r = decompositions.qr(floating(a), full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def _half(a: Any, UPLO: str, name: str) -> Any:
    """Return the Hermitian matrices given by one triangle."""
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"UPLO must be 'L' or 'U'. Got {UPLO!r}.")
    x = _square(a, name)
    x = matrix_transpose(x) if UPLO.upper() == "U" else x
    turned = matrix_transpose(band_p(x, low=None, high=-1))
    whole = band_p(x, low=None, high=0) + (conj(turned) if is_complex(turned) else turned)
    return conj(whole) if UPLO.upper() == "U" and is_complex(x) else whole


def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """Return eigenvalues in ascending order and eigenvectors of Hermitian matrices.

    >>> eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return EighResult(*eigen.eigh(_half(a, UPLO, "eigh")))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Return the eigenvalues of Hermitian matrices in ascending order.

    >>> eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return eigen.eigvalsh(_half(a, UPLO, "eigvalsh"))


def eig(a: Any) -> EigResult:
    """Return eigenvalues and eigenvectors, always complex.

    >>> eig([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [(2+0j), (1+0j)]
    """
    return EigResult(*eigen.eig(_square(a, "eig")))


def eigvals(a: Any) -> Any:
    """Return eigenvalues, always complex.

    >>> eigvals([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [(2+0j), (1+0j)]
    """
    return eigen.eigvals(_square(a, "eigvals"))


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Return the singular value decomposition: `a = U * S @ Vh`.

    With `hermitian` it uses eigenvectors, and only the lower triangle of `a` is read.

    >>> svd([[3.0, 0.0], [0.0, 4.0]]).S.tolist()
    [4.0, 3.0]
    """
    if hermitian:
        x = _half(a, "L", "svd")
        return SVDResult(*_hermitian_svd(x)) if compute_uv else _hermitian_svdvals(x)
    x = floating(a)
    if not compute_uv:
        return eigen.svdvals(x)
    full = full_matrices and x.shape[-1] != x.shape[-2]
    return SVDResult(*eigen.svd(x, full))


def _hermitian_svdvals(x: Any) -> Any:
    return sort(magnitude(eigen.eigvalsh(x)), direction="DESCENDING")


def _hermitian_svd(x: Any) -> tuple[Any, Any, Any]:
    """Return absolute eigenvalues in descending order; the right vectors take the signs."""
    values, vectors = eigen.eigh(x)
    order = argsort(magnitude(values), direction="DESCENDING")
    values = take_along_axis(values, order)
    vectors = take_along_axis(vectors, reshape(order, (*order.shape[:-1], 1, order.shape[-1])))
    right = vectors * as_row(choose(values < 0, -1.0, 1.0))
    return vectors, magnitude(values), adjoint_of(right)


def svdvals(x: Any, /) -> Any:
    """Return the singular values in descending order.

    >>> svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return eigen.svdvals(floating(x))


def det(a: Any) -> Any:
    """Return the determinants.

    >>> det([[2.0, 0.0], [0.0, 3.0]]).tolist()
    6.0
    """
    return determinants.det(_square(a, "det"))


def slogdet(a: Any) -> SlogdetResult:
    """Return the signs of determinants and the logarithms of their absolute values.

    >>> slogdet([[-1.0]]).sign.tolist()
    -1.0
    """
    return SlogdetResult(*determinants.slogdet(_square(a, "slogdet")))


def inv(a: Any) -> Any:
    """Return the inverse matrices.

    >>> inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return solve_module.inv(_square(a, "inv"))


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Return the pseudo-inverse; singular values below `rtol` times the largest count as 0.

    With `hermitian` only the lower triangle of `a` is read.

    >>> pinv([[2.0], [0.0]]).tolist()
    [[0.5, 0.0]]
    """
    if rcond is not None and rtol is not None:
        raise ArgumentError("pinv takes rcond or rtol, not both.")
    x = _half(a, "L", "pinv") if hermitian else floating(a)
    limit = rcond if rtol is None else rtol
    if limit is None:
        limit = max(x.shape[-2:]) * float(np.finfo(dtype_of(x)).eps)
    if not hasattr(limit, "shape"):
        return solve_module.pinv(x, float(limit))
    return _pinv_by_svd(x, as_array(limit))


def _pinv_by_svd(x: Any, limit: Any) -> Any:
    """Return the pseudo-inverse with one limit per matrix."""
    u, s, vh = eigen.svd(x)
    least = reshape(limit, (*limit.shape, 1)) * s.max(-1, keepdims=True)
    inverse = choose(s > least, 1 / choose(s > least, s, 1.0), 0.0)
    return matmul(adjoint_of(vh) * as_row(inverse), adjoint_of(u))


def solve(a: Any, b: Any) -> Any:
    """Solve a @ x = b; `b` is a vector, or matrices with one system per column.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    matrix, rhs = side_by_side(a, b)
    matrix, rhs = _square(matrix, "solve"), floating(rhs)
    common = np.result_type(dtype_of(matrix), dtype_of(rhs))
    matrix, rhs = with_dtype(matrix, common), with_dtype(rhs, common)
    vector = len(rhs.shape) == 1
    rhs = reshape(rhs, (*rhs.shape, 1)) if vector else rhs
    if rhs.shape[-2] != matrix.shape[-1]:
        raise LinAlgError(f"solve needs {matrix.shape[-1]} rows in b. Got shape {rhs.shape}.")
    result = solve_p(matrix, rhs, adjoint=False)
    return reshape(result, tuple(result.shape[:-1])) if vector else result


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution of a @ x = b, residuals, rank and singular values of `a`.

    Singular values up to `rcond` times the largest count as 0. By default `rcond` is the precision
    times the larger side of `a`; if it is negative, it is the precision.

    >>> lstsq([[1.0], [1.0]], [1.0, 3.0])[0].round(6).tolist()
    [2.0]
    """
    matrix, rhs = as_arrays([floating(part) for part in side_by_side(a, b)])
    if len(matrix.shape) != 2 or len(rhs.shape) not in (1, 2):
        raise LinAlgError(
            f"lstsq needs a matrix and a vector or matrix. Got shapes {matrix.shape} and "
            f"{rhs.shape}."
        )
    if matrix.shape[0] != rhs.shape[0]:
        raise LinAlgError(
            f"lstsq needs {matrix.shape[0]} rows on both sides. Got shapes {matrix.shape} and "
            f"{rhs.shape}."
        )
    limit = rcond
    if rcond is not None and not is_array(rcond) and rcond < 0:
        limit = float(np.finfo(dtype_of(matrix)).eps)
    x = matmul(pinv(matrix, limit), rhs)
    values = svdvals(matrix)
    rank = with_dtype(matrix_rank(matrix, rtol=limit), "int32")
    rows, columns = matrix.shape
    if rows <= columns or int(rank) < columns:
        shape = (0,)
        residuals = full_like_p(values, shape=shape, value=0, dtype=dtype_of(values))
    else:
        distance = matmul(matrix, x) - rhs
        square = (distance * conj(distance)).real if is_complex(distance) else distance * distance
        residuals = total(square, 0, len(rhs.shape) == 1)
    return x, residuals, rank, values


def matrix_power(a: Any, n: int) -> Any:
    """Return the n-th power of matrices; a negative n uses the inverse.

    >>> matrix_power([[2, 0], [0, 3]], 3).tolist()
    [[8, 0], [0, 27]]
    """
    x = as_array(a)
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"matrix_power needs square matrices. Got shape {x.shape}.")
    if not isinstance(n, int | np.integer):
        raise ArgumentTypeError(f"matrix_power needs an integer n. Got {n!r}.")
    if n == 0:
        eye = full_like_p(x, shape=tuple(x.shape), value=1, dtype=dtype_of(x))
        return band_p(eye, low=0, high=0)
    if n < 0:
        x, n = inv(x), -n
    result = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    return result


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Return the number of singular values above `tol`, or above `rtol` times the largest.

    With `hermitian` they are absolute eigenvalues, and only the lower triangle is read. The rank
    of a vector is 1, or 0 if all its elements are 0.

    >>> matrix_rank([[1.0, 1.0], [1.0, 1.0]]).tolist()
    1
    """
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank takes tol or rtol, not both.")
    x = _half(A, "L", "matrix_rank") if hermitian else floating(A)
    if len(x.shape) < 2:
        return with_dtype(some(x != 0), "int64")
    values = _hermitian_svdvals(x) if hermitian else eigen.svdvals(x)
    if values.shape[-1] == 0:
        return full_like_p(values, shape=values.shape[:-1], value=0, dtype=np.dtype("int64"))
    if tol is None:
        share = max(x.shape[-2:]) * float(np.finfo(dtype_of(x)).eps) if rtol is None else rtol
        share = (
            reshape(as_array(share), (*np.shape(share), 1)) if hasattr(share, "shape") else share
        )
        tol = values.max(-1, keepdims=True) * share
    elif hasattr(tol, "shape"):
        tol = reshape(as_array(tol), (*tol.shape, 1))
    return (values > tol).sum(-1)


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """Return the product of a chain of matrices in the cheapest order.

    >>> multi_dot([[[1, 2]], [[1], [1]], [[3]]]).tolist()
    [[9]]
    """
    chain = side_by_side(*arrays)
    if any([len(x.shape) > 2 for x in chain]):
        raise LinAlgError("multi_dot needs matrices; only the first and the last may be vectors.")
    return deliver(traces.multi_dot(chain), out)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Solve tensordot(a, x, x.ndim) = b.

    >>> tensorsolve([[2.0]], [4.0]).tolist()
    [2.0]
    """
    left, right = (floating(part) for part in side_by_side(a, b))
    return traces.tensorsolve(left, right, axes)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse of the linear map x -> tensordot(a, x, ind).

    >>> tensorinv([[2.0]], 1).tolist()
    [[0.5]]
    """
    return traces.tensorinv(floating(a), ind)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sum along a diagonal of the matrices in the last two axes.

    >>> trace([[1, 2], [3, 4]]).tolist()
    5
    """
    return diagonal(x, offset=offset).sum(-1, dtype=dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return a diagonal of the matrices in the last two axes.

    >>> diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    return _diagonal(x, offset, -2, -1)


def outer(x1: Any, x2: Any, /) -> Any:
    """Return the outer product of two vectors.

    >>> outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = side_by_side(x1, x2)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ShapeError(f"linalg.outer needs vectors. Got shapes {a.shape} and {b.shape}.")
    return _outer(a, b)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross product of vectors of length 3.

    >>> cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    a, b = side_by_side(x1, x2)
    lengths = [x.shape[normalize_axis(axis, len(x.shape), "linalg.cross")] for x in (a, b)]
    if lengths != [3, 3]:
        raise ArgumentError(
            f"linalg.cross needs vectors of length 3. Got {lengths[0]} and {lengths[1]}."
        )
    return _cross(a, b, axis=axis)


__all__ = [
    "EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult",
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals",
    "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

_check_calls(globals(), __all__)
