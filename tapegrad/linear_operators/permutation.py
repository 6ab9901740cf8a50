"""Permutations of rows."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import DTypeError
from tapegrad.linear_operators.arguments import batch_of, parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.ops.creation import ones, zeros
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.primitives import reshape_p


class LinearOperatorPermutation(LinearOperator):
    """The matrix that reorders rows: row i of the result is row `perm[i]` of the argument.

    >>> LinearOperatorPermutation([1, 2, 0]).matvec([5.0, 6.0, 7.0]).tolist()
    [6.0, 7.0, 5.0]
    """

    def __init__(
        self,
        perm: Any,
        dtype: Any = "float32",
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorPermutation",
    ) -> None:
        require(is_square, "permutation", "square")
        require(is_non_singular, "permutation", "non-singular")
        self._perm = parameter(perm, "perm", 1, kinds="iu")
        if not as_dtype(dtype).is_differentiable:
            raise DTypeError(f"Operators have floating-point or complex dtypes. Got {dtype}.")
        super().__init__(dtype, None, True, is_self_adjoint, is_positive_definite, True, name=name)

    @property
    def perm(self) -> Any:
        return self._perm

    def _shape(self) -> Any:
        shape = tuple(self._perm.shape)
        return (*shape, shape[-1])

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        order = argsort(self._perm, axis=-1) if adjoint else +self._perm
        batch = batch_of(tuple(x.shape[:-2]), self.batch_shape)
        shape = (*batch, *x.shape[-2:])
        order = reshape_p(order, shape=(*order.shape, 1))
        return take_along_axis(broadcast_to(x, shape), broadcast_to(order, shape), axis=-2)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs, adjoint=not adjoint)

    def _log_abs_determinant(self) -> Any:
        return zeros(self.batch_shape, dtype=self.dtype)

    def _cond(self) -> Any:
        return ones(self.batch_shape, dtype=self.dtype.real_dtype)

    def _adjoint(self) -> LinearOperator:
        hints = (True, self.is_self_adjoint, self.is_positive_definite)
        return LinearOperatorPermutation(argsort(self._perm, axis=-1), self.dtype, *hints)

    def _inverse(self) -> LinearOperator:
        return self.adjoint()
