"""The block lower triangular operator."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.linear_operators.arguments import batch_of, require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.blocks import BlockOperator, join
from tapegrad.linear_operators.composed import check_operators
from tapegrad.linear_operators.hints import all_of


class LinearOperatorBlockLowerTriangular(BlockOperator):
    """Operators in the lower triangle of a table, with zeros above.

    >>> from tapegrad.linalg import LinearOperatorDiag, LinearOperatorFullMatrix
    >>> two, four = LinearOperatorDiag([2.0]), LinearOperatorDiag([4.0])
    >>> one = LinearOperatorFullMatrix([[1.0]])
    >>> LinearOperatorBlockLowerTriangular([[two], [one, four]]).solvevec([2.0, 5.0]).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        operators: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorBlockLowerTriangular",
    ) -> None:
        self._operators = _checked_rows(operators)
        require(is_square, "block lower triangular operator", "square")
        if is_non_singular is None:
            is_non_singular = all_of(one.is_non_singular for one in self._diagonal())
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(self._operators[0][0].dtype, None, *hints, name=name)

    @property
    def operators(self) -> list[list[LinearOperator]]:
        return self._operators

    def _diagonal(self) -> list[LinearOperator]:
        return [row[-1] for row in self._operators]

    def _block_sizes(self, axis: int) -> list[int]:
        return [operator.domain_dimension for operator in self._diagonal()]

    def _shape(self) -> Any:
        batch = batch_of(*(one.batch_shape for row in self._operators for one in row))
        size = sum(self._block_sizes(-1))
        return (*batch, size, size)

    def _multiply(self, parts: list[Any], adjoint: bool) -> list[Any]:
        found: list[Any] = [None] * len(parts)
        for i, row in enumerate(self._operators):
            for j, operator in enumerate(row):
                to, start = (j, i) if adjoint else (i, j)
                share = operator.matmul(parts[start], adjoint=adjoint)
                found[to] = share if found[to] is None else found[to] + share
        return found

    def _divide(self, parts: list[Any], adjoint: bool) -> list[Any]:
        """Substitute from the first block on, or from the last one for the adjoint."""
        count = len(parts)
        found: list[Any] = [None] * count
        for i in reversed(range(count)) if adjoint else range(count):
            rest = parts[i]
            for j in range(i + 1, count) if adjoint else range(i):
                operator = self._operators[j][i] if adjoint else self._operators[i][j]
                rest = rest - operator.matmul(found[j], adjoint=adjoint)
            found[i] = self._operators[i][i].solve(rest, adjoint=adjoint)
        return found

    def _to_dense(self) -> Any:
        count = len(self._operators)
        return self._blocks_to_dense(
            [[*row, *[None] * (count - len(row))] for row in self._operators]
        )

    def _diag_part(self) -> Any:
        return join([operator.diag_part() for operator in self._diagonal()], -1)

    def _trace(self) -> Any:
        first, *rest = (operator.trace() for operator in self._diagonal())
        for part in rest:
            first = first + part
        return first

    def _determinant(self) -> Any:
        first, *rest = (operator.determinant() for operator in self._diagonal())
        for part in rest:
            first = first * part
        return first

    def _log_abs_determinant(self) -> Any:
        first, *rest = (operator.log_abs_determinant() for operator in self._diagonal())
        for part in rest:
            first = first + part
        return first

    def _eigvals(self) -> Any:
        return join([operator.eigvals() for operator in self._diagonal()], -1)


def _checked_rows(operators: Any) -> list[list[LinearOperator]]:
    name = "LinearOperatorBlockLowerTriangular"
    if not isinstance(operators, list | tuple) or not operators:
        raise ArgumentError(f"{name} needs a list of lists of operators.")
    rows = [check_operators(row, name) for row in operators]
    check_operators([one for row in rows for one in row], name)
    sizes = [row[-1].domain_dimension for row in rows]
    for i, row in enumerate(rows):
        if len(row) != i + 1:
            raise ArgumentError(f"{name} needs {i + 1} operators in row {i}. Got {len(row)}.")
        for j, operator in enumerate(row):
            if (operator.range_dimension, operator.domain_dimension) != (sizes[i], sizes[j]):
                raise ShapeError(
                    f"{name} needs an operator of {sizes[i]} x {sizes[j]} in row {i} and column "
                    f"{j}. Got shape {tuple(operator.shape)}."
                )
    return rows
