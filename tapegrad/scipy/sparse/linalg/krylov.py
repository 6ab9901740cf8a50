"""Krylov iterations on tensors: the forward solves, without any gradient of their own.

A round changes nothing once its system is solved, so further rounds do no harm. On the CPU the loop
ends as soon as that is seen; on a device the answer is asked for without waiting, and the loop ends
when it has come; a recorded function holds all rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.host import Later, fetch_later
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.tensor import Tensor
from tapegrad.ops.linalg.solve import pinv
from tapegrad.ops.undecided import is_undecided
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
"""Rounds that a recorded function holds where nobody says how many it should."""


def inner(x: Any, y: Any) -> Any:
    """Return the inner product of two vectors."""
    return sum_over(conjugate(x) * y if is_complex(x) else x * y)


def length(x: Any) -> Any:
    """Return the Euclidean norm of a vector."""
    square = inner(x, x)
    return sqrt(real(square) if is_complex(square) else square)


def ratio(x: Any, y: Any) -> Any:
    """Return x / y, and 0 where y is 0: then the iteration has come to an end."""
    return where(y == 0, 0.0, x) / where(y == 0, 1.0, y)


class Watch:
    """Knows whether all systems are solved, as far as it can without waiting for a device."""

    def __init__(self) -> None:
        self._asked: list[Later] = []

    def has_ended(self, is_solved: Any) -> bool:
        """Return whether a condition is known to hold, now or in a round before."""
        is_solved = _inside(is_solved)
        if not isinstance(is_solved, Tensor) or is_undecided(is_solved):
            return False
        if isinstance(is_solved.array, np.ndarray | np.generic):
            return bool(is_solved.array.all())
        self._asked.append(fetch_later(every(is_solved).array, None, "a Krylov solver"))
        while self._asked and self._asked[0].done():
            if bool(self._asked.pop(0).result()):
                return True
        return False


def _inside(value: Any) -> Any:
    """All examples of a batch at once."""
    while type(value) in INTERPRETERS:
        value = value.tensor
    return value


def rounds(limit: int | None, size: int, is_solved: Any) -> int:
    """Return how many rounds to run at most; by default ten for each unknown."""
    if limit is not None:
        return int(limit)
    return min(10 * size, MOST_RECORDED) if is_undecided(_inside(is_solved)) else 10 * size


def run(
    step: Callable[[State], State], state: State, residual: Any, goal: Any, limit: int | None
) -> Found:
    """Repeat a step until the residual's length is small; return x and whether it was reached.

    A state begins with x and the residual.
    """
    watch = Watch()
    is_solved = length(residual) <= goal
    for _ in range(rounds(limit, state[0].shape[0], is_solved)):
        if watch.has_ended(is_solved):
            break
        new = step(state)
        state = tuple(where(is_solved, old, now) for old, now in zip(state, new, strict=True))
        is_solved = is_solved | (length(state[1]) <= goal)
    return state[0], is_solved


def cg(apply: Apply, b: Any, x: Any, goal: Any, limit: int | None, precondition: Apply) -> Found:
    """Conjugate gradients, for Hermitian positive definite systems."""
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
    """Stabilised biconjugate gradients, for any system, in short rounds of two products."""
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
    """Minimal residuals for Hermitian systems, which may be indefinite, by three-term rounds.

    Directions are kept so that what the operator makes of them is orthonormal.
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
        for _ in range(2):  # once more for what rounding left
            for old, image_of_old in ((p, image), (before, image_before)):
                share = inner(image_of_old, far)
                new, far = new - share * old, far - share * image_of_old
        return x, r, *scaled(new, far), p, image

    zero = zeros_like(r)
    return run(step, (x, r, *scaled(r, apply(r)), zero, zero), r, goal, limit)


def gmres(
    apply: Apply, b: Any, x: Any, goal: Any, limit: int | None, precondition: Apply, restart: int
) -> Found:
    """Generalised minimal residuals: the best in a space of `restart` products, then again."""
    size = b.shape[0]
    restart = max(1, min(restart, size))

    def step(state: State) -> State:
        x, r = state
        space, matrix, start = _arnoldi(lambda v: apply(precondition(v)), r, restart)
        # The first column of the pseudo-inverse: a space that is complete early leaves zeros.
        weights = pinv(matrix)[:, :1] * start
        x = x + precondition((space @ weights)[:, 0])
        return x, b - apply(x)

    return run(step, (x, b - apply(x)), b - apply(x), goal, limit)


def _arnoldi(apply: Apply, r: Any, count: int) -> tuple[Any, Any, Any]:
    """An orthonormal basis of the space, the operator within it, and the length of r."""
    start = length(r)
    start = start + 0.0 * inner(r, r) if is_complex(r) else start
    basis, columns = [ratio(r, start)], []
    for k in range(count):
        w = apply(basis[-1])
        size = length(w)
        column = [zeros_like(start)] * (count + 1)
        for _ in range(2):  # once more for what rounding left
            for i, v in enumerate(basis):
                share = inner(v, w)
                w = w - share * v
                column[i] = column[i] + share
        rest = length(w)
        # What is left of a vector within the space is rounding, no direction of its own.
        rest = where(rest <= 10.0 * eps_of(size) * size, 0.0, rest)
        rest = rest + 0.0 * start
        column[k + 1] = rest
        columns.append(stack(column))
        basis.append(ratio(w, rest))
    return stack(basis[:-1], axis=1), stack(columns, axis=1), start


def nothing(x: Any) -> Any:
    """Precondition by nothing."""
    return x
