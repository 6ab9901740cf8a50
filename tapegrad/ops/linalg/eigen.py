"""Eigenvalue and singular value decompositions.

Vectors are defined up to sign or phase only, and those of equal values up to a rotation. The rules
are exact for every function that does not depend on this choice: where two values are equal up to
rounding, the term that divides by their difference is omitted.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.casting.cast import cast_p
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.linalg.common import (
    adjoint_of,
    as_column,
    as_matrices,
    as_row,
    batches,
    diagonal_matrix,
    diagonal_of,
    dtype_of,
    hermitian_part,
    identity_like,
    product,
    reciprocal_gaps_p,
    reciprocal_or_zero,
)
from tapegrad.ops.linalg.solve import inv_p
from tapegrad.ops.products.primitives import conjugate

eigh_p = batches(Primitive("eigh", lambda xp, x: tuple(xp.linalg.eigh(x)), many=True))


@eigh_p.vjp
def _eigh_vjp(t: Any, y1: Any, y2: Any) -> tuple[Any]:
    """dA = V (diag(dw) + F ∘ (V^H dV)) V^H with F_ij = 1 / (w_j - w_i)."""
    inner = product(y2, t[1], adjoint_a=True) * reciprocal_gaps_p(y1) + diagonal_matrix(t[0])
    return (hermitian_part(product(product(y2, inner), y2, adjoint_b=True)),)


@eigh_p.jvp
def _eigh_jvp(ts: Any, y1: Any, y2: Any) -> tuple[Any, Any]:
    inner = product(product(y2, hermitian_part(ts[0]), adjoint_a=True), y2)
    return real(diagonal_of(inner)), product(y2, inner * reciprocal_gaps_p(y1))


eigvalsh_p = batches(Primitive("eigvalsh", lambda xp, x: xp.linalg.eigvalsh(x)))


def _eigvalsh_vjp(t: Any, x: Any) -> Any:
    vectors = eigh_p(x)[1]
    return hermitian_part(product(vectors * as_row(t), vectors, adjoint_b=True))


def _eigvalsh_jvp(t: Any, x: Any) -> Any:
    vectors = eigh_p(x)[1]
    inner = product(product(vectors, hermitian_part(t), adjoint_a=True), vectors)
    return real(diagonal_of(inner))


eigvalsh_p.vjps(_eigvalsh_vjp)
eigvalsh_p.jvps(_eigvalsh_jvp)


def eigh(tensor: Any, name: str | None = None) -> tuple[Any, Any]:
    """Return the eigenvalues (ascending) and eigenvectors (columns) of Hermitian matrices.

    Only the lower triangle is read. The gradient is Hermitian.

    >>> values, vectors = eigh([[2.0, 0.0], [0.0, 1.0]])
    >>> values.tolist()
    [1.0, 2.0]
    """
    return eigh_p(as_matrices(tensor, "eigh"))  # type: ignore[no-any-return]


def eigvalsh(tensor: Any, name: str | None = None) -> Any:
    """Return the eigenvalues (ascending) of Hermitian matrices.

    >>> eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return eigvalsh_p(as_matrices(tensor, "eigvalsh"))


eig_p = batches(Primitive("eig", lambda xp, x: tuple(xp.linalg.eig(x)), many=True))


@eig_p.vjp
def _eig_vjp(t: Any, y1: Any, y2: Any, x: Any) -> tuple[Any]:
    """dA = V^-H (diag(dw) + conj(F) ∘ (V^H dV - V^H V Re diag(V^H dV))) V^H for unit vectors."""
    vectors = product(y2, t[1], adjoint_a=True)
    overlap = product(y2, y2, adjoint_a=True)
    kept = overlap * as_row(real(diagonal_of(vectors)))
    inner = (vectors - kept) * conjugate(reciprocal_gaps_p(y1)) + diagonal_matrix(t[0])
    cotangent = product(product(inv_p(y2), inner, adjoint_a=True), y2, adjoint_b=True)
    return (cotangent if is_complex(x) else real(cotangent),)


@eig_p.jvp
def _eig_jvp(ts: Any, y1: Any, y2: Any) -> tuple[Any, Any]:
    t = cast_p(ts[0], dtype=dtype_of(y2).dtype)
    inner = product(inv_p(y2), product(t, y2))
    moved = product(y2, inner * reciprocal_gaps_p(y1))
    along = real(diagonal_of(product(y2, moved, adjoint_a=True)))
    return diagonal_of(inner), moved - y2 * as_row(along)


eigvals_p = batches(Primitive("eigvals", lambda xp, x: xp.linalg.eigvals(x)))


def _eigvals_vjp(t: Any, x: Any) -> Any:
    vectors = eig_p(x)[1]
    return product(inv_p(vectors), product(diagonal_matrix(t), vectors, adjoint_b=True), True)


def _eigvals_jvp(t: Any, x: Any) -> Any:
    vectors = eig_p(x)[1]
    return diagonal_of(product(inv_p(vectors), product(t, vectors)))


eigvals_p.vjps(_eigvals_vjp)
eigvals_p.jvps(_eigvals_jvp)


