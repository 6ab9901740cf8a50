"""Descent along directions without bounds: BFGS, L-BFGS, CG and Newton-CG.

The host looks once at each evaluation, at one short vector: the value, two slopes, the size of the
gradient and of the direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.scipy.optimize.directions import Memory
from tapegrad.scipy.optimize.implicit import look
from tapegrad.scipy.optimize.line_search import Trial, search
from tapegrad.scipy.optimize.objective import Ended, Objective, Seen, Watcher, dot, steepest
from tapegrad.scipy.vocabulary import maximum, mean, minimum, where

LOOKING = "an iteration of minimize"


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    maxiter: int
    gtol: float = -1.0
    ftol: float = -math.inf
    xtol: float = -1.0
    flat: float = 0.9
    guesses: bool = True
    maxfun: float = math.inf


def descend(
    objective: Objective, x: Any, memory: Memory, limits: Limits, watcher: Watcher
) -> Ended:
    """Search along one direction after the other."""
    value, gradient = objective.both(x)
    now, size, square = look(LOOKING, value, steepest(gradient), dot(gradient, gradient))
    seen = Seen(x, gradient, now, size)
    # As if the step before had gained half the length of the gradient.
    gain = 0.5 * math.sqrt(square) if limits.guesses else 0.0
    for rounds in range(limits.maxiter):
        if seen.size <= limits.gtol:
            return Ended(seen, rounds, 0)
        if objective.values >= limits.maxfun:
            return Ended(seen, rounds, 3)
        direction = memory.direction(seen.x, seen.gradient)
        found, width = _along(objective, seen, direction, gain, limits)
        if found is None:
            memory.forget()
            direction = memory.direction(seen.x, seen.gradient)
            found, width = _along(objective, seen, direction, gain, limits)
        if found is None:
            return Ended(seen, rounds, 2)
        new: Seen = found.point
        memory.learn(new.x - seen.x, new.gradient - seen.gradient)
        drop, seen = seen.value - new.value, new
        gain = drop if limits.guesses else 0.0
        if watcher.stops(seen.x, seen.value):
            return Ended(seen, rounds + 1, 99)
        is_still = found.step * width <= limits.xtol
        if is_still or drop <= limits.ftol * max(abs(seen.value), abs(seen.value + drop), 1.0):
            return Ended(seen, rounds + 1, 0)
    return Ended(seen, limits.maxiter, 0 if seen.size <= limits.gtol else 1)


def _along(
    objective: Objective, seen: Seen, direction: Any, gain: float, limits: Limits
) -> tuple[Trial | None, float]:
    """Search on a line; return what was found there and the mean size of the direction."""
    slope = dot(seen.gradient, direction)
    known: list[float] = []

    def at(step: Any) -> Trial:
        point = seen.x + step * direction
        value, gradient = objective.both(point)
        numbers = [value, dot(gradient, direction), steepest(gradient)]
        if not known:  # the first trial also tells of the line as a whole
            numbers += [step, slope, mean(abs(direction))]
        now, along, size, *rest = look(LOOKING, *numbers)
        known.extend(rest)
        taken = step if isinstance(step, float) else known[0]
        return Trial(taken, now, along, Seen(point, gradient, now, size))

    first = at(_first_step(slope, gain))
    if not known[1] < 0:
        return None, known[2]
    start = Trial(0.0, seen.value, known[1])
    return search(at, start, first, limits.flat), known[2]


def _first_step(slope: Any, gain: float) -> Any:
    """As far as would gain what the last step did, but not beyond one; nobody looks at it yet."""
    if not gain > 0:
        return 1.0
    return where(slope < 0.0, minimum(2.02 * gain / maximum(-slope, 1e-30), 1.0), 1.0)
