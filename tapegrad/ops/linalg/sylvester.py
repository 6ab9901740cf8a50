"""The Sylvester equation A X + X B = Q."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import common_operands
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.linalg.common import adjoint_of, as_matrices, batches, product
from tapegrad.ops.shape.primitives import sum_to_shape


def _sylvester(xp: Any, a: Any, b: Any, q: Any) -> Any:
    """Solve one system of m n unknowns: (A ⊗ I + I ⊗ B') vec(X) = vec(Q)."""
    m, n = q.shape[-2:]
    one_m = xp.eye(m, dtype=a.dtype, device=a.device)
    one_n = xp.eye(n, dtype=a.dtype, device=a.device)
    left = a[..., :, None, :, None] * one_n[:, None, :]
    right = one_m[:, None, :, None] * xp.matrix_transpose(b)[..., None, :, None, :]
    system = left + right
    system = xp.reshape(system, (*system.shape[:-4], m * n, m * n))
    x = xp.linalg.solve(system, xp.reshape(q, (*q.shape[:-2], m * n, 1)))
    return xp.reshape(x, (*x.shape[:-2], m, n))


sylvester_p = batches(Primitive("sylvester", _sylvester))


@sylvester_p.vjp
def _sylvester_vjp(
    t: Any,
    x1: Any,
    x2: Any,
    y: Any,
    x1_shape: tuple[int, ...],
    x2_shape: tuple[int, ...],
    x3_shape: tuple[int, ...],
) -> tuple[Any, Any, Any]:
    """With A^H G + G B^H = dX: dQ = G, dA = -G X^H and dB = -X^H G."""
    q_cotangent = sylvester_p(adjoint_of(x1), adjoint_of(x2), t)
    return (
        sum_to_shape(-product(q_cotangent, y, adjoint_b=True), x1_shape),
        sum_to_shape(-product(y, q_cotangent, adjoint_a=True), x2_shape),
        sum_to_shape(q_cotangent, x3_shape),
    )


sylvester_p.jvps(
    lambda t, x1, x2, y: sylvester_p(x1, x2, -product(t, y)),
    lambda t, x1, x2, y: sylvester_p(x1, x2, -product(y, t)),
    lambda t, x1, x2: sylvester_p(x1, x2, t),
)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Return the solution X of A X + X B = Q; the cost is cubic in the number of unknowns.

    >>> solve_sylvester([[1.0]], [[3.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    a, b, q = common_operands(a, b, q)
    a, b = as_matrices(a, "solve_sylvester"), as_matrices(b, "solve_sylvester")
    q = as_matrices(q, "solve_sylvester", square=False)
    if tuple(q.shape[-2:]) != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"solve_sylvester needs q with {a.shape[-1]} rows and {b.shape[-1]} columns, the "
            f"orders of a and b. Got shape {q.shape}."
        )
    return sylvester_p(a, b, q)
