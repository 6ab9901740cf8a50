"""The block diagonal operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.linear_operators.arguments import batch_of
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.blocks import BlockOperator, join
from tapegrad.linear_operators.composed import check_operators, joined_name
from tapegrad.linear_operators.hints import of_all_parts


class LinearOperatorBlockDiag(BlockOperator):
    """Operators on the diagonal of a matrix, with zeros elsewhere.

    >>> from tapegrad.linalg import LinearOperatorDiag
    >>> operator = LinearOperatorBlockDiag([LinearOperatorDiag([1.0]), LinearOperatorDiag([2.0])])
    >>> operator.to_dense().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        blocks = self._operators = check_operators(operators, "LinearOperatorBlockDiag")
        hints = of_all_parts(blocks, is_non_singular, is_self_adjoint, is_positive_definite)
        name = name or joined_name(blocks, "_ds_")
        super().__init__(blocks[0].dtype, None, *hints, is_square, name=name)

    @property
    def operators(self) -> list[LinearOperator]:
        return self._operators

    def _block_sizes(self, axis: int) -> list[int]:
        return [operator.shape[axis] for operator in self._operators]

    def _shape(self) -> Any:
        batch = batch_of(*(operator.batch_shape for operator in self._operators))
        return (*batch, sum(self._block_sizes(-2)), sum(self._block_sizes(-1)))

    def _multiply(self, parts: list[Any], adjoint: bool) -> list[Any]:
        pairs = zip(self._operators, parts, strict=True)
        return [operator.matmul(part, adjoint=adjoint) for operator, part in pairs]

    def _divide(self, parts: list[Any], adjoint: bool) -> list[Any]:
        pairs = zip(self._operators, parts, strict=True)
        return [operator.solve(part, adjoint=adjoint) for operator, part in pairs]

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        if not self._has_square_blocks():
            return LinearOperator._solve(self, rhs, adjoint)
        return super()._solve(rhs, adjoint)

    def _has_square_blocks(self) -> bool:
        return all(operator.is_square for operator in self._operators)

    def _to_dense(self) -> Any:
        count = len(self._operators)
        return self._blocks_to_dense(
            [[self._operators[i] if i == j else None for j in range(count)] for i in range(count)]
        )

    def _diag_part(self) -> Any:
        if not self._has_square_blocks():
            return super()._diag_part()
        return join([operator.diag_part() for operator in self._operators], -1)

    def _eigvals(self) -> Any:
        if not all(operator.is_self_adjoint for operator in self._operators):
            return super()._eigvals()
        return join([operator.eigvals() for operator in self._operators], -1)

    def _trace(self) -> Any:
        if not self._has_square_blocks():
            return super()._trace()
        return _total([operator.trace() for operator in self._operators])

    def _determinant(self) -> Any:
        if not self._has_square_blocks():
            return super()._determinant()
        found = self._operators[0].determinant()
        for operator in self._operators[1:]:
            found = found * operator.determinant()
        return found

    def _log_abs_determinant(self) -> Any:
        if not self._has_square_blocks():
            return super()._log_abs_determinant()
        return _total([operator.log_abs_determinant() for operator in self._operators])

    def _each(self, function: Callable[[LinearOperator], LinearOperator], *hints: Any) -> Any:
        return LinearOperatorBlockDiag([function(one) for one in self._operators], *hints)

    def _adjoint(self) -> LinearOperator:
        hints = (self.is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return self._each(lambda one: one.adjoint(), *hints, self.is_square)  # type: ignore[no-any-return]

    def _inverse(self) -> LinearOperator:
        if not self._has_square_blocks():
            return super()._inverse()
        hints = (True, self.is_self_adjoint, self.is_positive_definite)
        return self._each(lambda one: one.inverse(), *hints)  # type: ignore[no-any-return]

    def _cholesky(self) -> LinearOperator:
        if not all(one.is_self_adjoint and one.is_positive_definite for one in self._operators):
            return super()._cholesky()
        return self._each(lambda one: one.cholesky(), True)  # type: ignore[no-any-return]


def _total(parts: list[Any]) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = found + part
    return found
