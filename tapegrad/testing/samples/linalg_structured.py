"""Samples of linear algebra of structured matrices: tridiagonal, banded, factorized."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.linalg.banded import banded_triangular_solve
from tapegrad.ops.linalg.decompositions import lu
from tapegrad.ops.linalg.packed_lu import lu_matrix_inverse, lu_reconstruct, lu_solve
from tapegrad.ops.linalg.tridiagonal import (
    eigh_tridiagonal,
    tridiagonal_matmul,
    tridiagonal_solve,
)
from tapegrad.testing.sample import Maker, Sample, complex_normal, fixed, normal

_BANDS = np.array([[0.7, -0.4, 0.9, 0.3], [3.0, -2.5, 4.0, 3.5], [0.6, -0.8, 0.5, 1.1]])
_SQUARE = np.array([[0.2, 2.0, 0.5], [1.5, 0.3, -0.4], [-0.6, 0.1, 2.5]])


def _tridiagonal(bands: Any) -> Any:
    """Return dense matrices; the superdiagonal ends, the subdiagonal begins with a spare entry."""
    rows, columns = np.indices((bands.shape[-1],) * 2)
    upper, main, lower = (bands[..., i, :, None] for i in range(3))
    choices = [rows == columns - 1, rows == columns, rows == columns + 1]
    return np.select(choices, [upper, main, lower])


def _solve(bands: Any, rhs: Any, **options: Any) -> Any:
    if options.get("conjugate_rhs"):
        rhs = rhs.conj()
    if options.get("transpose_rhs"):
        rhs = rhs.swapaxes(-1, -2)
    column = rhs[..., None] if rhs.ndim == bands.ndim - 1 else rhs
    x = np.linalg.solve(_tridiagonal(bands), column)
    return x[..., 0] if column.ndim > rhs.ndim else x


def _solve_sample(case: str, bands: Maker, rhs: Maker, **options: Any) -> Sample:
    return Sample(
        f"tridiagonal_solve-{case}",
        lambda x, y: tridiagonal_solve(x, y, **options),
        [bands, rhs],
        lambda x, y: _solve(x, y, **options),
    )


def _lower(bands: Any) -> Any:
    main, below = bands
    return np.diag(main) + np.diag(below[1:], -1)


def _upper(bands: Any) -> Any:
    above, main = bands
    return np.diag(main) + np.diag(above[:-1], 1)


SAMPLES = [
    _solve_sample("matrix", fixed(_BANDS), normal(4, 2)),
    _solve_sample("vector", fixed(_BANDS), normal(4)),
    _solve_sample("batch", fixed(np.stack([_BANDS, _BANDS[:, ::-1]])), normal(1, 4, 2)),
    _solve_sample("rows", fixed(_BANDS), normal(2, 4), transpose_rhs=True),
    _solve_sample("complex", fixed(_BANDS * (1 + 0.3j)), complex_normal(4, 2), conjugate_rhs=True),
    Sample(
        "tridiagonal_solve-sequence",
        lambda a, b, c, x: tridiagonal_solve([a, b, c], x, "sequence"),
        [normal(2), fixed([3.0, -4.0, 5.0]), normal(2), normal(3, 2)],
        lambda a, b, c, x: np.linalg.solve(np.diag(a, 1) + np.diag(b) + np.diag(c, -1), x),
    ),
    Sample(
        "tridiagonal_solve-perturbed",
        lambda x, y: tridiagonal_solve(x, y, perturb_singular=True),
        [fixed(_BANDS[:, ::-1] * [[1.0], [0.0], [1.0]]), normal(4, 2)],
        _solve,
    ),
    Sample(
        "tridiagonal_matmul",
        tridiagonal_matmul,
        [normal(2, 3, 4), normal(4, 2)],
        lambda x, y: _tridiagonal(x) @ y,
    ),
    Sample(
        "tridiagonal_matmul-matrix",
        lambda x, y: tridiagonal_matmul(x, y, "matrix"),
        [normal(3, 3), normal(3, 2)],
        lambda x, y: np.triu(np.tril(x, 1), -1) @ y,
    ),
    Sample(
        "eigh_tridiagonal",
        eigh_tridiagonal,
        [fixed([1.0, 3.0, 7.0]), complex_normal(2)],
        lambda a, b: np.linalg.eigvalsh(np.diag(a) + np.diag(b, -1) + np.diag(b.conj(), 1)),
    ),
    Sample(
        "banded_triangular_solve-lower",
        banded_triangular_solve,
        [fixed(_BANDS[1:]), normal(4, 2)],
        lambda x, y: np.linalg.solve(_lower(x), y),
    ),
    Sample(
        "banded_triangular_solve-upper-adjoint",
        lambda x, y: banded_triangular_solve(x, y, lower=False, adjoint=True),
        [fixed(_BANDS[:2] * (1 + 0.3j)), complex_normal(4, 2)],
        lambda x, y: np.linalg.solve(_upper(x).conj().T, y),
    ),
    Sample(
        "lu_solve",
        lambda x, y: lu_solve(*lu(x), y),
        [fixed(_SQUARE), normal(2, 3, 2)],
        np.linalg.solve,
    ),
    Sample(
        "lu_matrix_inverse", lambda x: lu_matrix_inverse(*lu(x)), [fixed(_SQUARE)], np.linalg.inv
    ),
    Sample(
        "lu_reconstruct",
        lambda x: lu_reconstruct(*lu(x)),
        [fixed(np.stack([_SQUARE, _SQUARE.T]))],
        lambda x: x,
    ),
]
