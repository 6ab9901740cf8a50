"""Search directions of many problems: BFGS, L-BFGS and Newton-CG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tapegrad.autodiff.transforms import jacobian
from tapegrad.scipy.optimize.objective import Objective
from tapegrad.scipy.problems import Problems, Rows, choose
from tapegrad.scipy.small_systems import dots, products
from tapegrad.scipy.vocabulary import (
    concat,
    expand_dims,
    maximum,
    minimum,
    numbers_like,
    sqrt,
    where,
    zeros_like,
)


class ManyDirections(Protocol):
    """Computes the search directions of all problems from arrays that the loop carries."""

    def start(self, x: Rows) -> list[Rows]:
        """Return the arrays before the first step."""

    def direction(self, known: Sequence[Rows], x: Rows, gradient: Rows) -> Rows:
        """Return the directions at the points."""

    def update(self, known: Sequence[Rows], step: Rows, change: Rows) -> list[Rows]:
        """Return the arrays after a step with this change of the gradient."""


def _column(numbers: Rows) -> Rows:
    return expand_dims(numbers, 1)


def _outer(a: Rows, b: Rows) -> Rows:
    return expand_dims(a, 2) * expand_dims(b, 1)


class ManyBFGS:
    """BFGS with the inverse Hessian of every problem."""

    def start(self, x: Rows) -> list[Rows]:
        return [expand_dims(zeros_like(x), 2) + numbers_like(x, np.eye(x.shape[1]))]

    def direction(self, known: Sequence[Rows], x: Rows, gradient: Rows) -> Rows:
        return -products(known[0], gradient)

    def update(self, known: Sequence[Rows], step: Rows, change: Rows) -> list[Rows]:
        inverse = known[0]
        along = dots(step, change)
        rho = where(along > 0.0, 1.0 / where(along > 0.0, along, 1.0), 0.0)
        pulled = products(inverse, change)
        weight = (1.0 + dots(change, pulled) * rho) * rho
        mixed = _outer(step, pulled) + _outer(pulled, step)
        rank_one = _outer(step, _column(weight) * step)
        return [inverse + rank_one - expand_dims(_column(rho), 2) * mixed]


class ManyLBFGS:
    """L-BFGS with the last `count` steps and gradient changes of every problem."""

    def __init__(self, count: int) -> None:
        self.count = count

    def start(self, x: Rows) -> list[Rows]:
        none = [zeros_like(x)] * self.count
        zero = zeros_like(x[:, 0])
        return [*none, *none, *[zero] * self.count, zero + 1.0]

    def parts(self, known: Sequence[Rows]) -> tuple[list[Rows], list[Rows], list[Rows], Rows]:
        """Return steps, changes and weights from the oldest to the newest, and the scale."""
        count = self.count
        first, second, third = (list(known[k * count : (k + 1) * count]) for k in range(3))
        return first, second, third, known[-1]

    def direction(self, known: Sequence[Rows], x: Rows, gradient: Rows) -> Rows:
        steps, changes, rhos, scale = self.parts(known)
        weights: list[Rows] = []
        for k in reversed(range(self.count)):
            weights.insert(0, rhos[k] * dots(steps[k], gradient))
            gradient = gradient - _column(weights[0]) * changes[k]
        gradient = _column(scale) * gradient
        for k in range(self.count):
            weight = weights[k] - rhos[k] * dots(changes[k], gradient)
            gradient = gradient + _column(weight) * steps[k]
        return -gradient

    def update(self, known: Sequence[Rows], step: Rows, change: Rows) -> list[Rows]:
        steps, changes, rhos, scale = self.parts(known)
        rho, scale = weights_of(step, change, scale)
        return [*steps[1:], step, *changes[1:], change, *rhos[1:], rho, scale]


def weights_of(step: Rows, change: Rows, scale: Rows) -> tuple[Rows, Rows]:
    """Return 1 / (step·change) and the initial scale; 0 and the old one if step·change <= 0."""
    along, square = dots(step, change), dots(change, change)
    bends_up = along > np.finfo(float).eps * square
    safe = where(bends_up, along, 1.0)
    rho = where(bends_up, 1.0 / safe, 0.0)
    return rho, where(bends_up, safe / maximum(square, 1e-30), scale)


class ManyNewtonCG:
    """Newton directions by conjugate gradients with the Hessian of every problem."""

    def __init__(self, problems: Problems, objective: Objective) -> None:
        self._problems, self._objective = problems, objective

    def start(self, x: Rows) -> list[Rows]:
        return []

    def update(self, known: Sequence[Rows], step: Rows, change: Rows) -> list[Rows]:
        return []

    def direction(self, known: Sequence[Rows], x: Rows, gradient: Rows) -> Rows:
        matrices = self._problems.call(self._hessian, x)
        size = sqrt(dots(gradient, gradient))
        goal = minimum(sqrt(size), 0.5) * size
        most = 2 * int(x.shape[1])

        def step(p: Rows, r: Rows, d: Rows, count: Rows) -> list[Rows]:
            bent = products(matrices, d)
            curve, rest = dots(d, bent), dots(r, r)
            is_bent_up = curve > 0.0
            alpha = where(is_bent_up, rest / where(is_bent_up, curve, 1.0), 0.0)
            moved, left = p + _column(alpha) * d, r + _column(alpha) * bent
            square = dots(left, left)
            goes_on = is_bent_up & (sqrt(square) > goal) & (count + 1 < most)
            ahead = _column(square / where(rest > 0.0, rest, 1.0)) * d - left
            # Without positive curvature along the gradient itself, the step follows the gradient.
            first = choose(is_bent_up, moved, -gradient)
            return [goes_on, choose(count == 0, first, moved), left, ahead, count + 1]

        count = where(size > 0.0, 0, 0)
        state = (zeros_like(x), gradient, -gradient, count)
        return self._problems.iterate(step, size > 0.0, state)[0]

    def _hessian(self, x: Any) -> Any:
        objective = self._objective
        if objective.hess is not None or objective.hessp is not None:
            apply = objective.curvature(x)
            size = int(x.shape[0])
            units = [numbers_like(x, row) for row in np.eye(size)]
            return concat([expand_dims(apply(unit), 0) for unit in units], 0)
        return jacobian(objective.slope)(x)
