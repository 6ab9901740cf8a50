"""Continuous and discrete algebraic Riccati equations.

The solution is first computed without derivatives. Newton steps from there provide the derivatives:
each step doubles the number of correct orders, so two steps give three orders.
"""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.ops.linalg.common import adjoint_of, hermitian_part, identity_like, product
from tapegrad.ops.linalg.solve import inv, lstsq, solve
from tapegrad.ops.linalg.sylvester import solve_sylvester
from tapegrad.ops.reduction.squares import euclidean_norm
from tapegrad.scipy.linalg.solvers import solve_discrete_lyapunov
from tapegrad.scipy.vocabulary import (
    concat,
    eps_of,
    operands,
    reshape_p,
    sqrt,
    stop_gradient,
    where,
)

_STEPS = 30
_NEWTON_STEPS = 2


def solve_continuous_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """Return the stabilizing solution x of a^H x + x a - x b r^-1 b^H x + q = 0.

    With `e` and `s` the equation is a^H x e + e^H x a - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0;
    r and e must be invertible. `balanced` is ignored.

    If none is found, the result is NaN; a singular matrix on the CPU raises LinAlgError.
    Derivatives are correct up to third order. q and r must be Hermitian.

    >>> solve_continuous_are([[0.0]], [[1.0]], [[4.0]], [[1.0]]).round(6).tolist()
    [[2.0]]
    """
    a, b, q, r = _matrices("solve_continuous_are", a, b, q, r, e, s)
    inner = product(b, solve(r, adjoint_of(b)))
    x = _by_sign(*(stop_gradient(part) for part in (a, inner, q)))
    for _ in range(_NEWTON_STEPS):
        closed = a - product(inner, x)
        right = q + product(product(x, inner), x)
        x = hermitian_part(solve_sylvester(adjoint_of(closed), closed, -right))
    flow = product(x, a)
    residual = flow + adjoint_of(flow) - product(product(x, inner), x) + q
    return _checked(x, residual, q)


def _by_sign(a: Any, inner: Any, q: Any) -> Any:
    """Compute the solution from the sign of the Hamiltonian matrix (Roberts 1980)."""
    n = a.shape[-1]
    z = concat([concat([a, -inner], -1), concat([-q, -adjoint_of(a)], -1)], -2)
    for _ in range(_STEPS):
        inverse = inv(z)
        scale = sqrt(_size(inverse) / _size(z))
        z = (z * scale + inverse / scale) * 0.5
    shifted = z + identity_like(z)
    left = concat([_block(z, 0, 1, n), _block(shifted, 1, 1, n)], -2)
    right = concat([_block(shifted, 0, 0, n), _block(z, 1, 0, n)], -2)
    return hermitian_part(lstsq(left, -right))


def _block(x: Any, row: int, column: int, n: int) -> Any:
    places = (slice(i * n, (i + 1) * n) for i in (row, column))
    return x[(..., *places)]


def _size(x: Any) -> Any:
    return euclidean_norm(x, axis=(-2, -1), keepdims=True)


def solve_discrete_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
) -> Any:
    """Return the stabilizing solution x of a^H x a - x - a^H x b (r + b^H x b)^-1 b^H x a + q = 0.

    With `e` and `s` the second term is e^H x e, and s is added to a^H x b and its adjoint.
    The remarks on `solve_continuous_are` apply here, too.

    >>> solve_discrete_are([[1.0]], [[1.0]], [[1.0]], [[2.0]]).round(6).tolist()
    [[2.0]]
    """
    a, b, q, r = _matrices("solve_discrete_are", a, b, q, r, e, s)
    x = _by_doubling(*(stop_gradient(part) for part in (a, b, q, r)))
    for _ in range(_NEWTON_STEPS):
        gain = _gain(a, b, r, x)
        closed = a - product(b, gain)
        cost = q + product(product(gain, r, adjoint_a=True), gain)
        x = hermitian_part(solve_discrete_lyapunov(adjoint_of(closed), cost))
    moved = product(product(a, x, adjoint_a=True), a - product(b, _gain(a, b, r, x)))
    return _checked(x, moved - x + q, q)


def _gain(a: Any, b: Any, r: Any, x: Any) -> Any:
    back = product(b, x, adjoint_a=True)
    return solve(r + product(back, b), product(back, a))


def _by_doubling(a: Any, b: Any, q: Any, r: Any) -> Any:
    """Double the horizon in every step (Chu, Fan, Lin and Wang 2004)."""
    inner, x = product(b, solve(r, adjoint_of(b))), q
    one = identity_like(a)
    for _ in range(_STEPS):
        mixed = one + product(inner, x)
        step = solve(mixed, a)
        spread = product(a, solve(mixed, inner))
        x = hermitian_part(x + product(product(a, x, adjoint_a=True), step))
        inner = hermitian_part(inner + product(spread, a, adjoint_b=True))
        a = product(a, step)
    return x


def _checked(x: Any, residual: Any, q: Any) -> Any:
    """Return the solution, or NaN where the residual is too large."""
    limit = eps_of(x) ** 0.5
    is_solved = _size(residual) <= limit * (_size(x) + _size(q))
    return where(stop_gradient(is_solved), x, float("nan"))


def _matrices(name: str, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> list[Any]:
    """Return the matrices of an equation without e and s that has the same solution."""
    given = operands(a, b, q, r, *(x for x in (e, s) if x is not None))
    a, b, q, r, *rest = (x if x.ndim > 1 else reshape_p(x, shape=(1, x.size)) for x in given)
    n, m = a.shape[-1], b.shape[-1]
    wanted = [(n, n), (n, m), (n, n), (m, m)]
    wanted += [(n, n)] * (e is not None) + [(n, m)] * (s is not None)
    shapes = [x.shape[-2:] for x in (a, b, q, r, *rest)]
    if [tuple(shape) for shape in shapes] != wanted:
        raise ShapeError(
            f"{name} needs square a, q and e of one size, b and s with as many rows, and square r "
            "with as many rows as b has columns. "
            f"Got shapes {', '.join(str(shape) for shape in shapes)}."
        )
    cross = rest.pop() if s is not None else None
    if e is not None:
        back = inv(rest[0])
        a, q = product(a, back), product(product(back, q, adjoint_a=True), back)
        cross = None if cross is None else product(back, cross, adjoint_a=True)
    if cross is not None:
        gain = solve(r, adjoint_of(cross))
        a, q = a - product(b, gain), q - product(cross, gain)
    return [a, b, q, r]