def eig(tensor: Any, name: str | None = None) -> tuple[Any, Any]:
    """Return the complex eigenvalues and eigenvectors (unit columns) of square matrices.

    >>> values, vectors = eig([[0.0, 1.0], [-1.0, 0.0]])
    >>> sorted(values.numpy().imag.tolist())
    [-1.0, 1.0]
    """
    return eig_p(as_matrices(tensor, "eig"))  # type: ignore[no-any-return]


def eigvals(tensor: Any, name: str | None = None) -> Any:
    """Return the complex eigenvalues of square matrices.

    >>> sorted(eigvals([[0.0, 1.0], [-1.0, 0.0]]).numpy().imag.tolist())
    [-1.0, 1.0]
    """
    return eigvals_p(as_matrices(tensor, "eigvals"))


def _svd(xp: Any, x: Any, *, full_matrices: bool) -> tuple[Any, ...]:
    return tuple(xp.linalg.svd(x, full_matrices=full_matrices))


svd_p = batches(Primitive("svd", _svd, many=True))


@svd_p.vjp
def _svd_vjp(t: Any, y1: Any, y2: Any, y3: Any) -> tuple[Any]:
    """The rule of Townsend (2016), with the phase term for complex values.

    The terms with F ∘ skew(...) change U and V within their span, the others out of it.
    """
    left = product(y1, t[0], adjoint_a=True)
    right = product(y3, t[2], adjoint_b=True)
    gaps = reciprocal_gaps_p(y2) * reciprocal_or_zero(as_row(y2) + as_column(y2))
    skew = left - adjoint_of(left)
    inner = skew * gaps * as_row(y2) + diagonal_matrix(t[1])
    inner = inner + (right - adjoint_of(right)) * gaps * as_column(y2)
    inverse = reciprocal_or_zero(y2)
    if is_complex(inner):
        inner = inner + skew * identity_like(skew) * as_row(inverse) * 0.5
    out_left = (t[0] - product(y1, left)) * as_row(inverse)
    out_right = (t[2] - product(right, y3, adjoint_a=True)) * as_column(inverse)
    return (product(product(y1, inner) + out_left, y3) + product(y1, out_right),)


@svd_p.jvp
def _svd_jvp(ts: Any, y1: Any, y2: Any, y3: Any) -> tuple[Any, Any, Any]:
    t = ts[0]
    inner = product(product(y1, t, adjoint_a=True), y3, adjoint_b=True)
    back = adjoint_of(inner)
    gaps = reciprocal_gaps_p(y2) * reciprocal_or_zero(as_row(y2) + as_column(y2))
    row, column = as_row(y2), as_column(y2)
    inverse = reciprocal_or_zero(y2)
    left = (inner * row + column * back) * gaps
    right = (column * inner + back * row) * gaps
    if is_complex(inner):
        left = left + (inner - back) * identity_like(inner) * as_row(inverse) * 0.5
    along = product(t, y3, adjoint_b=True) - product(y1, inner)
    across = product(y1, t, adjoint_a=True) - product(inner, y3)
    d_left = product(y1, left) + along * as_row(inverse)
    d_right = product(right, y3, adjoint_a=True) + across * as_column(inverse)
    return d_left, real(diagonal_of(inner)), d_right


svd_full_p = batches(Primitive("svd_full", _svd, many=True, differentiable=False))
svdvals_p = batches(Primitive("svdvals", lambda xp, x: xp.linalg.svdvals(x)))


def _svdvals_vjp(t: Any, x: Any) -> Any:
    u, _, vh = svd_p(x, full_matrices=False)
    return product(u * as_row(t), vh)


def _svdvals_jvp(t: Any, x: Any) -> Any:
    u, _, vh = svd_p(x, full_matrices=False)
    return real(diagonal_of(product(product(u, t, adjoint_a=True), vh, adjoint_b=True)))


svdvals_p.vjps(_svdvals_vjp)
svdvals_p.jvps(_svdvals_jvp)


def svdvals(x: Any) -> Any:
    """Return the singular values, largest first.

    >>> svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return svdvals_p(as_matrices(x, "svdvals", square=False))


def svd(x: Any, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """Return u, s, vh with x = (u * s) @ vh, as the Array API does; without `compute_uv` only s.

    With `full_matrices`, u and vh are square; this form has no derivative unless x is square.

    >>> u, s, vh = svd([[3.0, 0.0], [0.0, 4.0]])
    >>> s.tolist()
    [4.0, 3.0]
    """
    if not compute_uv:
        return svdvals(x)
    x = as_matrices(x, "svd", square=False)
    if full_matrices and x.shape[-1] != x.shape[-2]:
        return svd_full_p(x, full_matrices=True)
    return svd_p(x, full_matrices=False)


def tf_svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """Return s, u, v with tensor = (u * s) @ v^H, in TensorFlow's order.

    >>> s, u, v = tf_svd([[3.0, 0.0], [0.0, 4.0]])
    >>> s.tolist()
    [4.0, 3.0]
    """
    if not compute_uv:
        return svdvals(tensor)
    u, s, vh = svd(tensor, full_matrices)
    return s, u, adjoint_of(vh)
