"""Bounds of variables, and descent within them: L-BFGS-B and TNC.

Variables at a bound, or about to reach it, move by their own gradient only; the rest by the
method's direction among themselves. Steps are bent back into the box (Bertsekas' projection with
two metrics). The host looks once at each evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.optimize.descending import LOOKING, Limits
from tapegrad.scipy.optimize.directions import Memory
from tapegrad.scipy.optimize.implicit import look
from tapegrad.scipy.optimize.objective import Ended, Objective, Seen, Watcher, dot, steepest
from tapegrad.scipy.vocabulary import cast, maximum, minimum, numbers_like, numpy_dtype_of

_ENOUGH, _NEAR, _MOST_TRIALS = 1e-4, 1e-8, 25


@dataclass(frozen=True)
class Bounds:
    """Lowest and highest values of variables, as SciPy's class of that name.

    >>> Bounds([0.0, 0.0], 1.0).ub
    1.0
    """

    lb: Any = -np.inf
    ub: Any = np.inf
    keep_feasible: Any = False


@dataclass(frozen=True)
class Box:
    """Bounds beside a vector."""

    low: Any
    high: Any

    def inside(self, x: Any) -> Any:
        """Return the nearest point within."""
        return minimum(maximum(x, self.low), self.high)

    def free(self, x: Any, gradient: Any) -> Any:
        """Return 1 for variables that may move, 0 for those that a bound holds."""
        below = (x <= self.low + _NEAR) & (gradient > 0.0)
        above = (x >= self.high - _NEAR) & (gradient < 0.0)
        return 1.0 - cast(below | above, numpy_dtype_of(x))

    def reach(self, x: Any, gradient: Any) -> Any:
        """Return how far the gradient leads before the box ends, the largest element."""
        return steepest(self.inside(x - gradient) - x)


def as_box(bounds: Any, x: Any) -> Box | None:
    """Read bounds as SciPy takes them: pairs, one for each variable, or `Bounds`; None for none.

    >>> import tapegrad
    >>> box = as_box([(0, None), (None, 2)], tapegrad.constant([1.0, 1.0]))
    >>> box.inside(tapegrad.constant([-1.0, 3.0])).tolist()
    [0.0, 2.0]
    """
    if bounds is None:
        return None
    low, high = _ends(bounds, x.shape[0])
    if (low > high).any():
        place = int(np.argmax(low > high))
        raise ArgumentError(
            f"A lower bound must not lie above the upper one. For variable {place} came "
            f"{low[place]} and {high[place]}."
        )
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return Box(numbers_like(x, low), numbers_like(x, high))


def _ends(bounds: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        pair = [np.asarray(end, float).reshape(-1) for end in (bounds.lb, bounds.ub)]
        if any(len(end) not in (1, size) for end in pair):
            raise ShapeError(
                f"Bounds of {size} variables need 1 or {size} numbers. "
                f"Got {len(pair[0])} and {len(pair[1])}."
            )
        low, high = (np.broadcast_to(end, (size,)).copy() for end in pair)
        return low, high
    pairs = list(bounds)
    if len(pairs) != size or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(f"bounds must be {size} pairs, one for each variable. Got {bounds!r}.")
    lows = [-np.inf if low is None else float(low) for low, _ in pairs]
    highs = [np.inf if high is None else float(high) for _, high in pairs]
    return np.array(lows), np.array(highs)


def descend_within(
    objective: Objective, x: Any, box: Box, memory: Memory, limits: Limits, watcher: Watcher
) -> Ended:
    """Search along arcs that bend at the bounds."""
    x = box.inside(x)
    value, gradient = objective.both(x)
    now, size, square = look(LOOKING, value, box.reach(x, gradient), dot(gradient, gradient))
    seen = Seen(x, gradient, now, size)
    first = min(1.0, 1.0 / math.sqrt(square)) if square > 0 and limits.guesses else 1.0
    for rounds in range(limits.maxiter):
        if seen.size <= limits.gtol:
            return Ended(seen, rounds, 0)
        if objective.values >= limits.maxfun:
            return Ended(seen, rounds, 3)
        new, expected = _along_arc(objective, seen, box, memory, first)
        if new is None:
            memory.forget()
            new, expected = _along_arc(objective, seen, box, memory, first)
        if new is None:
            is_flat = expected <= limits.ftol * max(abs(seen.value), 1.0)
            return Ended(seen, rounds, 0 if is_flat else 2)
        memory.learn(new.x - seen.x, new.gradient - seen.gradient)
        drop, seen, first = seen.value - new.value, new, 1.0
        if watcher.stops(seen.x, seen.value):
            return Ended(seen, rounds + 1, 99)
        if drop <= limits.ftol * max(abs(seen.value), abs(seen.value + drop), 1.0):
            return Ended(seen, rounds + 1, 0)
    return Ended(seen, limits.maxiter, 0 if seen.size <= limits.gtol else 1)


def _along_arc(
    objective: Objective, seen: Seen, box: Box, memory: Memory, first: float
) -> tuple[Seen | None, float]:
    """Go back along the bent line until the value has fallen enough; None if it never does.

    The number is by how much it should fall at most.
    """
    free = box.free(seen.x, seen.gradient)
    direction = memory.direction(seen.x, free * seen.gradient, free)
    direction = free * direction - (1.0 - free) * seen.gradient
    step, most = first, 0.0
    for _ in range(_MOST_TRIALS):
        point = box.inside(seen.x + step * direction)
        value, gradient = objective.both(point)
        expected = dot(seen.gradient, point - seen.x)
        now, slope, size = look(LOOKING, value, expected, box.reach(point, gradient))
        if slope < 0 and now <= seen.value + _ENOUGH * slope:
            return Seen(point, gradient, now, size), -slope
        most = max(most, -slope)
        step *= _shorter(seen.value, slope, now)
    return None, most


def _shorter(start: float, slope: float, now: float) -> float:
    """By how much to shorten a step: to the bottom of the parabola through what is known."""
    bend = now - start - slope
    if not (math.isfinite(bend) and bend > 0 and slope < 0):
        return 0.25
    return min(max(-0.5 * slope / bend, 0.1), 0.5)
