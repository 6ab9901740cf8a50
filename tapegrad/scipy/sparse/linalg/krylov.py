"""Krylov iterations: the forward solves, without gradients.

Iterations after convergence change nothing. On the CPU the loop stops at convergence. On a GPU the
flag is fetched asynchronously, and the loop stops when it has arrived. A recorded function contains
all iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.host import Later, fetch_later
from tapegrad.core.values.tensor import Tensor
from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.ops.linalg.solve import pinv
from tapegrad.scipy.vocabulary import (
    conjugate,
    eps_of,
    every,
    is_complex,
    ones_like,
    real,
    sqrt,
    stack,
    sum_over,
    where,
    zeros_like,
)

Apply = Callable[[Any], Any]
State = tuple[Any, ...]
Found = tuple[Any, Any]

MOST_RECORDED = 256
"""The default limit of iterations in a recorded function."""


def inner(x: Any, y: Any) -> Any:
    """Return the inner product of two vectors."""
    return sum_over(conjugate(x) * y if is_complex(x) else x * y)


def length(x: Any) -> Any:
    """Return the Euclidean norm of a vector."""
    square = inner(x, x)
    return sqrt(real(square) if is_complex(square) else square)


def ratio(x: Any, y: Any) -> Any:
    """Return x / y, and 0 where y is 0, which means that the iteration has finished."""
    return where(y == 0, 0.0, x) / where(y == 0, 1.0, y)


class ConvergenceFlag:
    """Tells whether all systems have converged, without waiting for a device."""

    def __init__(self) -> None:
        self._pending: list[Later] = []

    def is_known_true(self, is_solved: Any) -> bool:
        """Return whether a condition is known to hold, now or in an earlier iteration."""
        is_solved = _inside(is_solved)
        if not isinstance(is_solved, Tensor) or is_undecided(is_solved):
            return False
        if isinstance(is_solved.array, np.ndarray | np.generic):
            return bool(is_solved.array.all())
        self._pending.append(fetch_later(every(is_solved).array, None, "a Krylov solver"))
        while self._pending and self._pending[0].done():
            if bool(self._pending.pop(0).result()):
                return True
        return False


def _inside(value: Any) -> Any:
    """Return the tensor with all examples of a vmap batch."""
    while type(value) in INTERPRETERS:
        value = value.tensor
    return value


def read_every(flag: Any, how: str) -> bool:
    """Read on the host whether a condition holds, in a vmap for every example."""
    return bool(read_on_host(every(_inside(flag)), how))


def max_iterations(limit: int | None, size: int, is_solved: Any) -> int:
    """Return the maximum number of iterations; the default is ten per unknown."""
    if limit is not None:
        return int(limit)
    return min(10 * size, MOST_RECORDED) if is_undecided(_inside(is_solved)) else 10 * size


def run(
    step: Callable[[State], State], state: State, residual: Any, goal: Any, limit: int | None
) -> Found:
    """Repeat a step until the norm of the residual is below goal; return x and whether it is.

    The first two elements of a state are x and the residual.
    """
    converged = ConvergenceFlag()
    is_solved = length(residual) <= goal
    for _ in range(max_iterations(limit, state[0].shape[0], is_solved)):
        if converged.is_known_true(is_solved):
            break
        new = step(state)
        state = tuple(where(is_solved, old, now) for old, now in zip(state, new, strict=True))
        is_solved = is_solved | (length(state[1]) <= goal)
    return state[0], is_solved


def cg(apply: Apply, b: Any, x: Any, goal: Any, limit: int | None, precondition: Apply) -> Found:
    """Conjugate gradients for Hermitian positive definite systems."""
    r = b - apply(x)
    z = precondition(r)

    def step(state: State) -> State:
        x, r, p, rho = state
        q = apply(p)
        alpha = ratio(rho, inner(p, q))
        x, r = x + alpha * p, r - alpha * q
        z = precondition(r)
        new = inner(r, z)
        return x, r, z + ratio(new, rho) * p, new

    return run(step, (x, r, z, inner(r, z)), r, goal, limit)


def bicgstab(
    apply: Apply, b: Any, x: Any, goal: Any, limit: int | None, precondition: Apply
) -> Found:
    """Stabilized biconjugate gradients for any system, with two products per iteration."""
    r = b - apply(x)
    shadow = r
    one = ones_like(inner(r, r))

    def step(state: State) -> State:
        x, r, p, v, rho, alpha, omega = state
        new = inner(shadow, r)
        beta = ratio(new, rho) * ratio(alpha, omega)
        p = r + beta * (p - omega * v)
        near = precondition(p)
        v = apply(near)
        alpha = ratio(new, inner(shadow, v))
        s = r - alpha * v
        far = precondition(s)
        t = apply(far)
        omega = ratio(inner(t, s), inner(t, t))
        return x + alpha * near + omega * far, s - omega * t, p, v, new, alpha, omega

    zero = zeros_like(r)
    return run(step, (x, r, zero, zero, one, one, one), r, goal, limit)


def minres(apply: Apply, b: Any, x: Any, goal: Any, limit: int | None) -> Found:
    """Minimal residuals for Hermitian, possibly indefinite systems, by a three-term recurrence.

    The images of the directions under the operator are kept orthonormal.
    """
    r = b - apply(x)

    def scaled(p: Any, image: Any) -> tuple[Any, Any]:
        size = length(image)
        return ratio(p, size), ratio(image, size)

    def step(state: State) -> State:
        x, r, p, image, before, image_before = state
        pace = inner(image, r)
        x, r = x + pace * p, r - pace * image
        new, far = image, apply(image)
        for _ in range(2):  # the second pass removes rounding errors
            for old, image_of_old in ((p, image), (before, image_before)):
                coefficient = inner(image_of_old, far)
                new, far = new - coefficient * old, far - coefficient * image_of_old
        return x, r, *scaled(new, far), p, image

    zero = zeros_like(r)
    return run(step, (x, r, *scaled(r, apply(r)), zero, zero), r, goal, limit)


def gmres(
    apply: Apply, b: Any, x: Any, goal: Any, limit: int | None, precondition: Apply, restart: int
) -> Found:
    """Generalized minimal residuals, restarted after `restart` products."""
    size = b.shape[0]
    restart = max(1, min(restart, size))

    def step(state: State) -> State:
        x, r = state
        space, matrix, start = _arnoldi(lambda v: apply(precondition(v)), r, restart)
        # The pseudoinverse handles zero columns from a Krylov space that ended early.
        weights = pinv(matrix)[:, :1] * start
        x = x + precondition((space @ weights)[:, 0])
        return x, b - apply(x)

    return run(step, (x, b - apply(x)), b - apply(x), goal, limit)


def _arnoldi(apply: Apply, r: Any, count: int) -> tuple[Any, Any, Any]:
    """Return an orthonormal basis, the Hessenberg matrix of the operator, and the norm of r."""
    start = length(r)
    start = start + 0.0 * inner(r, r) if is_complex(r) else start
    basis, columns = [ratio(r, start)], []
    for k in range(count):
        w = apply(basis[-1])
        size = length(w)
        column = [zeros_like(start)] * (count + 1)
        for _ in range(2):  # the second pass removes rounding errors
            for i, v in enumerate(basis):
                coefficient = inner(v, w)
                w = w - coefficient * v
                column[i] = column[i] + coefficient
        rest = length(w)
        # A remainder at the level of rounding errors means that the space is complete.
        rest = where(rest <= 10.0 * eps_of(size) * size, 0.0, rest)
        rest = rest + 0.0 * start
        column[k + 1] = rest
        columns.append(stack(column))
        basis.append(ratio(w, rest))
    return stack(basis[:-1], axis=1), stack(columns, axis=1), start


def no_preconditioner(x: Any) -> Any:
    """Return the argument: the identity preconditioner."""
    return x
