"""Directions of descent: what each method knows of the curvature. All of it stays on the device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tapegrad.ops.products import outer
from tapegrad.scipy.optimize.objective import Objective, dot
from tapegrad.scipy.optimize.truncated import newton_direction
from tapegrad.scipy.sparse.linalg.krylov import ratio
from tapegrad.scipy.vocabulary import maximum, numbers_like, where


class Memory(Protocol):
    """What a method knows of the curvature."""

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        """Return the direction of descent; zero where `free` is, a mask for bounds."""

    def learn(self, step: Any, change: Any) -> None:
        """Take note of a step and of how the gradient changed."""

    def forget(self) -> None:
        """Begin anew, with steepest descent."""


class Dense:
    """BFGS: an approximation of the inverse Hessian as a matrix."""

    def __init__(self, x: Any) -> None:
        self._unit = numbers_like(x, np.eye(x.shape[0]))
        self.inverse = self._unit

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        return -(self.inverse @ gradient)

    def learn(self, step: Any, change: Any) -> None:
        inner = dot(step, change)
        share = ratio(where(inner > 0.0, 1.0, 0.0), inner)
        pulled = self.inverse @ change
        weight = (1.0 + dot(change, pulled) * share) * share
        mixed = outer(step, pulled) + outer(pulled, step)
        self.inverse = self.inverse + weight * outer(step, step) - share * mixed

    def forget(self) -> None:
        self.inverse = self._unit


class Limited:
    """L-BFGS: the last few steps and changes of the gradient, each with its weight.

    A pair that bends down weighs nothing, so that nobody has to look at it to leave it out.
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
                share, scale = _weights(step, change, scale)
                pairs.append((step, change, share))
        weights = []
        for step, change, share in reversed(pairs):
            weights.append(share * dot(step, gradient))
            gradient = gradient - weights[-1] * change
        gradient = scale * gradient
        for (step, change, share), weight in zip(pairs, reversed(weights)):
            gradient = gradient + (weight - share * dot(change, gradient)) * step
        return -gradient

    def learn(self, step: Any, change: Any) -> None:
        share, self._scale = _weights(step, change, self._scale)
        self._pairs = [*self._pairs, (step, change, share)][-self.count :]

    def forget(self) -> None:
        self._pairs, self._scale = [], 1.0


def _weights(step: Any, change: Any, scale: Any) -> tuple[Any, Any]:
    """1 / (step·change), and the curvature to begin with; 0 and the old one if it bends down."""
    inner, square = dot(step, change), dot(change, change)
    bends_up = inner > np.finfo(float).eps * square
    safe = where(bends_up, inner, np.inf)
    return 1.0 / safe, where(bends_up, safe / maximum(square, 1e-30), scale)


class Conjugate:
    """Nonlinear conjugate gradients after Polak and Ribière, begun anew where they turn back."""

    def __init__(self) -> None:
        self._last: Any = None
        self._change: Any = None
        self._before: Any = None

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        if self._last is None:
            self._before, self._last = gradient, -gradient
            return self._last
        share = ratio(dot(gradient, self._change), dot(self._before, self._before))
        new = maximum(share, 0.0) * self._last - gradient
        is_down = dot(new, gradient) <= -0.01 * dot(gradient, gradient)
        self._before, self._last = gradient, where(is_down, new, -gradient)
        return self._last

    def learn(self, step: Any, change: Any) -> None:
        self._change = change

    def forget(self) -> None:
        self._last = None


class Newton:
    """Newton's direction by conjugate gradients, with products of the Hessian from the tape."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def direction(self, x: Any, gradient: Any, free: Any = None) -> Any:
        apply = self._objective.curvature(x)
        if free is None:
            return newton_direction(apply, gradient)
        return newton_direction(lambda p: free * apply(free * p), free * gradient)

    def learn(self, step: Any, change: Any) -> None:
        """Nothing: each point is asked for its own curvature."""

    def forget(self) -> None:
        """Nothing is kept."""
