"""Reflections."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.linear_operators.arguments import parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.ops.creation import ones, zeros
from tapegrad.ops.linalg.common import adjoint_of, as_column
from tapegrad.ops.linalg.norms import norm
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.shape.joining import concat


class LinearOperatorHouseholder(LinearOperator):
    """The reflection I - 2 v v^H, with v the reflection axis at length 1.

    >>> LinearOperatorHouseholder([0.0, 3.0]).matvec([1.0, 2.0]).tolist()
    [1.0, -2.0]
    """

    def __init__(
        self,
        reflection_axis: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        require(is_square, "reflection", "square")
        require(is_self_adjoint, "reflection", "self-adjoint")
        require(is_non_singular, "reflection", "non-singular")
        if is_positive_definite:
            raise ArgumentError("A reflection is never positive definite. Leave the hint out.")
        self._axis = parameter(reflection_axis, "reflection_axis", 1)
        super().__init__(self._axis.dtype, None, True, True, False, True, name=name)

    @property
    def reflection_axis(self) -> Any:
        return self._axis

    def _unit(self) -> Any:
        return self._axis / norm(self._axis, axis=-1, keepdims=True)

    def _shape(self) -> Any:
        shape = tuple(self._axis.shape)
        return (*shape, shape[-1])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        column = as_column(self._unit())
        return x - 2.0 * matmul(column, matmul(adjoint_of(column), x))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs)

    def _inverse(self) -> LinearOperator:
        return self

    def _diag_part(self) -> Any:
        unit = self._unit()
        return 1.0 - 2.0 * unit * conjugate(unit)

    def _trace(self) -> Any:
        return zeros(self.batch_shape, dtype=self.dtype) + float(self._axis.shape[-1] - 2)

    def _determinant(self) -> Any:
        return -ones(self.batch_shape, dtype=self.dtype)

    def _log_abs_determinant(self) -> Any:
        return zeros(self.batch_shape, dtype=self.dtype)

    def _eigvals(self) -> Any:
        count = self._axis.shape[-1] - 1
        first = -ones((*self.batch_shape, 1), dtype=self.dtype)
        return concat([first, ones((*self.batch_shape, count), dtype=self.dtype)], -1)

    def _cond(self) -> Any:
        return ones(self.batch_shape, dtype=self.dtype.real_dtype)
