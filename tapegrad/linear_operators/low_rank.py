"""An operator plus a matrix of low rank."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import DTypeError, ShapeError
from tapegrad.linear_operators.arguments import batch_of, check_hints, parameter
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.composed import check_operator
from tapegrad.linear_operators.diagonal import LinearOperatorDiag
from tapegrad.linear_operators.identity import LinearOperatorIdentity
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.linalg.common import adjoint_of, as_row
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.linalg.determinants import det, slogdet
from tapegrad.ops.linalg.solve import cholesky_solve, solve
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.reduction.primitives import sum as sum_over
from tapegrad.ops.shape.diagonal import matrix_diag_part


class LinearOperatorLowRankUpdate(LinearOperator):
    """L + U D V^H, for an operator L, a diagonal D, and U and V with few columns.

    Solutions and determinants need those of L and of a matrix with as many rows as U has columns.

    >>> from tapegrad.linalg import LinearOperatorDiag
    >>> base = LinearOperatorDiag([1.0, 1.0])
    >>> LinearOperatorLowRankUpdate(base, [[1.0], [0.0]]).to_dense().tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        base_operator: Any,
        u: Any,
        diag_update: Any = None,
        v: Any = None,
        is_diag_update_positive: bool | None = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowRankUpdate",
    ) -> None:
        base = self._base = check_operator(base_operator, "LinearOperatorLowRankUpdate")
        check_hints(name, {"is_diag_update_positive": is_diag_update_positive})
        self._u = parameter(u, "u", 2)
        self._v = self._u if v is None else parameter(v, "v", 2)
        self._diag_update = (
            None if diag_update is None else parameter(diag_update, "diag_update", 1)
        )
        self._is_diag_update_positive = True if diag_update is None else is_diag_update_positive
        self._is_symmetric = v is None
        self._check()
        if is_self_adjoint is None and self._is_symmetric and base.is_self_adjoint:
            is_real = self._diag_update is None or self._diag_update.dtype.kind != "c"
            is_self_adjoint = True if is_real else None
        if is_positive_definite is None and self._is_symmetric and self._is_diag_update_positive:
            is_positive_definite = True if base.is_positive_definite else None
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        super().__init__(base.dtype, None, *hints, name=name)

    def _check(self) -> None:
        *_, rows, columns = self._base.shape
        rank = self._u.shape[-1]
        if self._u.shape[-2] != rows or tuple(self._v.shape[-2:]) != (columns, rank):
            raise ShapeError(
                f"An operator of {rows} x {columns} needs u with {rows} rows, and v with {columns} "
                f"rows and as many columns as u. Got shapes {tuple(self._u.shape)} and "
                f"{tuple(self._v.shape)}."
            )
        if self._diag_update is not None and self._diag_update.shape[-1] != rank:
            raise ShapeError(
                f"diag_update needs {rank} entries, one for each column of u. "
                f"Got shape {tuple(self._diag_update.shape)}."
            )
        given = (self._u, self._v, self._diag_update)
        for value in given:
            if value is not None and value.dtype != self._base.dtype:
                raise DTypeError(
                    f"The update of an operator of {self._base.dtype} needs the same dtype. "
                    f"Got {value.dtype}."
                )

    @property
    def base_operator(self) -> LinearOperator:
        return self._base

    @property
    def u(self) -> Any:
        return self._u

    @property
    def v(self) -> Any:
        return self._v

    @property
    def diag_update(self) -> Any:
        return self._diag_update

    @property
    def is_diag_update_positive(self) -> bool | None:
        return self._is_diag_update_positive

    @property
    def diag_operator(self) -> LinearOperator:
        if self._diag_update is None:
            return LinearOperatorIdentity(self._u.shape[-1], dtype=self.dtype)
        positive = self._is_diag_update_positive
        return LinearOperatorDiag(self._diag_update, is_positive_definite=positive)

    def _shape(self) -> Any:
        shapes = [self._base.batch_shape, self._u.shape[:-2], self._v.shape[:-2]]
        if self._diag_update is not None:
            shapes.append(self._diag_update.shape[:-1])
        return (*batch_of(*shapes), *self._base.shape[-2:])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        inner = self.diag_operator.matmul(matmul(right, x, adjoint_a=True), adjoint=adjoint)
        return self._base.matmul(x, adjoint=adjoint) + matmul(left, inner)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        """Apply the formula of Woodbury."""
        left, right = (self._v, self._u) if adjoint else (self._u, self._v)
        first = self._base.solve(rhs, adjoint=adjoint)
        small = matmul(right, first, adjoint_a=True)
        capacitance = self._capacitance()
        if self._has_cholesky():
            inner = cholesky_solve(cholesky(capacitance), small)
        else:
            inner = solve(capacitance, small, adjoint=adjoint)
        return first - self._base.solve(matmul(left, inner), adjoint=adjoint)

    def _capacitance(self) -> Any:
        """Return D^-1 + V^H L^-1 U."""
        inner = matmul(self._v, self._base.solve(+self._u), adjoint_a=True)
        return self.diag_operator.inverse().add_to_tensor(inner)

    def _has_cholesky(self) -> bool:
        is_positive = self._base.is_positive_definite and self._is_diag_update_positive
        return bool(is_positive and self._base.is_self_adjoint and self._is_symmetric)

    def _determinant(self) -> Any:
        parts = self._base.determinant() * self.diag_operator.determinant()
        return det(self._capacitance()) * parts

    def _log_abs_determinant(self) -> Any:
        parts = self._base.log_abs_determinant() + self.diag_operator.log_abs_determinant()
        if self._has_cholesky():
            factor = matrix_diag_part(cholesky(self._capacitance()))
            return 2.0 * sum_over(log(factor), axis=-1) + parts
        return slogdet(self._capacitance())[1] + parts

    def _diag_part(self) -> Any:
        scaled = self._scaled() * conjugate(+self._v)
        return self._base.diag_part() + sum_over(scaled, axis=-1)

    def _scaled(self) -> Any:
        return +self._u if self._diag_update is None else self._u * as_row(+self._diag_update)

    def _to_dense(self) -> Any:
        return self._base.to_dense() + matmul(self._scaled(), adjoint_of(+self._v))
