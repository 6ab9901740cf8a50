"""Operators that store a matrix: FullMatrix and LowerTriangular."""

from __future__ import annotations

from typing import Any

from tapegrad.linear_operators.arguments import parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.registry import makes
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.magnitude import abs as size_of
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.primitives import prod, sum as sum_over
from tapegrad.ops.shape.diagonal import band_part, matrix_diag_part


class LinearOperatorFullMatrix(LinearOperator):
    """The operator of a matrix `[..., m, n]`.

    >>> LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]]).matvec([1.0, 1.0]).tolist()
    [3.0, 7.0]
    """

    def __init__(
        self,
        matrix: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        self._matrix = parameter(matrix, "matrix", 2)
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(self._matrix.dtype, None, *hints, name=name)

    @property
    def matrix(self) -> Any:
        return self._matrix

    def _shape(self) -> Any:
        return self._matrix.shape

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return matmul(self._matrix, x, adjoint_a=adjoint)

    def _to_dense(self) -> Any:
        return +self._matrix


@makes("triangle")
class LinearOperatorLowerTriangular(LinearOperator):
    """The operator of the lower triangle of a matrix; the other triangle is not read.

    >>> LinearOperatorLowerTriangular([[2.0, 9.0], [2.0, 4.0]]).solvevec([2.0, 6.0]).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        tril: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        require(is_square, "lower triangular operator", "square")
        self._tril = parameter(tril, "tril", 2)
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._tril.dtype, None, *hints, name=name)

    @property
    def tril(self) -> Any:
        return self._tril

    def _shape(self) -> Any:
        return self._tril.shape

    def _to_dense(self) -> Any:
        return band_part(self._tril, -1, 0)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return matmul(self._to_dense(), x, adjoint_a=adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return triangular_solve(self._tril, rhs, adjoint=adjoint)

    def _diag_part(self) -> Any:
        return matrix_diag_part(self._tril)

    def _determinant(self) -> Any:
        return prod(self._diag_part(), axis=-1)

    def _log_abs_determinant(self) -> Any:
        return sum_over(log(size_of(self._diag_part())), axis=-1)

    def _eigvals(self) -> Any:
        return self._diag_part()
