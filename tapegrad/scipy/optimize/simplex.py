"""Nelder and Mead's search with a simplex, which needs no gradient.

The corners stay on their device; the host looks at each value, for it decides by comparing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.descending import LOOKING
from tapegrad.scipy.optimize.implicit import look
from tapegrad.scipy.optimize.objective import Ended, Objective, Seen, Watcher
from tapegrad.scipy.vocabulary import largest, numbers_like, operand, stack, where

Corner = tuple[float, Any]


@dataclass(frozen=True)
class Pace:
    """How far a simplex is reflected, expanded, contracted and shrunk."""

    reflect: float = 1.0
    expand: float = 2.0
    contract: float = 0.5
    shrink: float = 0.5

    @classmethod
    def adapted(cls, size: int) -> Pace:
        """Return what suits many variables (Gao and Han)."""
        return cls(1.0, 1 + 2 / size, 0.75 - 1 / (2 * size), 1 - 1 / size)


@dataclass(frozen=True)
class Patience:
    """When to stop."""

    xatol: float
    fatol: float
    maxiter: float
    maxfev: float
    pace: Pace


class Simplex:
    """Corners with their values, the best first."""

    def __init__(self, objective: Objective, points: list[Any], box: Box | None, pace: Pace):
        self._objective, self._box, self._pace = objective, box, pace
        self.corners: list[Corner] = sorted(
            (self._corner(point) for point in points), key=lambda corner: corner[0]
        )

    def _corner(self, point: Any) -> Corner:
        point = point if self._box is None else self._box.inside(point)
        return look(LOOKING, self._objective.value(point))[0], point

    def is_small(self, patience: Patience) -> bool:
        """Whether the corners and their values lie close together."""
        best, *rest = self.corners
        if max(abs(value - best[0]) for value, _ in rest) > patience.fatol:
            return False
        widest = largest(abs(stack([point for _, point in rest]) - best[1]))
        return look(LOOKING, widest)[0] <= patience.xatol

    def move(self) -> None:
        """Replace the worst corner by a better one, or shrink."""
        *others, (worst, far) = self.corners
        centre = others[0][1]
        for _, point in others[1:]:
            centre = centre + point
        centre = centre / float(len(others))
        pace = self._pace

        def beyond(share: float) -> Corner:
            return self._corner((1.0 + share) * centre - share * far)

        new = beyond(pace.reflect)
        if new[0] < others[0][0]:
            further = beyond(pace.reflect * pace.expand)
            self._replace(min(further, new, key=lambda corner: corner[0]))
        elif new[0] < others[-1][0]:
            self._replace(new)
        else:
            is_outside = new[0] < worst
            near = beyond(pace.contract * pace.reflect if is_outside else -pace.contract)
            if near[0] <= new[0] if is_outside else near[0] < worst:
                self._replace(near)
            else:
                self._shrink()

    def _replace(self, corner: Corner) -> None:
        self.corners = sorted([*self.corners[:-1], corner], key=lambda corner: corner[0])

    def _shrink(self) -> None:
        best, *rest = self.corners
        moved = [self._corner(best[1] + self._pace.shrink * (p - best[1])) for _, p in rest]
        self.corners = sorted([best, *moved], key=lambda corner: corner[0])


def descend_by_simplex(
    objective: Objective,
    x: Any,
    box: Box | None,
    patience: Patience,
    initial: Any,
    watcher: Watcher,
) -> Ended:
    """Move a simplex until it is small."""
    simplex = Simplex(objective, _first_points(x, initial), box, patience.pace)
    rounds, status = 0, 0
    while not simplex.is_small(patience):
        if rounds >= patience.maxiter or objective.values >= patience.maxfev:
            status = 1 if rounds >= patience.maxiter else 3
            break
        simplex.move()
        rounds += 1
        value, point = simplex.corners[0]
        if watcher.stops(point, value):
            status = 99
            break
    value, point = simplex.corners[0]
    corners = stack([point for _, point in simplex.corners])
    values = numbers_like(x, [value for value, _ in simplex.corners])
    extra = {"final_simplex": (corners, values)}
    return Ended(Seen(point, None, value), rounds, status, extra)


def _first_points(x: Any, initial: Any) -> list[Any]:
    """The start, and beside it one corner along each axis: 5 % away, 0.00025 where it is 0."""
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
