"""Direct sparse solvers: spsolve, splu, factorized.

Large systems use SciPy's sparse LU decomposition on the CPU, if SciPy is installed, and CuPy's
sparse QR on a GPU. Other systems, batches and recorded functions are solved as dense systems. The
gradients follow from dx = A^-1 (db - dA x); only stored entries have a gradient.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.ops.linalg.solve import solve
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
"""The minimum number of unknowns for a sparse decomposition; below, a dense one is faster."""

Solve = Callable[[Any, bool], Any]
"""Solves for a raw right side with the matrix or its adjoint."""


def as_square(A: Any, name: str) -> SparseArray:
    """Convert a value to a sparse square matrix."""
    matrix = A if isinstance(A, SparseArray) else coo_array(A)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{name} needs a square matrix. Got shape {matrix.shape}.")
    return matrix


def right_side(matrix: SparseArray, b: Any, name: str) -> Any:
    """Convert a right side, which may be sparse, to a dense vector or matrix."""
    right = b.toarray() if isinstance(b, SparseArray) else operand(b)
    check_side(matrix, right, name, most=2)
    return right


def check_side(matrix: SparseArray, right: Any, name: str, most: int) -> None:
    """Raise if the shape of a right side does not match the matrix."""
    if not 1 <= right.ndim <= most or right.shape[0] != matrix.shape[0]:
        kind = "vector" if most == 1 else "vector or matrix"
        raise ShapeError(
            f"{name} with a matrix of shape {matrix.shape} needs a {kind} with as many rows. "
            f"Got shape {right.shape}."
        )


class SuperLU:
    """A factorized sparse matrix that solves any number of systems.

    >>> halves = SuperLU(coo_array([[2.0, 0.0], [1.0, 4.0]]))
    >>> halves.solve([2.0, 5.0]).tolist(), halves.shape
    ([1.0, 1.0], (2, 2))
    """

    def __init__(self, A: Any) -> None:
        self._matrix = as_square(A, "splu")
        self.shape = self._matrix.shape
        self._solve: Solve | None = None

    @property
    def nnz(self) -> int:
        """The number of stored entries of the matrix."""
        return self._matrix.nnz

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve A x = rhs, or with 'T' or 'H' the transposed or adjoint system."""
        check_choice("trans", trans, ("N", "T", "H"))
        right = right_side(self._matrix, rhs, "solve")
        data, right = operands(self._matrix.data, right)
        if trans == "T":
            return conjugate(self._solved(data, conjugate(right), True))
        return self._solved(data, right, trans == "H")

    def _solved(self, data: Any, right: Any, is_adjoint: bool) -> Any:
        if (
            not _is_single_tensor(data)
            or not _is_single_tensor(right)
            or self._factorize(data) is None
        ):
            return self._as_dense(data, right, is_adjoint)
        found = wrap(self._factorize(data)(right.array, is_adjoint))  # type: ignore[misc]
        return self._with_gradients(found, data, right, is_adjoint)

    def _as_dense(self, data: Any, right: Any, is_adjoint: bool) -> Any:
        return solve(self._matrix._like(data).toarray(), right, adjoint=is_adjoint)

    def _factorize(self, data: Any) -> Solve | None:
        """Return the decomposition, computed on first use; None for the dense solver."""
        if self._solve is None:
            self._solve = _decomposition(self._matrix, stop_gradient(data))
        return self._solve

    def _with_gradients(self, found: Any, data: Any, right: Any, is_adjoint: bool) -> Any:
        """Return `found` with the gradients of the solution."""
        row, column = self._matrix.row, self._matrix.col

        def solution(data: Any, right: Any, found: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                # Attach the gradients to x again, for higher derivatives.
                x = self._with_gradients(found, data, right, is_adjoint)
                adjoint = self._solved(data, upstream, not is_adjoint)
                if is_adjoint:
                    parts = take(x, row) * conjugate(take(adjoint, column))
                else:
                    parts = take(adjoint, row) * conjugate(take(x, column))
                return -(parts if parts.ndim == 1 else sum_over(parts, 1)), adjoint, None

            return found * 1.0, gradient

        return custom_gradient(solution)(data, right, found)


def _is_single_tensor(value: Any) -> bool:
    """Whether a value is a concrete tensor: not a vmap batch and not being recorded."""
    return isinstance(value, Tensor) and not is_undecided(value)


def _decomposition(matrix: SparseArray, data: Any) -> Solve | None:
    size, dtype = matrix.shape[0], numpy_dtype_of(data)
    if not all(_is_single_tensor(part) for part in (data, matrix.row, matrix.col)):
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
            "The sparse matrix is singular, so the system has no unique solution."
        ) from error
    return lambda right, is_adjoint: factors.solve(right, "H" if is_adjoint else "N")


def _by_cupy(matrix: SparseArray, data: Any) -> Solve | None:
    """Return a solver that factorizes for each right side; CuPy's LU runs through the host."""
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
        # The library reads a contiguous vector, so each column is copied.
        columns = [linalg.spsolve(own, right[:, j].copy()) for j in range(right.shape[1])]
        return join(columns, axis=1)

    return solve


def splu(A: Any) -> SuperLU:
    """Factorize a sparse matrix; `.solve(b)` of the result solves systems.

    Gradients flow to the stored entries of A and to each b.

    >>> splu(coo_array([[2.0, 0.0], [0.0, 4.0]])).solve([2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    return SuperLU(A)


def factorized(A: Any) -> Callable[[Any], Any]:
    """Return a function that solves systems with the matrix A.

    >>> factorized(coo_array([[2.0, 0.0], [0.0, 4.0]]))([2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    return SuperLU(A).solve


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Solve A x = b for a vector or matrix b.

    Large systems use a sparse decomposition, by SciPy on the CPU if it is installed and by CuPy on
    a GPU. Others are solved as dense systems. Gradients flow to the stored entries of A and to b.

    >>> spsolve(coo_array([[2.0, 0.0], [0.0, 4.0]]), [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    matrix = as_square(A, "spsolve")
    return SuperLU(matrix).solve(right_side(matrix, b, "spsolve"))
