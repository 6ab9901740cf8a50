"""Sparse systems solved directly: spsolve, splu, factorized.

On the CPU by SciPy's sparse LU decomposition if SciPy is installed, on a GPU by CuPy's sparse QR,
in both cases for systems that are large enough; otherwise as a dense system. Batches and recorded
functions are solved as dense ones, too. Gradients are those of the solution: with A x = b, a change
of A and b moves x by A^-1 (db - dA x), and only entries that are stored have a gradient.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.choices import check_choice
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.solve import solve
from tapegrad.ops.undecided import is_undecided
from tapegrad.scipy.sparse.arrays import coo_array
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.vocabulary import (
    conjugate,
    numpy_dtype_of,
    operand,
    operands,
    stop_gradient,
    sum_over,
    take,
)

SMALLEST = {"scipy": 128, "cupy": 4096}
"""Unknowns from which on a sparse decomposition is taken; below it a dense one is faster."""

Solve = Callable[[Any, bool], Any]
"""A solution for the raw right side, of the matrix or of its adjoint."""


def square(A: Any, name: str) -> SparseArray:
    """Return a value as a sparse square matrix."""
    matrix = A if isinstance(A, SparseArray) else coo_array(A)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{name} needs a square matrix. Got shape {matrix.shape}.")
    return matrix


def right_side(matrix: SparseArray, b: Any, name: str) -> Any:
    """Return vectors or matrices, sparse ones too, that fit as dense ones."""
    right = b.toarray() if isinstance(b, SparseArray) else operand(b)
    check_side(matrix, right, name, most=2)
    return right


def check_side(matrix: SparseArray, right: Any, name: str, most: int) -> None:
    """Refuse a right side that does not fit."""
    if not 1 <= right.ndim <= most or right.shape[0] != matrix.shape[0]:
        kind = "vector" if most == 1 else "vector or matrix"
        raise ShapeError(
            f"{name} with a matrix of shape {matrix.shape} needs a {kind} with as many rows. "
            f"Got shape {right.shape}."
        )


class SuperLU:
    """A sparse matrix, decomposed once, whose systems are solved as often as they are asked for.

    >>> halves = SuperLU(coo_array([[2.0, 0.0], [1.0, 4.0]]))
    >>> halves.solve([2.0, 5.0]).tolist(), halves.shape
    ([1.0, 1.0], (2, 2))
    """

    def __init__(self, A: Any) -> None:
        self._matrix = square(A, "splu")
        self.shape = self._matrix.shape
        self._solve: Solve | None = None

    @property
    def nnz(self) -> int:
        """The number of entries of the matrix."""
        return self._matrix.nnz

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return x with A x = rhs; with 'T' or 'H' for the transposed or adjoint matrix."""
        check_choice("trans", trans, ("N", "T", "H"))
        right = right_side(self._matrix, rhs, "solve")
        data, right = operands(self._matrix.data, right)
        if trans == "T":
            return conjugate(self._solved(data, conjugate(right), True))
        return self._solved(data, right, trans == "H")

    def _solved(self, data: Any, right: Any, is_adjoint: bool) -> Any:
        if not _is_plain(data) or not _is_plain(right) or self._decomposed(data) is None:
            return self._as_dense(data, right, is_adjoint)
        found = wrap(self._decomposed(data)(right.array, is_adjoint))  # type: ignore[misc]
        return self._attached(found, data, right, is_adjoint)

    def _as_dense(self, data: Any, right: Any, is_adjoint: bool) -> Any:
        return solve(self._matrix._like(data).toarray(), right, adjoint=is_adjoint)

    def _decomposed(self, data: Any) -> Solve | None:
        """The decomposition, made when it is first needed; None where the dense way is taken."""
        if self._solve is None:
            self._solve = _decomposition(self._matrix, stop_gradient(data))
        return self._solve

    def _attached(self, found: Any, data: Any, right: Any, is_adjoint: bool) -> Any:
        """Return `found` with the gradients of the solution."""
        row, column = self._matrix.row, self._matrix.col

        def solution(data: Any, right: Any, found: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                # The solution once more, attached again, for derivatives of this derivative.
                x = self._attached(found, data, right, is_adjoint)
                share = self._solved(data, upstream, not is_adjoint)
                if is_adjoint:
                    parts = take(x, row) * conjugate(take(share, column))
                else:
                    parts = take(share, row) * conjugate(take(x, column))
                return -(parts if parts.ndim == 1 else sum_over(parts, 1)), share, None

            return found * 1.0, gradient

        return custom_gradient(solution)(data, right, found)


def _is_plain(value: Any) -> bool:
    """Whether a value is one tensor whose numbers another library may take: no batch, no plan."""
    return isinstance(value, Tensor) and not is_undecided(value)


def _decomposition(matrix: SparseArray, data: Any) -> Solve | None:
    size, dtype = matrix.shape[0], numpy_dtype_of(data)
    if not all(_is_plain(part) for part in (data, matrix.row, matrix.col)):
        return None
    if dtype.char not in "fdFD":
        return None
    if isinstance(data.array, np.ndarray):
        is_there = importlib.util.find_spec("scipy") is not None
        return _by_scipy(matrix, data) if size >= SMALLEST["scipy"] and is_there else None
    is_cupy = type(data.array).__module__.partition(".")[0] == "cupy"
    return _by_cupy(matrix, data) if size >= SMALLEST["cupy"] and is_cupy else None


def _by_scipy(matrix: SparseArray, data: Any) -> Solve:
    sparse = importlib.import_module("scipy.sparse")
    linalg = importlib.import_module("scipy.sparse.linalg")
    places = (matrix.row.array, matrix.col.array)
    own = sparse.csc_matrix((data.array, places), shape=matrix.shape)
    try:
        factors = linalg.splu(own)
    except RuntimeError as error:
        raise ArgumentError(
            "This sparse matrix is singular: its systems have no solution."
        ) from error
    return lambda right, is_adjoint: factors.solve(right, "H" if is_adjoint else "N")


def _by_cupy(matrix: SparseArray, data: Any) -> Solve | None:
    """CuPy decomposes anew for each right side; its LU would have to go by way of the host."""
    sparse = importlib.import_module("cupyx.scipy.sparse")
    linalg = importlib.import_module("cupyx.scipy.sparse.linalg")
    if not importlib.import_module("cupyx.cusolver").check_availability("csrlsvqr"):
        return None
    row, column = (index.array.astype(np.int32) for index in (matrix.row, matrix.col))
    ahead = sparse.coo_matrix((data.array, (row, column)), shape=matrix.shape).tocsr()
    back = sparse.coo_matrix((data.array.conj(), (column, row)), shape=matrix.shape).tocsr()
    join = importlib.import_module("cupy").stack

    def solve(right: Any, is_adjoint: bool) -> Any:
        own = back if is_adjoint else ahead
        if right.ndim == 1:
            return linalg.spsolve(own, right)
        # The library takes a vector by its address, so each column becomes one.
        columns = [linalg.spsolve(own, right[:, j].copy()) for j in range(right.shape[1])]
        return join(columns, axis=1)

    return solve


def splu(A: Any) -> SuperLU:
    """Return a matrix decomposed for many solutions: `.solve(b)`.

    Gradients go to the entries of A that are stored, and to each b.

    >>> splu(coo_array([[2.0, 0.0], [0.0, 4.0]])).solve([2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    return SuperLU(A)


def factorized(A: Any) -> Callable[[Any], Any]:
    """Return the function that solves systems with the matrix A.

    >>> factorized(coo_array([[2.0, 0.0], [0.0, 4.0]]))([2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    return SuperLU(A).solve


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Return x with A x = b for a vector or the columns of a matrix b.

    Large systems are decomposed as sparse ones, by SciPy on the CPU if it is installed and by
    CuPy on a GPU; others are solved as dense ones. Gradients go to the entries of A that are
    stored, and to b.

    >>> spsolve(coo_array([[2.0, 0.0], [0.0, 4.0]]), [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    matrix = square(A, "spsolve")
    return SuperLU(matrix).solve(right_side(matrix, b, "spsolve"))
