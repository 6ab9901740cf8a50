"""Operators that are made of others: adjoint, inverse and product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.linear_operators.arguments import batch_of
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.hints import all_of, known
from tapegrad.linear_operators.registry import makes
from tapegrad.ops.linalg.common import adjoint_of
from tapegrad.ops.products.primitives import conjugate


def check_operators(operators: Any, name: str) -> list[LinearOperator]:
    """Return a list of operators of one dtype."""
    if not isinstance(operators, list | tuple) or not operators:
        raise ArgumentError(f"{name} needs a list of at least one operator.")
    for operator in operators:
        check_operator(operator, name)
    dtypes = {operator.dtype for operator in operators}
    if len(dtypes) > 1:
        raise DTypeError(
            f"{name} needs operators of one dtype. Got {', '.join(sorted(map(str, dtypes)))}."
        )
    return [*operators]


def check_operator(operator: Any, name: str) -> LinearOperator:
    """Return an operator, or raise an error for any other value."""
    if not isinstance(operator, LinearOperator):
        raise ArgumentError(f"{name} needs a LinearOperator. Got {type(operator).__name__}.")
    return operator


def joined_name(operators: Sequence[LinearOperator], between: str) -> str:
    return between.join(operator.name for operator in operators)


@makes("adjoint")
class LinearOperatorAdjoint(LinearOperator):
    """The conjugate transpose of an operator.

    >>> from tapegrad.linalg import LinearOperatorFullMatrix
    >>> LinearOperatorAdjoint(LinearOperatorFullMatrix([[1.0, 2.0]])).to_dense().tolist()
    [[1.0], [2.0]]
    """

    def __init__(
        self,
        operator: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        inner = self._operator = check_operator(operator, "LinearOperatorAdjoint")
        super().__init__(
            inner.dtype,
            None,
            known(is_non_singular, inner.is_non_singular),
            known(is_self_adjoint, inner.is_self_adjoint),
            known(is_positive_definite, inner.is_positive_definite),
            known(is_square, inner.is_square),
            name=name or f"{inner.name}_adjoint",
        )

    @property
    def operator(self) -> LinearOperator:
        return self._operator

    def _adjoint(self) -> LinearOperator:
        return self._operator

    def _shape(self) -> Any:
        *lead, rows, columns = self._operator.shape
        return (*lead, columns, rows)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(x, adjoint=not adjoint)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self._operator.matvec(x, adjoint=not adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(rhs, adjoint=not adjoint)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._operator.solvevec(rhs, adjoint=not adjoint)

    def _to_dense(self) -> Any:
        return adjoint_of(self._operator.to_dense())

    def _diag_part(self) -> Any:
        return conjugate(self._operator.diag_part())

    def _determinant(self) -> Any:
        return conjugate(self._operator.determinant())

    def _log_abs_determinant(self) -> Any:
        return self._operator.log_abs_determinant()

    def _cond(self) -> Any:
        return self._operator.cond()


@makes("inversion")
class LinearOperatorInversion(LinearOperator):
    """The inverse of an operator: its products are solutions.

    >>> from tapegrad.linalg import LinearOperatorFullMatrix
    >>> LinearOperatorInversion(LinearOperatorFullMatrix([[2.0]])).matvec([1.0]).tolist()
    [0.5]
    """

    def __init__(
        self,
        operator: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        inner = self._operator = check_operator(operator, "LinearOperatorInversion")
        if is_non_singular is False or inner.is_non_singular is False:
            raise ArgumentError("Only a non-singular operator has an inverse.")
        if is_square is False or inner.is_square is False:
            raise ArgumentError("Only a square operator has an inverse.")
        super().__init__(
            inner.dtype,
            None,
            True,
            known(is_self_adjoint, inner.is_self_adjoint),
            known(is_positive_definite, inner.is_positive_definite),
            True,
            name=name or f"{inner.name}_inv",
        )

    @property
    def operator(self) -> LinearOperator:
        return self._operator

    def _inverse(self) -> LinearOperator:
        return self._operator

    def _shape(self) -> Any:
        return self._operator.shape

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.solve(x, adjoint=adjoint)

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        return self._operator.solvevec(x, adjoint=adjoint)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return self._operator.matmul(rhs, adjoint=adjoint)

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        return self._operator.matvec(rhs, adjoint=adjoint)

    def _determinant(self) -> Any:
        return 1.0 / self._operator.determinant()

    def _log_abs_determinant(self) -> Any:
        return -self._operator.log_abs_determinant()

    def _eigvals(self) -> Any:
        return 1.0 / self._operator.eigvals()

    def _cond(self) -> Any:
        return self._operator.cond()


@makes("composition")
class LinearOperatorComposition(LinearOperator):
    """The product of operators, applied from right to left.

    >>> from tapegrad.linalg import LinearOperatorDiag, LinearOperatorFullMatrix
    >>> swap = LinearOperatorFullMatrix([[0.0, 1.0], [1.0, 0.0]])
    >>> operator = LinearOperatorComposition([LinearOperatorDiag([1.0, 2.0]), swap])
    >>> operator.matvec([3.0, 4.0]).tolist()
    [4.0, 6.0]
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
        self._operators = check_operators(operators, "LinearOperatorComposition")
        for left, right in zip(self._operators, self._operators[1:]):
            if left.domain_dimension != right.range_dimension:
                raise ShapeError(
                    f"Operators of shapes {tuple(left.shape)} and {tuple(right.shape)} cannot be "
                    "multiplied."
                )
        if is_non_singular is None and all(one.is_square for one in self._operators):
            is_non_singular = all_of(one.is_non_singular for one in self._operators)
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, is_square)
        name = name or joined_name(self._operators, "_o_")
        super().__init__(self._operators[0].dtype, None, *hints, name=name)

    @property
    def operators(self) -> list[LinearOperator]:
        return self._operators

    def _shape(self) -> Any:
        batch = batch_of(*(operator.batch_shape for operator in self._operators))
        first, last = self._operators[0], self._operators[-1]
        return (*batch, first.range_dimension, last.domain_dimension)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        for operator in self._operators if adjoint else reversed(self._operators):
            x = operator.matmul(x, adjoint=adjoint)
        return x

    def _matvec(self, x: Any, adjoint: bool = False) -> Any:
        for operator in self._operators if adjoint else reversed(self._operators):
            x = operator.matvec(x, adjoint=adjoint)
        return x

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        if not self._has_square_factors():
            return super()._solve(rhs, adjoint)
        for operator in reversed(self._operators) if adjoint else self._operators:
            rhs = operator.solve(rhs, adjoint=adjoint)
        return rhs

    def _solvevec(self, rhs: Any, adjoint: bool = False) -> Any:
        if not self._has_square_factors():
            return super()._solvevec(rhs, adjoint)
        for operator in reversed(self._operators) if adjoint else self._operators:
            rhs = operator.solvevec(rhs, adjoint=adjoint)
        return rhs

    def _has_square_factors(self) -> bool:
        return all(operator.is_square for operator in self._operators)

    def _determinant(self) -> Any:
        if not self._has_square_factors():
            return super()._determinant()
        found = self._operators[0].determinant()
        for operator in self._operators[1:]:
            found = found * operator.determinant()
        return found

    def _log_abs_determinant(self) -> Any:
        if not self._has_square_factors():
            return super()._log_abs_determinant()
        found = self._operators[0].log_abs_determinant()
        for operator in self._operators[1:]:
            found = found + operator.log_abs_determinant()
        return found

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorComposition(
            [operator.adjoint() for operator in reversed(self._operators)],
            self.is_non_singular,
            self.is_self_adjoint,
            self.is_positive_definite,
        )

    def _inverse(self) -> LinearOperator:
        if not self._has_square_factors():
            return super()._inverse()
        return LinearOperatorComposition(
            [operator.inverse() for operator in reversed(self._operators)],
            True,
            self.is_self_adjoint,
            self.is_positive_definite,
        )
