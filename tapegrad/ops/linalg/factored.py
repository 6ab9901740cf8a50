"""Linear systems with one matrix, which is factored once.

Only programs use these primitives: the pass in program/passes/shared_factors.py puts them in the
place of several calls of `solve`, after all derivatives have been taken. A backend chooses what the
factors are; without a kernel of its own they are the matrix itself.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.linalg.common import batches
from tapegrad.ops.linalg.solve import solve_p


def _factors(xp: Any, a: Any) -> tuple[Any, Any]:
    pivots = xp.zeros(a.shape[:-1], dtype=xp.int32, device=a.device)
    return xp.asarray(a, copy=True), pivots


def _solved(xp: Any, factors: Any, pivots: Any, b: Any, *, adjoint: bool) -> Any:
    assert solve_p.forward is not None
    return solve_p.forward(xp, factors, b, adjoint=adjoint)


factors_p: Primitive = batches(nondifferentiable("lu_factors", _factors, many=True))
"""The factors of square matrices, and the rows that were exchanged."""

solve_factored_p: Primitive = batches(nondifferentiable("solve_factored", _solved))
"""The solutions of systems from the factors of their matrices."""
