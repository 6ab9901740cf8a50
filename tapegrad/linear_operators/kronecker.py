"""The Kronecker product of operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.linear_operators.arguments import batch_of
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.composed import check_operators, joined_name
from tapegrad.linear_operators.hints import of_all_parts
from tapegrad.ops.linalg.common import as_column, as_row
from tapegrad.ops.shape.functions import broadcast_to, moveaxis
from tapegrad.ops.shape.primitives import reshape_p


class LinearOperatorKronecker(LinearOperator):
    """The Kronecker product of operators, which computes with one factor at a time.

    >>> from tapegrad.linalg import LinearOperatorDiag
    >>> left, right = LinearOperatorDiag([1.0, 2.0]), LinearOperatorDiag([3.0])
    >>> LinearOperatorKronecker([left, right]).diag_part().tolist()
    [3.0, 6.0]
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        factors = self._operators = check_operators(operators, "LinearOperatorKronecker")
        hints = of_all_parts(factors, is_non_singular, is_self_adjoint, is_positive_definite)
        name = name or joined_name(factors, "_x_")
        super().__init__(factors[0].dtype, None, *hints, is_square, name=name)

    @property
    def operators(self) -> list[LinearOperator]:
        return self._operators

    def _shape(self) -> Any:
        batch = batch_of(*(operator.batch_shape for operator in self._operators))
        rows = math.prod(operator.range_dimension for operator in self._operators)
        return (*batch, rows, math.prod(one.domain_dimension for one in self._operators))

    def _apply(self, x: Any, lengths: list[int], step: Callable[[LinearOperator, Any], Any]) -> Any:
        """Apply each factor along its axis of x, whose rows are indexed by one axis per factor."""
        columns = x.shape[-1]
        batch = batch_of(tuple(x.shape[:-2]), self.batch_shape)
        x = broadcast_to(x, (*batch, *x.shape[-2:]))
        x = reshape_p(x, shape=(*batch, *lengths, columns))
        for i, operator in enumerate(self._operators):
            first = moveaxis(x, len(batch) + i, len(batch))
            rest = tuple(first.shape[len(batch) + 1 :])
            flat = reshape_p(first, shape=(*batch, first.shape[len(batch)], math.prod(rest)))
            found = step(operator, flat)
            found = reshape_p(found, shape=(*batch, found.shape[-2], *rest))
            x = moveaxis(found, len(batch), len(batch) + i)
        rows = math.prod(x.shape[len(batch) : -1])
        return reshape_p(x, shape=(*batch, rows, columns))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        axis = -2 if adjoint else -1
        lengths = [operator.shape[axis] for operator in self._operators]
        return self._apply(x, lengths, lambda one, part: one.matmul(part, adjoint=adjoint))

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        if not self._has_square_factors():
            return super()._solve(rhs, adjoint)
        lengths = [operator.range_dimension for operator in self._operators]
        return self._apply(rhs, lengths, lambda one, part: one.solve(part, adjoint=adjoint))

    def _has_square_factors(self) -> bool:
        return all(operator.is_square for operator in self._operators)

    def _to_dense(self) -> Any:
        whole = self._operators[0].to_dense()
        for operator in self._operators[1:]:
            part = operator.to_dense()
            (*lead, m, n), (*own_lead, p, q) = whole.shape, part.shape
            wide = reshape_p(whole, shape=(*lead, m, 1, n, 1))
            both = wide * reshape_p(part, shape=(*own_lead, 1, p, 1, q))
            rows, columns = (math.prod(both.shape[-4:-2]), math.prod(both.shape[-2:]))
            whole = reshape_p(both, shape=(*both.shape[:-4], rows, columns))
        return whole

    def _diag_part(self) -> Any:
        if not self._has_square_factors():
            return super()._diag_part()
        return self._products([operator.diag_part() for operator in self._operators])

    def _eigvals(self) -> Any:
        if not all(operator.is_self_adjoint for operator in self._operators):
            return super()._eigvals()
        return self._products([operator.eigvals() for operator in self._operators])

    def _products(self, vectors: list[Any]) -> Any:
        """Return the products of one entry of each vector."""
        found = vectors[0]
        for vector in vectors[1:]:
            table = as_column(found) * as_row(vector)
            found = reshape_p(table, shape=(*table.shape[:-2], math.prod(table.shape[-2:])))
        return found

    def _trace(self) -> Any:
        if not self._has_square_factors():
            return super()._trace()
        found = self._operators[0].trace()
        for operator in self._operators[1:]:
            found = found * operator.trace()
        return found

    def _determinant(self) -> Any:
        if not self._has_square_factors():
            return super()._determinant()
        found = None
        for operator in self._operators:
            part = operator.determinant() ** self._copies(operator)
            found = part if found is None else found * part
        return found

    def _log_abs_determinant(self) -> Any:
        if not self._has_square_factors():
            return super()._log_abs_determinant()
        found = None
        for operator in self._operators:
            part = operator.log_abs_determinant() * float(self._copies(operator))
            found = part if found is None else found + part
        return found

    def _copies(self, operator: LinearOperator) -> int:
        """Return how often a factor stands in a block diagonal form of the product."""
        return self.domain_dimension // max(operator.domain_dimension, 1)

    def _each(self, function: Callable[[LinearOperator], LinearOperator], *hints: Any) -> Any:
        return LinearOperatorKronecker([function(one) for one in self._operators], *hints)

    def _adjoint(self) -> LinearOperator:
        hints = (self.is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return self._each(lambda one: one.adjoint(), *hints)  # type: ignore[no-any-return]

    def _inverse(self) -> LinearOperator:
        if not self._has_square_factors():
            return super()._inverse()
        hints = (True, self.is_self_adjoint, self.is_positive_definite)
        return self._each(lambda one: one.inverse(), *hints)  # type: ignore[no-any-return]

    def _cholesky(self) -> LinearOperator:
        if not all(one.is_self_adjoint and one.is_positive_definite for one in self._operators):
            return super()._cholesky()
        return self._each(lambda one: one.cholesky(), True)  # type: ignore[no-any-return]
