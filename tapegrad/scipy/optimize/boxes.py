"""Bounds on variables and minimization within them: L-BFGS-B and TNC.

This is Bertsekas' two-metric projection. Variables at a bound or about to reach it move along their
own gradient. The others follow the direction of the method. Steps are projected onto the box. The
host reads one short vector per evaluation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.optimize.descending import READER, Limits
from tapegrad.scipy.optimize.directions import DirectionRule
from tapegrad.scipy.optimize.implicit import read_scalars
from tapegrad.scipy.optimize.objective import Objective, Outcome, State, Watcher, dot, max_norm
from tapegrad.scipy.vocabulary import cast, maximum, minimum, numbers_like, numpy_dtype_of

ENOUGH, _NEAR, MOST_TRIALS = 1e-4, 1e-8, 25


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bounds of the variables, like `scipy.optimize.Bounds`.

    >>> Bounds([0.0, 0.0], 1.0).ub
    1.0
    """

    lb: Any = -np.inf
    ub: Any = np.inf
    keep_feasible: Any = False


@dataclass(frozen=True)
class Box:
    """Bounds as tensors on the device of the variables."""

    low: Any
    high: Any

    def inside(self, x: Any) -> Any:
        """Project a point onto the box."""
        return minimum(maximum(x, self.low), self.high)

    def free(self, x: Any, gradient: Any) -> Any:
        """Return 1 for variables that may move and 0 for those held by a bound."""
        below = (x <= self.low + _NEAR) & (gradient > 0.0)
        above = (x >= self.high - _NEAR) & (gradient < 0.0)
        return 1.0 - cast(below | above, numpy_dtype_of(x))

    def reach(self, x: Any, gradient: Any) -> Any:
        """Return the maximum norm of the projected gradient."""
        return max_norm(self.inside(x - gradient) - x)


def as_box(bounds: Any, x: Any) -> Box | None:
    """Convert SciPy's bounds, one pair per variable or `Bounds`, to a `Box`, or None if unbounded.

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
            "A lower bound must not exceed the upper bound. "
            f"Got {low[place]} and {high[place]} for variable {place}."
        )
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return Box(numbers_like(x, low), numbers_like(x, high))


def _ends(bounds: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        pair = [np.asarray(end, float).reshape(-1) for end in (bounds.lb, bounds.ub)]
        if any(len(end) not in (1, size) for end in pair):
            raise ShapeError(
                f"Bounds of {size} variables need 1 or {size} values for lb and ub. "
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
    objective: Objective, x: Any, box: Box, rule: DirectionRule, limits: Limits, watcher: Watcher
) -> Outcome:
    """Minimize by line searches along the projected direction."""
    x = box.inside(x)
    value, gradient = objective.both(x)
    now, size, square = read_scalars(READER, value, box.reach(x, gradient), dot(gradient, gradient))
    state = State(x, gradient, now, size)
    first = min(1.0, 1.0 / math.sqrt(square)) if square > 0 and limits.guesses else 1.0
    for iterations in range(limits.maxiter):
        if state.size <= limits.gtol:
            return Outcome(state, iterations, 0)
        if objective.values >= limits.maxfun:
            return Outcome(state, iterations, 3)
        new, expected = _along_arc(objective, state, box, rule, first)
        if new is None:
            rule.reset()
            new, expected = _along_arc(objective, state, box, rule, first)
        if new is None:
            is_flat = expected <= limits.ftol * max(abs(state.value), 1.0)
            return Outcome(state, iterations, 0 if is_flat else 2)
        rule.update(new.x - state.x, new.gradient - state.gradient)
        drop, state, first = state.value - new.value, new, 1.0
        if watcher.stops(state.x, state.value):
            return Outcome(state, iterations + 1, 99)
        if drop <= limits.ftol * max(abs(state.value), abs(state.value + drop), 1.0):
            return Outcome(state, iterations + 1, 0)
    return Outcome(state, limits.maxiter, 0 if state.size <= limits.gtol else 1)


def _along_arc(
    objective: Objective, state: State, box: Box, rule: DirectionRule, first: float
) -> tuple[State | None, float]:
    """Backtrack along the projected direction until the value decreases enough.

    Return the new state, or None if there is none, and the largest expected decrease.
    """
    free = box.free(state.x, state.gradient)
    direction = rule.direction(state.x, free * state.gradient, free)
    direction = free * direction - (1.0 - free) * state.gradient
    step, most = first, 0.0
    for _ in range(MOST_TRIALS):
        point = box.inside(state.x + step * direction)
        value, gradient = objective.both(point)
        expected = dot(state.gradient, point - state.x)
        now, slope, size = read_scalars(READER, value, expected, box.reach(point, gradient))
        if slope < 0 and now <= state.value + ENOUGH * slope:
            return State(point, gradient, now, size), -slope
        most = max(most, -slope)
        step *= _shorter(state.value, slope, now)
    return None, most


def _shorter(start: float, slope: float, now: float) -> float:
    """Return the factor that shortens a step to the minimum of the interpolating parabola."""
    bend = now - start - slope
    if not (math.isfinite(bend) and bend > 0 and slope < 0):
        return 0.25
    return min(max(-0.5 * slope / bend, 0.1), 0.5)
