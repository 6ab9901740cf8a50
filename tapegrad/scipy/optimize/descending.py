"""Line-search methods without bounds: BFGS, L-BFGS, CG and Newton-CG.

The host reads one short vector per evaluation: the value, two slopes, and the norms of the gradient
and of the direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.scipy.optimize.directions import DirectionRule
from tapegrad.scipy.optimize.implicit import read_scalars
from tapegrad.scipy.optimize.line_search import Trial, search
from tapegrad.scipy.optimize.objective import Objective, Outcome, State, Watcher, dot, max_norm
from tapegrad.scipy.vocabulary import maximum, mean, minimum, where

READER = "an iteration of minimize"


@dataclass(frozen=True)
class Limits:
    """Stopping criteria and line-search settings."""

    maxiter: int
    gtol: float = -1.0
    ftol: float = -math.inf
    xtol: float = -1.0
    flat: float = 0.9
    guesses: bool = True
    maxfun: float = math.inf


def descend(
    objective: Objective, x: Any, rule: DirectionRule, limits: Limits, watcher: Watcher
) -> Outcome:
    """Minimize by repeated line searches."""
    value, gradient = objective.both(x)
    now, size, square = read_scalars(READER, value, max_norm(gradient), dot(gradient, gradient))
    state = State(x, gradient, now, size)
    # SciPy's first step assumes that the previous decrease was half the norm of the gradient.
    gain = 0.5 * math.sqrt(square) if limits.guesses else 0.0
    for iterations in range(limits.maxiter):
        if state.size <= limits.gtol:
            return Outcome(state, iterations, 0)
        if objective.values >= limits.maxfun:
            return Outcome(state, iterations, 3)
        direction = rule.direction(state.x, state.gradient)
        found, width = _along(objective, state, direction, gain, limits)
        if found is None:
            rule.reset()
            direction = rule.direction(state.x, state.gradient)
            found, width = _along(objective, state, direction, gain, limits)
        if found is None:
            return Outcome(state, iterations, 2)
        new: State = found.point
        rule.update(new.x - state.x, new.gradient - state.gradient)
        drop, state = state.value - new.value, new
        gain = drop if limits.guesses else 0.0
        if watcher.stops(state.x, state.value):
            return Outcome(state, iterations + 1, 99)
        is_still = found.step * width <= limits.xtol
        if is_still or drop <= limits.ftol * max(abs(state.value), abs(state.value + drop), 1.0):
            return Outcome(state, iterations + 1, 0)
    return Outcome(state, limits.maxiter, 0 if state.size <= limits.gtol else 1)


def _along(
    objective: Objective, state: State, direction: Any, gain: float, limits: Limits
) -> tuple[Trial | None, float]:
    """Search along a line; return the trial found and the mean magnitude of the direction."""
    slope = dot(state.gradient, direction)
    known: list[float] = []

    def at(step: Any) -> Trial:
        point = state.x + step * direction
        value, gradient = objective.both(point)
        numbers = [value, dot(gradient, direction), max_norm(gradient)]
        if not known:  # the first read also returns the numbers that belong to the whole line
            numbers += [step, slope, mean(abs(direction))]
        now, along, size, *rest = read_scalars(READER, *numbers)
        known.extend(rest)
        taken = step if isinstance(step, float) else known[0]
        return Trial(taken, now, along, State(point, gradient, now, size))

    first = at(_first_step(slope, gain))
    if not known[1] < 0:
        return None, known[2]
    start = Trial(0.0, state.value, known[1])
    return search(at, start, first, limits.flat), known[2]


def _first_step(slope: Any, gain: float) -> Any:
    """Return the step that would decrease the value by `gain`, at most 1, without a host read."""
    if not gain > 0:
        return 1.0
    return where(slope < 0.0, minimum(2.02 * gain / maximum(-slope, 1e-30), 1.0), 1.0)
