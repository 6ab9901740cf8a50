"""Hermitian banded matrices; the functions expand the bands to dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.ops.linalg import decompositions, eigen
from tapegrad.ops.linalg.common import adjoint_of
from tapegrad.scipy.linalg.decompositions import mirrored
from tapegrad.scipy.linalg.ignored_options import ignoring
from tapegrad.scipy.linalg.solvers import cho_solve
from tapegrad.scipy.vocabulary import (
    concat,
    gather,
    matrix_diag,
    numbers_like,
    operand,
    operands,
    place_next_to,
    reshape_p,
)


def _band_places(count: int, size: int, lower: bool) -> tuple[Any, Any]:
    """Return row and column of every band entry; unused entries have a row out of range."""
    columns = np.broadcast_to(np.arange(size), (count, size))
    rows = columns + np.arange(count)[:, None] - (0 if lower else count - 1)
    return rows, columns


def _with_zero(x: Any) -> Any:
    flat = reshape_p(x, shape=(x.size,))
    return concat([flat, numbers_like(flat, [0.0])], 0)


def _triangle_of(ab: Any, lower: bool, name: str) -> Any:
    """Return the triangular matrix with these bands; unused entries are not read."""
    if ab.ndim != 2:
        raise ShapeError(
            f"{name} needs a 2-D array with the diagonals as rows. Got shape {ab.shape}."
        )
    count, size = ab.shape
    rows, columns = _band_places(count, size, lower)
    is_inside = (rows >= 0) & (rows < size)
    places = np.full((size, size), count * size)
    entries = np.arange(count * size).reshape(count, size)
    places[rows[is_inside], columns[is_inside]] = entries[is_inside]
    return gather(_with_zero(ab), place_next_to(ab, places))


def _bands_of(x: Any, count: int, lower: bool) -> Any:
    size = x.shape[-1]
    rows, columns = _band_places(count, size, lower)
    is_inside = (rows >= 0) & (rows < size)
    places = np.where(is_inside, rows * size + columns, size * size)
    return gather(_with_zero(x), place_next_to(x, places))


def _dense_of(ab: Any, lower: bool, name: str) -> Any:
    """Return the Hermitian matrix with these bands."""
    part = _triangle_of(ab, lower, name)
    return mirrored(part if lower else adjoint_of(part))


def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solve a @ x = b for a positive definite banded matrix.

    The upper form is `ab[u + i - j, j] = a[i, j]` for i <= j, the lower form is
    `ab[i - j, j] = a[i, j]`. The `overwrite_*` arguments and `check_finite` are ignored.

    >>> solveh_banded([[0.0, 0.0], [2.0, 4.0]], [2.0, 2.0]).round(6).tolist()
    [1.0, 0.5]
    """
    ab, b = operands(ab, b)
    return cho_solve((decompositions.cholesky(_dense_of(ab, lower, "solveh_banded")), True), b)


def cholesky_banded(
    ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True
) -> Any:
    """Return the Cholesky factor of a banded matrix in the same banded form.

    `overwrite_ab` and `check_finite` are ignored.

    >>> cholesky_banded([[4.0, 9.0]]).tolist()
    [[2.0, 3.0]]
    """
    ab = operand(ab)
    factor = decompositions.cholesky(_dense_of(ab, lower, "cholesky_banded"))
    return _bands_of(factor if lower else adjoint_of(factor), ab.shape[0], lower)


@ignoring("overwrite_b", "check_finite")
def cho_solve_banded(cb_and_lower: tuple[Any, bool], b: Any) -> Any:
    """Solve a @ x = b, given the factor from `cholesky_banded` and whether it is lower.

    >>> cho_solve_banded((cholesky_banded([[4.0]]), False), [8.0]).tolist()
    [2.0]
    """
    cb, lower = cb_and_lower
    cb, b = operands(cb, b)
    return cho_solve((_triangle_of(cb, lower, "cho_solve_banded"), lower), b)


@ignoring("overwrite_a_band", "check_finite")
def eig_banded(a_band: Any, lower: bool = False, eigvals_only: bool = False) -> Any:
    """Return the eigenvalues, smallest first, and eigenvectors of a Hermitian banded matrix.

    >>> eig_banded([[2.0, 1.0]], eigvals_only=True).tolist()
    [1.0, 2.0]
    """
    x = _dense_of(operand(a_band), lower, "eig_banded")
    return eigen.eigvalsh(x) if eigvals_only else eigen.eigh(x)


@ignoring("overwrite_a_band", "check_finite")
def eigvals_banded(a_band: Any, lower: bool = False) -> Any:
    """Return the eigenvalues of a Hermitian banded matrix, smallest first.

    >>> eigvals_banded([[2.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return eig_banded(a_band, lower, eigvals_only=True)


@ignoring("check_finite", "lapack_driver")
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False) -> Any:
    """Return the eigenvalues, smallest first, and eigenvectors of a symmetric tridiagonal matrix.

    `d` is the diagonal and `e` the off-diagonal.

    >>> eigh_tridiagonal([2.0, 2.0], [1.0], eigvals_only=True).round(6).tolist()
    [1.0, 3.0]
    """
    d, e = operands(d, e)
    if d.ndim != 1 or e.ndim != 1 or e.shape[0] != d.shape[0] - 1:
        raise ShapeError(
            "eigh_tridiagonal needs a diagonal d and an off-diagonal e with one entry less. "
            f"Got shapes {d.shape} and {e.shape}."
        )
    size, x = d.shape[0], matrix_diag(d)
    if size > 1:
        beside = matrix_diag(e, k=-1, num_rows=size, num_cols=size)
        x = x + beside + adjoint_of(beside)
    return eigen.eigvalsh(x) if eigvals_only else eigen.eigh(x)


@ignoring("check_finite", "lapack_driver")
def eigvalsh_tridiagonal(d: Any, e: Any) -> Any:
    """Return the eigenvalues of a symmetric tridiagonal matrix, smallest first.

    >>> eigvalsh_tridiagonal([2.0, 2.0], [1.0]).round(6).tolist()
    [1.0, 3.0]
    """
    return eigh_tridiagonal(d, e, eigvals_only=True)
