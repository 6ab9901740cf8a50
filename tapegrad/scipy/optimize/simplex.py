"""The Nelder-Mead simplex method, which needs no gradient.

The vertices stay on their device. The host reads and compares the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.descending import READER
from tapegrad.scipy.optimize.implicit import read_scalars
from tapegrad.scipy.optimize.objective import Objective, Outcome, State, Watcher
from tapegrad.scipy.vocabulary import largest, numbers_like, operand, stack, where

Vertex = tuple[float, Any]


@dataclass(frozen=True)
class SimplexCoefficients:
    """The reflection, expansion, contraction and shrink coefficients."""

    reflect: float = 1.0
    expand: float = 2.0
    contract: float = 0.5
    shrink: float = 0.5

    @classmethod
    def adapted(cls, size: int) -> SimplexCoefficients:
        """Return coefficients adapted to the number of variables (Gao and Han)."""
        return cls(1.0, 1 + 2 / size, 0.75 - 1 / (2 * size), 1 - 1 / size)


@dataclass(frozen=True)
class SimplexLimits:
    """Stopping criteria and coefficients."""

    xatol: float
    fatol: float
    maxiter: float
    maxfev: float
    coefficients: SimplexCoefficients


class Simplex:
    """Vertices with their values, the best first."""

    def __init__(
        self,
        objective: Objective,
        points: list[Any],
        box: Box | None,
        coefficients: SimplexCoefficients,
    ):
        self._objective, self._box, self._coefficients = objective, box, coefficients
        self.vertices: list[Vertex] = sorted(
            (self._vertex(point) for point in points), key=lambda vertex: vertex[0]
        )

    def _vertex(self, point: Any) -> Vertex:
        point = point if self._box is None else self._box.inside(point)
        return read_scalars(READER, self._objective.value(point))[0], point

    def is_small(self, limits: SimplexLimits) -> bool:
        """Whether the vertices and their values are close together."""
        best, *rest = self.vertices
        if max(abs(value - best[0]) for value, _ in rest) > limits.fatol:
            return False
        widest = largest(abs(stack([point for _, point in rest]) - best[1]))
        return read_scalars(READER, widest)[0] <= limits.xatol

    def move(self) -> None:
        """Replace the worst vertex by a better one, or shrink."""
        *others, (worst, far) = self.vertices
        centre = others[0][1]
        for _, point in others[1:]:
            centre = centre + point
        centre = centre / float(len(others))
        coefficients = self._coefficients

        def beyond(factor: float) -> Vertex:
            return self._vertex((1.0 + factor) * centre - factor * far)

        new = beyond(coefficients.reflect)
        if new[0] < others[0][0]:
            further = beyond(coefficients.reflect * coefficients.expand)
            self._replace(min(further, new, key=lambda vertex: vertex[0]))
        elif new[0] < others[-1][0]:
            self._replace(new)
        else:
            is_outside = new[0] < worst
            contract = coefficients.contract
            near = beyond(contract * coefficients.reflect if is_outside else -contract)
            if near[0] <= new[0] if is_outside else near[0] < worst:
                self._replace(near)
            else:
                self._shrink()

    def _replace(self, vertex: Vertex) -> None:
        self.vertices = sorted([*self.vertices[:-1], vertex], key=lambda vertex: vertex[0])

    def _shrink(self) -> None:
        best, *rest = self.vertices
        moved = [self._vertex(best[1] + self._coefficients.shrink * (p - best[1])) for _, p in rest]
        self.vertices = sorted([best, *moved], key=lambda vertex: vertex[0])


def descend_by_simplex(
    objective: Objective,
    x: Any,
    box: Box | None,
    limits: SimplexLimits,
    initial: Any,
    watcher: Watcher,
) -> Outcome:
    """Move the simplex until it is small."""
    simplex = Simplex(objective, _first_points(x, initial), box, limits.coefficients)
    iterations, status = 0, 0
    while not simplex.is_small(limits):
        if iterations >= limits.maxiter or objective.values >= limits.maxfev:
            status = 1 if iterations >= limits.maxiter else 3
            break
        simplex.move()
        iterations += 1
        value, point = simplex.vertices[0]
        if watcher.stops(point, value):
            status = 99
            break
    value, point = simplex.vertices[0]
    vertices = stack([point for _, point in simplex.vertices])
    values = numbers_like(x, [value for value, _ in simplex.vertices])
    extra = {"final_simplex": (vertices, values)}
    return Outcome(State(point, None, value), iterations, status, extra)


def _first_points(x: Any, initial: Any) -> list[Any]:
    """Return x0 and one vertex along each axis: 5 % away, or 0.00025 where x0 is 0."""
    size = x.shape[0]
    if initial is not None:
        given = operand(initial)
        if given.shape != (size + 1, size):
            raise ShapeError(
                f"initial_simplex must have shape {(size + 1, size)}. Got {given.shape}."
            )
        return [given[i] for i in range(size + 1)]
    away = where(x == 0.0, 0.00025, 0.05 * x)
    return [x, *(x + numbers_like(x, unit) * away for unit in np.eye(size))]
