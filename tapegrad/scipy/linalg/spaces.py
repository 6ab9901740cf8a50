"""Subspaces: range and null space, angles between subspaces, orthogonal Procrustes."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.ops.elementwise.trigonometric import acos
from tapegrad.ops.linalg import decompositions, eigen
from tapegrad.ops.linalg.common import adjoint_of, product
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.rearranging import flip
from tapegrad.scipy.linalg.ignored_options import ignoring
from tapegrad.scipy.vocabulary import asin, clip, eps_of, operand, operands, sum_over, where


def _matrix(A: Any, name: str) -> Any:
    A = operand(A)
    if A.ndim != 2:
        raise ShapeError(f"{name} needs a matrix. Got shape {A.shape}.")
    return A


def _rank(A: Any, values: Any, rcond: float | None) -> int:
    """Return the numerical rank; it determines a shape and is therefore read on the host."""
    sizes = values.numpy()
    if rcond is None:
        rcond = eps_of(A) * max(A.shape)
    return int((sizes > rcond * sizes.max(initial=0.0)).sum())


def orth(A: Any, rcond: float | None = None) -> Any:
    """Return an orthonormal basis of the range of a matrix, as columns.

    The rank depends on the values, which are read on the host. Derivatives are correct for
    functions that do not depend on the choice of the basis.

    >>> abs(orth([[3.0, 3.0], [4.0, 4.0]]).numpy()).round(6).tolist()
    [[0.6], [0.8]]
    """
    A = _matrix(A, "orth")
    u, values, _ = eigen.svd(A)
    return u[:, : _rank(A, values, rcond)]


@ignoring("overwrite_a", "check_finite", "lapack_driver")
def null_space(A: Any, rcond: float | None = None) -> Any:
    """Return an orthonormal basis of the null space of a matrix, as columns.

    The remarks on `orth` apply here, too.

    >>> abs(null_space([[3.0, 4.0]]).numpy()).round(6).tolist()
    [[0.8], [0.6]]
    """
    A = _matrix(A, "null_space")
    m, n = A.shape
    # Zero rows do not change the null space, and the SVD of a square matrix is differentiable.
    square = pad(A, [(0, max(0, n - m)), (0, 0)])
    _, values, vh = eigen.svd(square)
    rank = _rank(A, values, rcond)
    return adjoint_of(vh[rank:])


def subspace_angles(A: Any, B: Any) -> Any:
    """Return the principal angles between the column spaces of A and B, largest first.

    The columns of each matrix must be linearly independent.

    >>> subspace_angles([[1.0], [0.0]], [[1.0], [1.0]]).round(4).tolist()
    [0.7854]
    """
    A, B = operands(A, B)
    if A.ndim < 2 or B.ndim < 2 or A.shape[-2] != B.shape[-2]:
        raise ShapeError(
            "subspace_angles needs matrices with the same number of rows. Got shapes "
            f"{A.shape} and {B.shape}."
        )
    one, other = decompositions.qr(A)[0], decompositions.qr(B)[0]
    if one.shape[-1] < other.shape[-1]:
        one, other = other, one
    overlap = product(one, other, adjoint_a=True)
    cosines = flip(eigen.svdvals(overlap), -1)
    sines = eigen.svdvals(other - product(one, overlap))
    # Arc sine and arc cosine are each accurate where the other is not.
    is_small = cosines * cosines >= 0.5
    small = asin(where(is_small, clip(sines, -1.0, 1.0), 0.0))
    return where(is_small, small, acos(where(is_small, 0.0, clip(cosines, -1.0, 1.0))))


@ignoring("check_finite")
def orthogonal_procrustes(A: Any, B: Any) -> tuple[Any, Any]:
    """Return the unitary r that minimizes |A @ r - B|, and the sum of singular values of A^H @ B.

    >>> r, scale = orthogonal_procrustes([[2.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [1.0, 0.0]])
    >>> r.round(6).tolist(), float(scale)
    ([[0.0, 1.0], [1.0, 0.0]], 5.0)
    """
    A, B = operands(A, B)
    if A.ndim != 2 or A.shape != B.shape:
        raise ShapeError(
            "orthogonal_procrustes needs two matrices of the same shape. Got shapes "
            f"{A.shape} and {B.shape}."
        )
    u, values, vh = eigen.svd(product(A, B, adjoint_a=True))
    return product(u, vh), sum_over(values)
