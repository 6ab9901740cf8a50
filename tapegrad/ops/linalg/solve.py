"""Linear systems: solve, triangular_solve, inverse, pseudo-inverse and least squares."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.linalg.common import (
    adjoint_of,
    as_matrices,
    batches,
    dtype_of,
    identity_like,
    product,
    triangle,
)
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p, sum_to_shape


def _solve(xp: Any, a: Any, b: Any, *, adjoint: bool) -> Any:
    return xp.linalg.solve(_adjoint(xp, a) if adjoint else a, b)


def _adjoint(xp: Any, x: Any) -> Any:
    return xp.matrix_transpose(xp.conj(x) if xp.isdtype(x.dtype, "complex floating") else x)


solve_p = batches(Primitive("solve", _solve))


@solve_p.vjp
def _solve_vjp(
    t: Any,
    y: Any,
    x1: Any,
    x1_shape: tuple[int, ...],
    x2_shape: tuple[int, ...],
    *,
    adjoint: bool,
    needs: tuple[bool, bool],
) -> tuple[Any, Any]:
    """With y = A^-1 b: db = A^-H dy and dA = -db y^H."""
    rhs_cotangent = solve_p(x1, t, adjoint=not adjoint)
    matrix = _matrix_cotangent(rhs_cotangent, y, adjoint) if needs[0] else None
    return (
        None if matrix is None else sum_to_shape(matrix, x1_shape),
        sum_to_shape(rhs_cotangent, x2_shape) if needs[1] else None,
    )


def _matrix_cotangent(rhs_cotangent: Any, y: Any, adjoint: bool) -> Any:
    if adjoint:
        return -product(y, rhs_cotangent, adjoint_b=True)
    return -product(rhs_cotangent, y, adjoint_b=True)


solve_p.jvps(
    lambda t, y, x1, *, adjoint: -solve_p(x1, product(t, y, adjoint_a=adjoint), adjoint=adjoint),
    lambda t, x1, *, adjoint: solve_p(x1, t, adjoint=adjoint),
)


def _triangular(xp: Any, a: Any, b: Any, *, lower: bool, adjoint: bool) -> Any:
    a = xp.tril(a) if lower else xp.triu(a)
    return xp.linalg.solve(_adjoint(xp, a) if adjoint else a, b)


triangular_solve_p = batches(Primitive("triangular_solve", _triangular))


@triangular_solve_p.vjp
def _triangular_vjp(
    t: Any,
    y: Any,
    x1: Any,
    x1_shape: tuple[int, ...],
    x2_shape: tuple[int, ...],
    *,
    lower: bool,
    adjoint: bool,
    needs: tuple[bool, bool],
) -> tuple[Any, Any]:
    rhs_cotangent = triangular_solve_p(x1, t, lower=lower, adjoint=not adjoint)
    matrix = None
    if needs[0]:
        full = sum_to_shape(_matrix_cotangent(rhs_cotangent, y, adjoint), x1_shape)
        matrix = triangle(full, lower=lower)
    return matrix, sum_to_shape(rhs_cotangent, x2_shape) if needs[1] else None


def _triangular_jvp(t: Any, y: Any, x1: Any, *, lower: bool, adjoint: bool) -> Any:
    moved = product(triangle(t, lower=lower), y, adjoint_a=adjoint)
    return -triangular_solve_p(x1, moved, lower=lower, adjoint=adjoint)


triangular_solve_p.jvps(
    _triangular_jvp,
    lambda t, x1, *, lower, adjoint: triangular_solve_p(x1, t, lower=lower, adjoint=adjoint),
)

inv_p = batches(Primitive("inv", lambda xp, x: xp.linalg.inv(x)))
inv_p.vjps(lambda t, y: -product(product(y, t, adjoint_a=True), y, adjoint_b=True))
inv_p.jvps(lambda t, y: -product(product(y, t), y))


def _pinv(xp: Any, x: Any, *, rcond: float | None) -> Any:
    return xp.linalg.pinv(x) if rcond is None else xp.linalg.pinv(x, rtol=rcond)


# The rules are those of Golub and Pereyra (1973), for matrices of locally constant rank.
pinv_p = batches(Primitive("pinv", _pinv))


def _projectors(x: Any, y: Any) -> tuple[Any, Any]:
    """Return I - A A^+ and I - A^+ A, the projections onto the orthogonal complements."""
    return identity_like(x, x.shape[-2]) - product(x, y), identity_like(x) - product(y, x)


def _pinv_vjp(t: Any, x: Any, y: Any) -> Any:
    left, right = _projectors(x, y)
    back = adjoint_of(t)
    main = product(product(y, t, adjoint_a=True), y, adjoint_b=True)
    below = product(product(left, back), product(y, y, adjoint_b=True))
    beside = product(product(y, y, adjoint_a=True), product(back, right))
    return below + beside - main


def _pinv_jvp(t: Any, x: Any, y: Any) -> Any:
    left, right = _projectors(x, y)
    back = adjoint_of(t)
    below = product(product(y, y, adjoint_b=True), product(back, left))
    beside = product(product(right, back), product(y, y, adjoint_a=True))
    return below + beside - product(product(y, t), y)


pinv_p.vjps(_pinv_vjp)
pinv_p.jvps(_pinv_jvp)


def _check_rows(matrix: Any, rhs: Any, name: str, axis: int = -2) -> None:
    if len(rhs.shape) < 2 or matrix.shape[axis] != rhs.shape[-2]:
        raise ShapeError(
            f"{name} needs a right-hand side with {matrix.shape[axis]} rows for matrices of shape "
            f"{matrix.shape}. Got shape {rhs.shape}."
        )


def _with_columns(rhs: Any) -> tuple[Any, bool]:
    """Return a right-hand side as matrices, and whether it was a single vector."""
    if len(rhs.shape) == 1:
        return reshape_p(rhs, shape=(rhs.shape[0], 1)), True
    return rhs, False


def _without_columns(x: Any, vector: bool) -> Any:
    return reshape_p(x, shape=tuple(x.shape[:-1])) if vector else x


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """Return x with matrix @ x = rhs, or with `adjoint` matrix^H @ x = rhs.

    Each column of `rhs` is one system; `rhs` may also be a single vector.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]).tolist()
    [[1.0], [0.5]]
    """
    matrix, rhs = common_operands(matrix, rhs)
    matrix = as_matrices(matrix, "solve")
    rhs, vector = _with_columns(rhs)
    _check_rows(matrix, rhs, "solve")
    return _without_columns(solve_p(matrix, rhs, adjoint=bool(adjoint)), vector)


def triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """Return x with triangle(matrix) @ x = rhs; the other triangle is not read.

    >>> triangular_solve([[2.0, 9.0], [0.0, 4.0]], [[2.0], [2.0]]).tolist()
    [[1.0], [0.5]]
    """
    matrix, rhs = common_operands(matrix, rhs)
    matrix = as_matrices(matrix, "triangular_solve")
    rhs, vector = _with_columns(rhs)
    _check_rows(matrix, rhs, "triangular_solve")
    solution = triangular_solve_p(matrix, rhs, lower=bool(lower), adjoint=bool(adjoint))
    return _without_columns(solution, vector)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Any:
    """Return x with A @ x = rhs, given the lower Cholesky factor of A.

    >>> cholesky_solve([[2.0, 0.0], [0.0, 1.0]], [[4.0], [3.0]]).tolist()
    [[1.0], [3.0]]
    """
    chol, rhs = common_operands(chol, rhs)
    return triangular_solve(chol, triangular_solve(chol, rhs), adjoint=True)


def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Any:
    """Return the inverse of each matrix, or with `adjoint` of its adjoint.

    >>> inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    inverse = inv_p(as_matrices(input, "inv"))
    return adjoint_of(inverse) if adjoint else inverse


