"""Operators that need no matrix: identities, multiples of them, and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.linear_operators.arguments import batch_of, parameter, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.diagonal import LinearOperatorDiag
from tapegrad.ops.creation import as_shape, eye, ones, zeros
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.magnitude import abs as size_of
from tapegrad.ops.elementwise.powers import power, sqrt
from tapegrad.ops.linalg.common import as_cell, as_column
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.shape.diagonal import matrix_diag_part, set_diag
from tapegrad.ops.shape.functions import broadcast_to


def _size(value: Any, name: str) -> int:
    count = check_whole(name, value, "LinearOperator")
    if count < 0:
        raise ArgumentError(f"{name} must not be negative. Got {count}.")
    return count


def _batch(batch_shape: Any) -> tuple[int, ...]:
    return () if batch_shape is None else as_shape(batch_shape, "batch_shape")


def _float_dtype(dtype: Any) -> Any:
    found = as_dtype("float32" if dtype is None else dtype)
    if not found.is_differentiable:
        raise DTypeError(f"Operators have floating-point or complex dtypes. Got {found}.")
    return found


class _Multiple(LinearOperator):
    """A multiple of the identity; `_factors(adjoint)` has the shape of the batch."""

    _num_rows: int

    def _factors(self, adjoint: bool = False) -> Any:
        raise NotImplementedError

    def _batch(self) -> tuple[int, ...]:
        raise NotImplementedError

    def _shape(self) -> Any:
        return (*self._batch(), self._num_rows, self._num_rows)

    def _diag_part(self) -> Any:
        return broadcast_to(as_column(self._factors()), (*self._batch(), self._num_rows))

    def _trace(self) -> Any:
        return self._factors() * float(self._num_rows)

    def _eigvals(self) -> Any:
        return self._diag_part()

    def _cond(self) -> Any:
        return ones(self._batch(), dtype=self.dtype.real_dtype)

    def _add_to_tensor(self, x: Any) -> Any:
        batch = batch_of(tuple(x.shape[:-2]), self._batch())
        whole = broadcast_to(x, (*batch, *x.shape[-2:]))
        return set_diag(whole, matrix_diag_part(whole) + as_column(self._factors()))


class LinearOperatorIdentity(_Multiple):
    """The identity of `num_rows` rows.

    >>> LinearOperatorIdentity(2).matvec([3.0, 4.0]).tolist()
    [3.0, 4.0]
    """

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        require(is_self_adjoint, "identity", "self-adjoint")
        require(is_non_singular, "identity", "non-singular")
        require(is_positive_definite, "identity", "positive definite")
        require(is_square, "identity", "square")
        self._num_rows = _size(num_rows, "num_rows")
        self._lead = _batch(batch_shape)
        super().__init__(_float_dtype(dtype), None, True, True, True, True, name=name)

    def _batch(self) -> tuple[int, ...]:
        return self._lead

    def _factors(self, adjoint: bool = False) -> Any:
        return ones(self._lead, dtype=self.dtype)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        batch = batch_of(tuple(x.shape[:-2]), self._lead)
        return broadcast_to(x, (*batch, *x.shape[-2:]))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._matmul(rhs)

    def _to_dense(self) -> Any:
        return eye(self._num_rows, batch_shape=[*self._lead], dtype=self.dtype)

    def _determinant(self) -> Any:
        return ones(self._lead, dtype=self.dtype)

    def _log_abs_determinant(self) -> Any:
        return zeros(self._lead, dtype=self.dtype)

    def _inverse(self) -> LinearOperator:
        return self

    def _cholesky(self) -> LinearOperator:
        return self

    def _compose(self, other: LinearOperator) -> LinearOperator | None:
        return None if self._lead else other

    def _compose_from_left(self, other: LinearOperator) -> LinearOperator | None:
        return None if self._lead else other


class LinearOperatorScaledIdentity(_Multiple):
    """The identity of `num_rows` rows times a number, or one number for each of a batch.

    >>> LinearOperatorScaledIdentity(2, 3.0).matvec([3.0, 4.0]).tolist()
    [9.0, 12.0]
    """

    def __init__(
        self,
        num_rows: Any,
        multiplier: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        require(is_square, "scaled identity", "square")
        self._num_rows = _size(num_rows, "num_rows")
        self._multiplier = parameter(multiplier, "multiplier", 0)
        if self._multiplier.dtype.kind != "c":
            require(is_self_adjoint, "real scaled identity", "self-adjoint")
            is_self_adjoint = True
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._multiplier.dtype, None, *hints, name=name)

    @property
    def multiplier(self) -> Any:
        return self._multiplier

    def _batch(self) -> tuple[int, ...]:
        return tuple(self._multiplier.shape)

    def _factors(self, adjoint: bool = False) -> Any:
        factors = +self._multiplier
        return conjugate(factors) if adjoint else factors

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return as_cell(self._factors(adjoint)) * x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return rhs / as_cell(self._factors(adjoint))

    def _to_dense(self) -> Any:
        return as_cell(self._factors()) * eye(self._num_rows, dtype=self.dtype)

    def _determinant(self) -> Any:
        return power(self._factors(), self._num_rows)

    def _log_abs_determinant(self) -> Any:
        return log(size_of(self._multiplier)) * float(self._num_rows)

    def _adjoint(self) -> LinearOperator:
        return self._with(self._factors(adjoint=True))

    def _inverse(self) -> LinearOperator:
        return self._with(1.0 / self._factors())

    def _cholesky(self) -> LinearOperator:
        return self._with(sqrt(self._multiplier))

    def _with(self, multiplier: Any) -> LinearOperator:
        hints = (self.is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return LinearOperatorScaledIdentity(self._num_rows, multiplier, *hints)

    def _compose(self, other: LinearOperator) -> LinearOperator | None:
        if isinstance(other, LinearOperatorDiag):
            return LinearOperatorDiag(as_column(self._factors()) * other.diag)
        if isinstance(other, LinearOperatorScaledIdentity):
            return LinearOperatorScaledIdentity(self._num_rows, self._factors() * other.multiplier)
        return None


class LinearOperatorZeros(LinearOperator):
    """The operator that maps everything to 0.

    >>> LinearOperatorZeros(2).matvec([3.0, 4.0]).tolist()
    [0.0, 0.0]
    """

    def __init__(
        self,
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = False,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = False,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        if is_non_singular or is_positive_definite:
            raise ArgumentError("An operator of zeros is always singular.")
        rows = _size(num_rows, "num_rows")
        columns = rows if num_columns is None else _size(num_columns, "num_columns")
        if is_square and rows != columns:
            raise ArgumentError(f"{rows} x {columns} zeros are not square. Pass is_square=False.")
        self._sizes = (*_batch(batch_shape), rows, columns)
        hints = (is_non_singular, is_self_adjoint and rows == columns, is_positive_definite)
        super().__init__(_float_dtype(dtype), None, *hints, is_square, name=name)

    def _shape(self) -> Any:
        return self._sizes

    def _zeros(self, *shape: int) -> Any:
        return zeros(shape, dtype=self.dtype)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        batch = batch_of(tuple(x.shape[:-2]), self._sizes[:-2])
        return self._zeros(*batch, self._sizes[-1 if adjoint else -2], x.shape[-1])

    def _to_dense(self) -> Any:
        return self._zeros(*self._sizes)

    def _diag_part(self) -> Any:
        return self._zeros(*self._sizes[:-2], min(self._sizes[-2:]))

    def _trace(self) -> Any:
        return self._zeros(*self._sizes[:-2])

    def _determinant(self) -> Any:
        return self._zeros(*self._sizes[:-2])

    def _log_abs_determinant(self) -> Any:
        return self._zeros(*self._sizes[:-2]) + -np.inf

    def _eigvals(self) -> Any:
        return self._diag_part()

    def _add_to_tensor(self, x: Any) -> Any:
        batch = batch_of(tuple(x.shape[:-2]), self._sizes[:-2])
        return broadcast_to(x, (*batch, *x.shape[-2:]))
