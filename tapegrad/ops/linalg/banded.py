"""Triangular systems whose matrices are given by their diagonals."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.errors import ShapeError
from tapegrad.ops.casting.cast import as_float
from tapegrad.ops.linalg.solve import triangular_solve_p
from tapegrad.ops.shape.diagonal import matrix_diag


def banded_triangular_solve(
    bands: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Any:
    """Solve A @ x = rhs, or with `adjoint` A^H @ x = rhs, for banded triangular matrices A.

    The rows of `bands` are diagonals, from the uppermost to the lowest. Rows of a lower triangle
    begin with unused entries, and rows of an upper triangle end with them.

    >>> banded_triangular_solve([[2.0, 4.0], [0.0, 2.0]], [[2.0], [6.0]]).tolist()
    [[1.0], [1.0]]
    """
    bands, right = (as_float(x) for x in common_operands(bands, rhs))
    if len(bands.shape) < 2 or not 0 < bands.shape[-2] <= bands.shape[-1]:
        raise ShapeError(
            "banded_triangular_solve needs bands of shape [..., k, n] with k from 1 to n. "
            f"Got shape {tuple(bands.shape)}."
        )
    count, size = bands.shape[-2:]
    if len(right.shape) < 2 or right.shape[-2] != size:
        raise ShapeError(
            f"banded_triangular_solve needs a right-hand side with {size} rows. "
            f"Got shape {tuple(right.shape)}."
        )
    ends = (1 - count, 0) if lower else (0, count - 1)
    if count == 1:
        bands, ends = bands[..., 0, :], (0, 0)
    matrix = matrix_diag(bands, k=ends, align="LEFT_RIGHT")
    return triangular_solve_p(matrix, right, lower=bool(lower), adjoint=bool(adjoint))