def pinv(
    a: Any, rcond: float | None = None, validate_args: bool = False, name: str | None = None
) -> Any:
    """Return the Moore-Penrose inverse; singular values below rcond * max(s) count as 0.

    >>> pinv([[2.0], [0.0]]).tolist()
    [[0.5, 0.0]]
    """
    return pinv_p(as_matrices(a, "pinv", square=False), rcond=rcond)


def lstsq(
    matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None
) -> Any:
    """Return the x that minimises |matrix @ x - rhs|² + l2_regularizer |x|².

    With more columns than rows, it is the exact solution of minimum norm. `fast` solves the normal
    equations, which requires full rank; otherwise the pseudo-inverse is used.

    >>> lstsq([[1.0], [1.0]], [[1.0], [3.0]]).tolist()
    [[2.0]]
    """
    matrix, rhs = common_operands(matrix, rhs)
    matrix = as_matrices(matrix, "lstsq", square=False)
    rhs, vector = _with_columns(rhs)
    _check_rows(matrix, rhs, "lstsq")
    if not fast:
        return _without_columns(_lstsq_by_pinv(matrix, rhs, l2_regularizer), vector)
    tall = matrix.shape[-2] >= matrix.shape[-1]
    gram = product(matrix, matrix, adjoint_a=tall, adjoint_b=not tall)
    if l2_regularizer:
        gram = gram + identity_like(gram) * float(l2_regularizer)
    if tall:
        solution = solve_p(gram, product(matrix, rhs, adjoint_a=True), adjoint=False)
    else:
        solution = product(matrix, solve_p(gram, rhs, adjoint=False), adjoint_a=True)
    return _without_columns(solution, vector)


def _lstsq_by_pinv(matrix: Any, rhs: Any, l2_regularizer: float) -> Any:
    """Solve with the pseudo-inverse; the regularizer becomes additional rows."""
    if l2_regularizer:
        n = matrix.shape[-1]
        weight = identity_like(matrix) * float(l2_regularizer) ** 0.5
        below = broadcast_p(weight, shape=(*matrix.shape[:-2], n, n))
        zeros = zeros_for(rhs, (*rhs.shape[:-2], n, rhs.shape[-1]), dtype_of(rhs).dtype)
        matrix, rhs = concat([matrix, below], -2), concat([rhs, zeros], -2)
    return product(pinv_p(matrix, rcond=None), rhs)
