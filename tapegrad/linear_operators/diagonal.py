"""The operator of a diagonal matrix."""

from __future__ import annotations

from typing import Any

from tapegrad.linear_operators.arguments import batch_of, parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.hints import all_of
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.magnitude import abs as size_of
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.linalg.common import as_column
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.reduction.primitives import prod, sum as sum_over
from tapegrad.ops.shape.diagonal import matrix_diag, matrix_diag_part, set_diag
from tapegrad.ops.shape.functions import broadcast_to


class LinearOperatorDiag(LinearOperator):
    """The operator of a diagonal `[..., n]`.

    >>> LinearOperatorDiag([2.0, 4.0]).solvevec([2.0, 2.0]).tolist()
    [1.0, 0.5]
    """

    def __init__(
        self,
        diag: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        require(is_square, "diagonal operator", "square")
        self._diag = parameter(diag, "diag", 1)
        if self._diag.dtype.kind != "c":
            require(is_self_adjoint, "real diagonal operator", "self-adjoint")
            is_self_adjoint = True
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._diag.dtype, None, *hints, name=name)

    @property
    def diag(self) -> Any:
        return self._diag

    def _shape(self) -> Any:
        shape = tuple(self._diag.shape)
        return (*shape, shape[-1])

    def _entries(self, adjoint: bool) -> Any:
        diag = +self._diag  # the value of a variable
        return conjugate(diag) if adjoint else diag

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return as_column(self._entries(adjoint)) * x

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self._entries(adjoint) * x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return rhs / as_column(self._entries(adjoint))

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return rhs / self._entries(adjoint)

    def _to_dense(self) -> Any:
        return matrix_diag(self._diag)

    def _diag_part(self) -> Any:
        return +self._diag

    def _add_to_tensor(self, x: Any) -> Any:
        batch = batch_of(tuple(x.shape[:-2]), self.batch_shape)
        whole = broadcast_to(x, (*batch, *x.shape[-2:]))
        return set_diag(whole, matrix_diag_part(whole) + self._diag)

    def _determinant(self) -> Any:
        return prod(self._diag, axis=-1)

    def _log_abs_determinant(self) -> Any:
        return sum_over(log(size_of(self._diag)), axis=-1)

    def _eigvals(self) -> Any:
        return +self._diag

    def _adjoint(self) -> LinearOperator:
        return self._with(self._entries(adjoint=True))

    def _inverse(self) -> LinearOperator:
        return self._with(1.0 / self._entries(adjoint=False))

    def _cholesky(self) -> LinearOperator:
        return self._with(sqrt(self._diag))

    def _with(self, diag: Any) -> LinearOperator:
        """Return the operator of another diagonal with the same properties."""
        hints = (self.is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return LinearOperatorDiag(diag, *hints)

    def _compose(self, other: LinearOperator) -> LinearOperator | None:
        if not isinstance(other, LinearOperatorDiag):
            return None
        both = (self, other)
        return LinearOperatorDiag(
            self._entries(adjoint=False) * other.diag,
            all_of(operator.is_non_singular for operator in both),
            None if self.is_self_adjoint is None else self.is_self_adjoint,
        )
