"""What matrices reach and what they annul: bases, angles, the nearest rotation."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.ops.linalg import decompositions, eigen
from tapegrad.ops.linalg.common import adjoint_of, product
from tapegrad.ops.padding import pad
from tapegrad.ops.rearranging import flip
from tapegrad.ops.trigonometric import acos
from tapegrad.scipy.vocabulary import asin, clip, eps_of, operand, operands, sum_over, where


def _matrix(A: Any, name: str) -> Any:
    A = operand(A)
    if A.ndim != 2:
        raise ShapeError(f"{name} needs a matrix. Got shape {A.shape}.")
    return A


def _rank(A: Any, values: Any, rcond: float | None) -> int:
    """How many singular values count: it decides on a shape, so the host has to know."""
    sizes = values.numpy()
    if rcond is None:
        rcond = eps_of(A) * max(A.shape)
    return int((sizes > rcond * sizes.max(initial=0.0)).sum())


def orth(A: Any, rcond: float | None = None) -> Any:
    """Return an orthonormal basis of what the columns span, as columns.

    How many there are depends on the values, which are read on the host. Derivatives are right for
    functions that do not depend on the choice of the basis.

    >>> abs(orth([[3.0, 3.0], [4.0, 4.0]]).numpy()).round(6).tolist()
    [[0.6], [0.8]]
    """
    A = _matrix(A, "orth")
    u, values, _ = eigen.svd(A)
    return u[:, : _rank(A, values, rcond)]


def null_space(A: Any, rcond: float | None = None) -> Any:
    """Return an orthonormal basis of the vectors that the matrix annuls, as columns.

    What `orth` says of their number and of derivatives holds here, too.

    >>> abs(null_space([[3.0, 4.0]]).numpy()).round(6).tolist()
    [[0.8], [0.6]]
    """
    A = _matrix(A, "null_space")
    m, n = A.shape
    # Rows of zeros change nothing, and decompositions of square matrices have a derivative.
    square = pad(A, [(0, max(0, n - m)), (0, 0)])
    _, values, vh = eigen.svd(square)
    rank = _rank(A, values, rcond)
    return adjoint_of(vh[rank:])


def subspace_angles(A: Any, B: Any) -> Any:
    """Return the angles between what the columns of A and of B span, largest first.

    The columns of each have to be independent.

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
    # Each is exact where the other is flat.
    is_small = cosines * cosines >= 0.5
    small = asin(where(is_small, clip(sines, -1.0, 1.0), 0.0))
    return where(is_small, small, acos(where(is_small, 0.0, clip(cosines, -1.0, 1.0))))


def orthogonal_procrustes(A: Any, B: Any) -> tuple[Any, Any]:
    """Return the unitary r that brings A @ r nearest to B, and the sum of its singular values.

    >>> r, scale = orthogonal_procrustes([[2.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [1.0, 0.0]])
    >>> r.round(6).tolist(), float(scale)
    ([[0.0, 1.0], [1.0, 0.0]], 5.0)
    """
    A, B = operands(A, B)
    if A.ndim != 2 or A.shape != B.shape:
        raise ShapeError(
            "orthogonal_procrustes needs two matrices of one shape. Got shapes "
            f"{A.shape} and {B.shape}."
        )
    u, values, vh = eigen.svd(product(A, B, adjoint_a=True))
    return product(u, vh), sum_over(values)
