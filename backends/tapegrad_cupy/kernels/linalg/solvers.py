"""Cholesky factors, triangular and general systems, inverses and determinants.

Arrays are row-major, and the libraries expect columns: a matrix is passed as its transpose, and
sides, triangles and operations are chosen so that no operand is transposed in memory. Nothing
waits for the device, so that all calls can be captured. A matrix without a Cholesky factor gives
NaN; a singular system gives inf or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.copying.copies import copy_into
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.linalg import small
from tapegrad_cupy.kernels.linalg.stacks import Shape, Stack, count_of, lead_of, stack_of
from tapegrad_cupy.launch.replay import prevent_replay
from tapegrad_cupy.library_calls import dense_solvers as library
from tapegrad_cupy.library_calls.dense_solvers import LETTERS

Array = Any

_FEW, _LARGE = 8, 64
"""Up to so many matrices of at least this order are solved one by one: each fills the device."""

_MOST_TOGETHER = 256
"""The largest order of matrices that the libraries factor faster as a stack."""


def _is_supported(*arrays: Array) -> bool:
    """Return whether the operands have one dtype of the libraries, which can be loaded."""
    prevent_replay()
    first = arrays[0].dtype
    same = all([array.dtype == first for array in arrays])
    return same and first.name in LETTERS and not library.why_missing()


def _new(shape: Shape, dtype: Any) -> Array:
    return cupy.ndarray(shape, dtype)


def _one_by_one(count: int, n: int) -> bool:
    return count == 1 or n > _MOST_TOGETHER or (count <= _FEW and n >= _LARGE)


# Cholesky factors


def cholesky(x: Array) -> Array:
    """Return the lower Cholesky factors; only the lower triangles are read.

    cuSOLVER is faster for lower triangles than for upper ones, so that factors lie by columns.
    """
    if not _is_supported(x):
        return run_generic("cholesky", x)
    n, lead = x.shape[-1], x.shape[:-2]
    y = _new(x.shape, x.dtype)
    if not y.size:
        return y
    count, source = count_of(lead), stack_of(x, lead)
    if n <= small.MOST:
        small.cholesky(source, y, n, count)
        return y
    small.lower_triangles(source, y, n, count)
    letter, info = LETTERS[x.dtype.name], _new((count,), np.int32)
    if _one_by_one(count, n):
        for k in range(count):
            at = y.data.ptr + k * n * n * y.dtype.itemsize
            library.factor_cholesky(letter, library.LOWER, n, at, info.data.ptr + 4 * k)
    else:
        own = stack_of(y, lead)
        _table, at, _ = small.addresses(own, own, count)
        library.factor_cholesky_stack(letter, library.LOWER, n, at, info.data.ptr, count)
    small.spoil_failed(y, info, n)
    return y.swapaxes(-1, -2)


# Triangular systems


def triangular_solve(a: Array, b: Array, *, lower: bool, adjoint: bool) -> Array:
    """Solve with one triangle of each matrix, or with its adjoint."""
    if not _is_supported(a, b):
        return run_generic("triangular_solve", a, b, lower=lower, adjoint=adjoint)
    lead = lead_of(a, b)
    n, width = b.shape[-2:]
    if not n * width * count_of(lead):
        return _new((*lead, n, width), b.dtype)
    if n <= small.MOST:
        return _solve_small_triangles(a, b, lead, lower, adjoint)
    matrices = stack_of(a, lead)
    conjugated = adjoint and a.dtype.kind == "c"
    # Few right-hand sides are solved from the left, for which cuBLAS has special kernels.
    by_columns = (_is_by_columns(b) or 4 * width <= n) and not conjugated
    x = _copied(b, lead, by_columns)
    if not _fits(matrices, n) or (conjugated and matrices.column != 1):
        matrices = stack_of(cupy.ascontiguousarray(a), lead)
    is_row_major = matrices.column == 1
    # From the right, X^T op(A)^T = B^T; the library sees A^T in place of a row-major A.
    if by_columns:
        side, op, sizes = library.LEFT, _operation(adjoint != is_row_major), (n, width)
    else:
        side, op, sizes = library.RIGHT, _operation(adjoint == is_row_major), (width, n)
        op = library.ADJOINT if conjugated else op
    uplo = library.UPPER if lower == is_row_major else library.LOWER
    leading = max(matrices.row if is_row_major else matrices.column, 1)
    _run_triangular(matrices, stack_of(x, lead), side, uplo, op, sizes, leading, count_of(lead))
    return x


def _operation(transposed: bool) -> int:
    return library.TRANSPOSED if transposed else library.PLAIN


def _run_triangular(
    a: Stack, x: Stack, side: int, uplo: int, op: int, sizes: tuple[int, int], leading: int,
    count: int,
) -> None:  # fmt: skip
    letter, item = LETTERS[x.array.dtype.name], x.array.dtype.itemsize
    n = sizes[0] if side == library.LEFT else sizes[1]
    if count == 1 or (count <= _FEW and n >= _LARGE):
        for k in range(count):
            at_a, at_x = a.address + k * a.step * item, x.address + k * x.step * item
            library.solve_triangular(letter, side, uplo, op, sizes, at_a, leading, at_x, sizes[0])
        return
    _table, at_a, at_x = small.addresses(a, x, count)
    library.solve_triangular(letter, side, uplo, op, sizes, at_a, leading, at_x, sizes[0], count)


def _solve_small_triangles(a: Array, b: Array, lead: Shape, lower: bool, adjoint: bool) -> Array:
    n, width = b.shape[-2:]
    x = _new((*lead, n, width), b.dtype)
    matrices, known, wanted = stack_of(a, lead), stack_of(b, lead), stack_of(x, lead)
    if adjoint:
        matrices = matrices.turned()
    if lower == adjoint:  # an upper triangle, from the last row to the first
        matrices = matrices.reversed_rows(n).reversed_columns(n)
        known, wanted = known.reversed_rows(n), wanted.reversed_rows(n)
    small.solve_lower(matrices, known, wanted, n, width, count_of(lead), adjoint)
    return x


def _fits(stack: Stack, n: int) -> bool:
    """Return whether a library can read matrices where they are, by rows or by columns."""
    return (stack.column == 1 and stack.row >= n) or (stack.row == 1 and stack.column >= n)


def _is_by_columns(b: Array) -> bool:
    """Return whether right-hand sides lie column by column; a single column does."""
    n, width = b.shape[-2:]
    item = b.dtype.itemsize
    row, column = b.strides[-2:]
    return bool(width == 1 or (row == item and column >= n * item))


def _copied(b: Array, lead: Shape, by_columns: bool) -> Array:
    """Return a copy of right-hand sides, broadcast to a stack, by rows or by columns."""
    n, width = b.shape[-2:]
    if by_columns:
        x = _new((*lead, width, n), b.dtype).swapaxes(-1, -2)
    else:
        x = _new((*lead, n, width), b.dtype)
    copy_into(x, b if b.shape == x.shape else cupy.broadcast_to(b, x.shape))
    return x


# General systems


def solve(a: Array, b: Array, *, adjoint: bool) -> Array:
    """Solve A X = B, or with the adjoint of A."""
    if not _is_supported(a, b):
        return run_generic("solve", a, b, adjoint=adjoint)
    lead = lead_of(a, b)
    n, width = b.shape[-2:]
    count = count_of(lead)
    if not n * width * count:
        return _new((*lead, n, width), b.dtype)
    conjugated = adjoint and a.dtype.kind == "c"
    if n <= small.MOST:
        x = _new((*lead, n, width), b.dtype)
        matrices = stack_of(a, lead)
        turned = matrices.turned() if adjoint else matrices
        small.eliminate(turned, stack_of(b, lead), x, n, width, count, conjugated)
        return x
    # The libraries factor the memory as it is, which is A^T if it lies by rows.
    by_rows = a.strides[-1] <= a.strides[-2] and not conjugated
    factors = _copied(a, lead, by_columns=not by_rows)
    x = _copied(b, lead, by_columns=True)
    op = library.ADJOINT if conjugated else _operation(by_rows != adjoint)
    _factor_and_solve(factors, x, lead, n, width, op)
    return x


def inverse(a: Array) -> Array:
    """Return the inverses."""
    if not _is_supported(a):
        return run_generic("inv", a)
    n, lead = a.shape[-1], a.shape[:-2]
    y = _new(a.shape, a.dtype)
    if not y.size:
        return y
    count = count_of(lead)
    if n <= small.MOST:
        small.eliminate(stack_of(a, lead), None, y, n, n, count, False)
        return y
    # The memory of A is A^T by columns, and that of the result is the inverse of A^T.
    small.identities(y, n)
    _factor_and_solve(_copied(a, lead, by_columns=False), y, lead, n, n, library.PLAIN)
    return y


def _factor_and_solve(factors: Array, x: Array, lead: Shape, n: int, width: int, op: int) -> None:
    """Replace contiguous matrices by their LU factors, and `x` by the solutions."""
    _solve_by(factors, _factor(factors, lead, n), x, lead, n, width, op)


def _factor(factors: Array, lead: Shape, n: int) -> Array:
    """Replace contiguous matrices by their LU factors, and return the rows that were exchanged."""
    letter, count = LETTERS[factors.dtype.name], count_of(lead)
    pivots, info = _new((*lead, n), np.int32), _new((count,), np.int32)
    if _one_by_one(count, n):
        for k in range(count):
            at = factors.data.ptr + k * n * n * factors.dtype.itemsize
            library.factor_lu(letter, n, at, pivots.data.ptr + 4 * k * n, info.data.ptr + 4 * k)
        return pivots
    own = Stack(factors, factors.data.ptr, n * n, n, 1)
    _table, at, _ = small.addresses(own, own, count)
    library.factor_lu_stack(letter, n, at, pivots.data.ptr, info.data.ptr, count)
    return pivots


def _solve_by(
    factors: Array, pivots: Array, x: Array, lead: Shape, n: int, width: int, op: int
) -> None:
    """Replace `x` by the solutions of systems whose LU factors are known."""
    letter, count, item = LETTERS[x.dtype.name], count_of(lead), x.dtype.itemsize
    if _one_by_one(count, n):
        info = _new((count,), np.int32)
        for k in range(count):
            at, to = factors.data.ptr + k * n * n * item, pivots.data.ptr + 4 * k * n
            at_x = x.data.ptr + k * n * width * item
            library.solve_lu(letter, op, n, width, at, to, at_x, info.data.ptr + 4 * k)
        return
    a = Stack(factors, factors.data.ptr, n * n, n, 1)
    b = Stack(x, x.data.ptr, n * width, 1, n)
    _table, at_a, at_b = small.addresses(a, b, count)
    library.solve_lu_stack(letter, op, n, width, at_a, pivots.data.ptr, at_b, count)


def lu_factors(a: Array) -> tuple[Array, Array]:
    """Return the LU factors of the transposes, by columns, and the rows that were exchanged."""
    if not _is_supported(a) or not a.size:
        return run_generic("lu_factors", a)  # type: ignore[no-any-return]
    lead = a.shape[:-2]
    factors = _copied(a, lead, by_columns=False)
    return factors, _factor(factors, lead, a.shape[-1])


def solve_factored(factors: Array, pivots: Array, b: Array, *, adjoint: bool) -> Array:
    """Solve A X = B, or with the adjoint of A, from the factors that `lu_factors` returns."""
    if not _is_supported(factors, b) or not b.size:
        return run_generic("solve_factored", factors, pivots, b, adjoint=adjoint)
    n, width = b.shape[-2:]
    x = _copied(b, b.shape[:-2], by_columns=True)
    if factors.dtype.kind == "c" and adjoint:
        cupy.conj(x, out=x)
    _solve_by(factors, pivots, x, b.shape[:-2], n, width, _operation(not adjoint))
    return cupy.conj(x, out=x) if factors.dtype.kind == "c" and adjoint else x


# Determinants


def _determinants(a: Array, results: tuple[Array, Array, Array]) -> None:
    n, lead = a.shape[-1], a.shape[:-2]
    count = count_of(lead)
    if n <= small.MOST:
        small.determinants(stack_of(a, lead), n, count, results)
        return
    letter = LETTERS[a.dtype.name]
    factors = _copied(a, lead, by_columns=False)
    pivots, info = _new((count, n), np.int32), _new((count,), np.int32)
    if _one_by_one(count, n):
        for k in range(count):
            at = factors.data.ptr + k * n * n * a.dtype.itemsize
            library.factor_lu(letter, n, at, pivots.data.ptr + 4 * k * n, info.data.ptr + 4 * k)
    else:
        own = Stack(factors, factors.data.ptr, n * n, n, 1)
        _table, at, _ = small.addresses(own, own, count)
        library.factor_lu_stack(letter, n, at, pivots.data.ptr, info.data.ptr, count)
    small.determinants_of_factors(factors, pivots, n, count, results)


def determinant(a: Array) -> Array:
    """Return the determinants."""
    if not _is_supported(a) or not a.size:
        return run_generic("det", a)
    found = _new(a.shape[:-2], a.dtype)
    _determinants(a, (None, None, found))
    return found


def sign_and_logarithm(a: Array) -> tuple[Array, Array]:
    """Return the signs of determinants and the logarithms of their absolute values."""
    if not _is_supported(a) or not a.size:
        return run_generic("slogdet", a)  # type: ignore[no-any-return]
    signs = _new(a.shape[:-2], a.dtype)
    logarithms = _new(a.shape[:-2], a.dtype.char.lower())
    _determinants(a, (signs, logarithms, None))
    return signs, logarithms


def adjugate(a: Array) -> Array:
    """Return the transposed cofactors, which singular matrices have, too."""
    n = a.shape[-1]
    if not _is_supported(a) or not a.size or n > small.MOST_MINORS:
        return run_generic("adjugate", a)
    y = _new(a.shape, a.dtype)
    small.adjugates(stack_of(a, a.shape[:-2]), y, n)
    return y


KERNELS: dict[str, Callable[..., Any]] = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "solve": solve,
    "lu_factors": lu_factors,
    "solve_factored": solve_factored,
    "inv": inverse,
    "det": determinant,
    "slogdet": sign_and_logarithm,
    "adjugate": adjugate,
}
