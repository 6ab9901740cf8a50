"""Tridiagonal matrices."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.linear_operators.arguments import require
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.ops.linalg.tridiagonal import bands_of
from tapegrad.ops.linalg.tridiagonal_systems import (
    adjoint_bands,
    band,
    bands_product,
    tridiagonal_solve_p,
)
from tapegrad.ops.shape.diagonal import matrix_diag


class LinearOperatorTridiag(LinearOperator):
    """The operator of three diagonals, in one of the formats of `tridiagonal_solve`.

    >>> operator = LinearOperatorTridiag([[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
    >>> operator.solvevec([4.0, 2.0]).tolist()
    [1.5, 1.0]
    """

    def __init__(
        self,
        diagonals: Any,
        diagonals_format: str = "compact",
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorTridiag",
    ) -> None:
        require(is_square, "tridiagonal operator", "square")
        self._diagonals, self._format = diagonals, diagonals_format
        bands = bands_of(diagonals, diagonals_format, "LinearOperatorTridiag")
        parts = diagonals if diagonals_format == "sequence" else [diagonals]
        has_variables = any(isinstance(part, Variable) for part in parts)
        self._constant_bands = None if has_variables else bands
        self._sizes = (*bands.shape[:-2], bands.shape[-1], bands.shape[-1])
        hints = (is_non_singular, is_self_adjoint, is_positive_definite, True)
        super().__init__(bands.dtype, None, *hints, name=name)

    @property
    def diagonals(self) -> Any:
        return self._diagonals

    @property
    def diagonals_format(self) -> str:
        return self._format

    def _bands(self, adjoint: bool = False) -> Any:
        bands = self._constant_bands
        if bands is None:
            bands = bands_of(self._diagonals, self._format, "LinearOperatorTridiag")
        return adjoint_bands(bands) if adjoint else bands

    def _shape(self) -> Any:
        return self._sizes

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return bands_product(self._bands(adjoint), x)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return tridiagonal_solve_p(self._bands(), rhs, adjoint=adjoint, perturb=False)

    def _diag_part(self) -> Any:
        return band(self._bands(), 1)

    def _to_dense(self) -> Any:
        bands = self._bands()
        if bands.shape[-1] == 1:
            return bands[..., 1:2, :]
        return matrix_diag(bands, k=(-1, 1), align="LEFT_RIGHT")

    def _adjoint(self) -> LinearOperator:
        hints = (self.is_non_singular, self.is_self_adjoint, self.is_positive_definite)
        return LinearOperatorTridiag(self._bands(adjoint=True), "compact", *hints)
