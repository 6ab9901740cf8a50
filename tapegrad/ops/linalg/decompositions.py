"""Triangular decompositions: Cholesky, QR and LU."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.linalg.common import (
    adjoint_of,
    as_matrices,
    batches,
    hermitian_part,
    identity_like,
    lower_half,
    product,
    triangle,
)
from tapegrad.ops.linalg.elimination import factorize, find_pivots
from tapegrad.ops.linalg.solve import triangular_solve_p
from tapegrad.ops.products.primitives import matmul_p
from tapegrad.ops.shape.joining import concat

cholesky_p = batches(Primitive("cholesky", lambda xp, x: xp.linalg.cholesky(x)))


def _cholesky_vjp(t: Any, y: Any) -> Any:
    """dA = the Hermitian part of L^-H Φ(L^H dL) L^-1, Φ: lower triangle, diagonal halved."""
    inner = lower_half(product(y, t, adjoint_a=True))
    left = triangular_solve_p(y, inner, lower=True, adjoint=True)
    both = triangular_solve_p(y, adjoint_of(left), lower=True, adjoint=True)
    return hermitian_part(both)


def _cholesky_jvp(t: Any, y: Any) -> Any:
    """dL = L Φ(L^-1 dA L^-H)."""
    left = triangular_solve_p(y, hermitian_part(t), lower=True, adjoint=False)
    both = triangular_solve_p(y, adjoint_of(left), lower=True, adjoint=False)
    return product(y, lower_half(adjoint_of(both)))


cholesky_p.vjps(_cholesky_vjp)
cholesky_p.jvps(_cholesky_jvp)


def cholesky(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the lower triangular L with L @ L^H = input, for Hermitian positive definite input.

    Only the lower triangle is read. The gradient is Hermitian.

    >>> cholesky([[4.0, 2.0], [2.0, 2.0]]).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    return cholesky_p(as_matrices(input, "cholesky"))


qr_p = batches(Primitive("qr", lambda xp, x: tuple(xp.linalg.qr(x)), many=True))
qr_complete_p = batches(
    nondifferentiable(
        "qr_complete", lambda xp, x: tuple(xp.linalg.qr(x, mode="complete")), many=True
    )
)


@qr_p.vjp
def _qr_vjp(t: Any, y1: Any, y2: Any) -> tuple[Any]:
    """With N = Q^H dQ - dR R^H: dA = (dQ + Q (Φ(N - N^H) - N)) R^-H, Φ as for Cholesky."""
    inner = product(y1, t[0], adjoint_a=True) - product(t[1], y2, adjoint_b=True)
    moved = t[0] + product(y1, lower_half(inner - adjoint_of(inner)) - inner)
    return (adjoint_of(triangular_solve_p(y2, adjoint_of(moved), lower=False, adjoint=False)),)


@qr_p.jvp
def _qr_jvp(ts: Any, y1: Any, y2: Any) -> tuple[Any, Any]:
    """With C = Q^H dA R^-1: dR = (C - X) R and dQ = dA R^-1 - Q (C - X).

    X is skew-Hermitian and makes C - X upper triangular with a real diagonal, like R.
    """
    right = adjoint_of(triangular_solve_p(y2, adjoint_of(ts[0]), lower=False, adjoint=True))
    inner = product(y1, right, adjoint_a=True)
    strict = triangle(inner, lower=True, offset=-1)
    skew = strict - adjoint_of(strict)
    if is_complex(inner):
        skew = skew + (inner - adjoint_of(inner)) * identity_like(inner) * 0.5
    upper = inner - skew
    return right - product(y1, upper), product(upper, y2)


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Any, Any]:
    """Return q with orthonormal columns and upper triangular r with q @ r = input.

    With `full_matrices`, q is square; this form has no derivative if there are more rows than
    columns.

    >>> q, r = qr([[3.0], [4.0]])
    >>> abs(float(r[0, 0]))
    5.0
    """
    x = as_matrices(input, "qr", square=False)
    m, n = x.shape[-2:]
    if full_matrices and m > n:
        return qr_complete_p(x)  # type: ignore[no-any-return]
    if m >= n:
        return qr_p(x)  # type: ignore[no-any-return]
    q, r = qr_p(_columns(x, 0, m))
    return q, concat([r, product(q, _columns(x, m, n), adjoint_a=True)], -1)


def _columns(x: Any, start: int, stop: int) -> Any:
    lead = [slice(None)] * (len(x.shape) - 1)
    return slice_p(x, index=(*lead, slice(start, stop)))


def _rows(x: Any, start: int, stop: int) -> Any:
    lead = [slice(None)] * (len(x.shape) - 2)
    return slice_p(x, index=(*lead, slice(start, stop), slice(None)))


lu_pivots_p = batches(nondifferentiable("lu_pivots", find_pivots, many=True))
lu_unpivoted_p = batches(Primitive("lu_unpivoted", factorize))


def _lu_vjp(t: Any, y: Any) -> Any:
    """dA = L^-H (tril(L^H dL, -1) + triu(dU U^H)) U^-H, both factors packed in one matrix."""
    lower = triangle(y, lower=True, offset=-1) + identity_like(y)
    upper = triangle(y, lower=False)
    below = product(lower, triangle(t, lower=True, offset=-1), adjoint_a=True)
    above = product(triangle(t, lower=False), upper, adjoint_b=True)
    inner = triangle(below, lower=True, offset=-1) + triangle(above, lower=False)
    left = triangular_solve_p(lower, inner, lower=True, adjoint=True)
    return adjoint_of(triangular_solve_p(upper, adjoint_of(left), lower=False, adjoint=False))


def _lu_jvp(t: Any, y: Any) -> Any:
    """With M = L^-1 dA U^-1: dL = L tril(M, -1) and dU = triu(M) U."""
    lower = triangle(y, lower=True, offset=-1) + identity_like(y)
    upper = triangle(y, lower=False)
    left = triangular_solve_p(lower, t, lower=True, adjoint=False)
    inner = adjoint_of(triangular_solve_p(upper, adjoint_of(left), lower=False, adjoint=True))
    return product(lower, triangle(inner, lower=True, offset=-1)) + product(
        triangle(inner, lower=False), upper
    )


lu_unpivoted_p.vjps(_lu_vjp)
lu_unpivoted_p.jvps(_lu_jvp)


def lu(input: Any, output_idx_type: Any = "int32", name: str | None = None) -> tuple[Any, Any]:
    """Return L and U packed in one matrix, and the permutation p with input[p] = L @ U.

    L is the strict lower triangle with a unit diagonal, U the upper triangle.

    >>> packed, p = lu([[1.0, 2.0], [4.0, 4.0]])
    >>> packed.tolist(), p.tolist()
    ([[4.0, 4.0], [0.25, 1.0]], [1, 0])
    """
    x = as_matrices(input, "lu", square=False)
    if str(output_idx_type).rpartition(".")[2] not in ("int32", "int64"):
        raise ArgumentError(f"output_idx_type must be int32 or int64. Got {output_idx_type!r}.")
    m, n = x.shape[-2:]
    pivots, swap = lu_pivots_p(x, dtype=str(output_idx_type))
    x = matmul_p(swap, x, transpose_a=False, transpose_b=False)
    k = min(m, n)
    packed = lu_unpivoted_p(_columns(_rows(x, 0, k), 0, k))
    if m > k:
        rest = adjoint_of(_rows(x, k, m))
        below = triangular_solve_p(packed, rest, lower=False, adjoint=True)
        packed = concat([packed, adjoint_of(below)], -2)
    elif n > k:
        unit = triangle(packed, lower=True, offset=-1) + identity_like(packed)
        right = triangular_solve_p(unit, _columns(x, k, n), lower=True, adjoint=False)
        packed = concat([packed, right], -1)
    return packed, pivots
