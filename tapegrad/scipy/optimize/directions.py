"""Search directions: BFGS, L-BFGS, nonlinear CG and Newton-CG. All state stays on the device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tapegrad.ops.products.functions import outer
from tapegrad.scipy.optimize.objective import Objective, dot
from tapegrad.scipy.optimize.truncated import newton_direction
from tapegrad.scipy.sparse.linalg.krylov import ratio
from tapegrad.scipy.vocabulary import maximum, numbers_like, where


class DirectionRule(Protocol):
    """Computes search directions from what it learned about the curvature."""

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        """Return the descent direction; 0 where the mask `free` is 0."""

    def update(self, step: Any, change: Any) -> None:
        """Record a step and the change of the gradient along it."""

    def reset(self) -> None:
        """Restart with steepest descent."""


class BFGS:
    """BFGS with a dense approximation of the inverse Hessian."""

    def __init__(self, x: Any) -> None:
        self._unit = numbers_like(x, np.eye(x.shape[0]))
        self.inverse = self._unit

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        return -(self.inverse @ gradient)

    def update(self, step: Any, change: Any) -> None:
        inner = dot(step, change)
        rho = ratio(where(inner > 0.0, 1.0, 0.0), inner)
        pulled = self.inverse @ change
        weight = (1.0 + dot(change, pulled) * rho) * rho
        mixed = outer(step, pulled) + outer(pulled, step)
        self.inverse = self.inverse + weight * outer(step, step) - rho * mixed

    def reset(self) -> None:
        self.inverse = self._unit


class LBFGS:
    """L-BFGS with the last few steps and gradient changes.

    A pair with negative curvature gets weight 0, which avoids a host read to drop it.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pairs: list[tuple[Any, Any, Any]] = []
        self._scale: Any = 1.0

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        pairs, scale = self._pairs, self._scale
        if free is not None:
            pairs, scale = [], 1.0
            for step, change, _ in self._pairs:
                step, change = free * step, free * change
                rho, scale = _weights(step, change, scale)
                pairs.append((step, change, rho))
        weights = []
        for step, change, rho in reversed(pairs):
            weights.append(rho * dot(step, gradient))
            gradient = gradient - weights[-1] * change
        gradient = scale * gradient
        for (step, change, rho), weight in zip(pairs, reversed(weights)):
            gradient = gradient + (weight - rho * dot(change, gradient)) * step
        return -gradient

    def update(self, step: Any, change: Any) -> None:
        rho, self._scale = _weights(step, change, self._scale)
        self._pairs = [*self._pairs, (step, change, rho)][-self.count :]

    def reset(self) -> None:
        self._pairs, self._scale = [], 1.0


def _weights(step: Any, change: Any, scale: Any) -> tuple[Any, Any]:
    """Return 1 / (step·change) and the initial scale; 0 and the old one if step·change <= 0."""
    inner, square = dot(step, change), dot(change, change)
    bends_up = inner > np.finfo(float).eps * square
    safe = where(bends_up, inner, np.inf)
    return 1.0 / safe, where(bends_up, safe / maximum(square, 1e-30), scale)


class ConjugateGradient:
    """Polak-Ribière conjugate gradients; restarts where the direction is no descent direction."""

    def __init__(self) -> None:
        self._last: Any = None
        self._change: Any = None
        self._before: Any = None

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        if self._last is None:
            self._before, self._last = gradient, -gradient
            return self._last
        rho = ratio(dot(gradient, self._change), dot(self._before, self._before))
        new = maximum(rho, 0.0) * self._last - gradient
        is_down = dot(new, gradient) <= -0.01 * dot(gradient, gradient)
        self._before, self._last = gradient, where(is_down, new, -gradient)
        return self._last

    def update(self, step: Any, change: Any) -> None:
        self._change = change

    def reset(self) -> None:
        self._last = None


class NewtonCG:
    """Newton directions by conjugate gradients, with Hessian-vector products from the tape."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        apply = self._objective.curvature(x)
        if free is None:
            return newton_direction(apply, gradient)
        return newton_direction(lambda p: free * apply(free * p), free * gradient)

    def update(self, step: Any, change: Any) -> None:
        """Do nothing: the curvature is computed at each point."""

    def reset(self) -> None:
        """Do nothing: there is no state."""
