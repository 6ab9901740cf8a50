"""L-BFGS within bounds for many problems: each round evaluates one point of every active problem.

See `tapegrad.scipy.optimize.boxes` for the method. All problems share the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tapegrad.scipy.optimize.boxes import ENOUGH, MOST_TRIALS, Box
from tapegrad.scipy.optimize.descending import Limits
from tapegrad.scipy.optimize.many.directions import ManyLBFGS, weights_of
from tapegrad.scipy.optimize.many.state import Minima
from tapegrad.scipy.optimize.objective import Objective
from tapegrad.scipy.problems import Problems, Rows, choose
from tapegrad.scipy.small_systems import dots
from tapegrad.scipy.vocabulary import expand_dims, largest, maximum, minimum, sqrt, where


class DescentWithin:
    """The iteration of all problems."""

    def __init__(
        self, problems: Problems, objective: Objective, box: Box, rule: ManyLBFGS, limits: Limits
    ) -> None:
        self._problems, self._objective, self._box = problems, objective, box
        self._rule, self._limits = rule, limits

    def run(self, x: Rows) -> Minima:
        """Return the minima from these starting points."""
        x = self._box.inside(x)
        value, gradient = self._problems.call(self._objective.both, x)
        size = self._reach(x, gradient)
        is_finite = abs(value) + size < math.inf
        is_done = size <= self._limits.gtol
        status = where(is_finite, where(is_done, 0, 1), 2)
        known = self._rule.start(x)
        none, one, zero = where(is_finite, 0, 0), where(is_finite, 1, 1), value * 0.0
        line = [_first(gradient), none, zero, self._direction(known, x, gradient)]
        state = [x, value, gradient, none, one, status, zero > 1.0, *line, *known]
        goes_on = is_finite & ~is_done & (none < self._limits.maxiter)
        return Minima(*self._problems.iterate(self._round, goes_on, state)[:6])

    def _reach(self, x: Rows, gradient: Rows) -> Rows:
        """Return the maximum norm of each projected gradient."""
        return largest(abs(self._box.inside(x - gradient) - x), 1)

    def _direction(self, known: Sequence[Rows], x: Rows, gradient: Rows) -> Rows:
        """Return the directions: those of L-BFGS for variables that are free to move."""
        free = self._box.free(x, gradient)
        steps, changes, _, _ = self._rule.parts(known)
        steps, changes = [free * step for step in steps], [free * change for change in changes]
        rhos, scale = [], dots(x, x) * 0.0 + 1.0
        for step, change in zip(steps, changes, strict=True):
            rho, scale = weights_of(step, change, scale)
            rhos.append(rho)
        inside = self._rule.direction([*steps, *changes, *rhos, scale], x, free * gradient)
        return free * inside - (1.0 - free) * gradient

    def _round(
        self,
        x: Rows,
        value: Rows,
        gradient: Rows,
        iterations: Rows,
        calls: Rows,
        status: Rows,
        is_steepest: Rows,
        step: Rows,
        trials: Rows,
        most: Rows,
        direction: Rows,
        *known: Rows,
    ) -> list[Rows]:
        there = self._box.inside(x + expand_dims(step, 1) * direction)
        new_value, new_gradient = self._problems.call(self._objective.both, there)
        slope = dots(gradient, there - x)
        accepts = (slope < 0.0) & (new_value <= value + ENOUGH * slope)
        calls, trials, most = calls + 1, trials + 1, maximum(most, -slope)
        is_over = ~accepts & (trials >= MOST_TRIALS)
        # After a failed search the method begins again with steepest descent, once.
        fails, retries = is_over & is_steepest, is_over & ~is_steepest
        updated = self._rule.update(known, there - x, new_gradient - gradient)
        fresh = self._rule.start(x)
        changed = [
            choose(accepts, a, choose(retries, b, c)) for a, b, c in zip(updated, fresh, known)
        ]
        level = self._limits.ftol * maximum(abs(value), 1.0)
        is_flat = value - new_value <= maximum(level, self._limits.ftol * abs(new_value))
        is_done = is_flat | (self._reach(there, new_gradient) <= self._limits.gtol)
        status = where(fails, where(most <= level, 0, 2), status)
        status = where(accepts & is_done, 0, status)
        shorter = step * _shorter(value, slope, new_value)
        iterations = iterations + where(accepts, 1, 0)
        x, gradient = choose(accepts, there, x), choose(accepts, new_gradient, gradient)
        value = where(accepts, new_value, value)
        status = where((status == 1) & (calls >= self._limits.maxfun), 3, status)
        goes_on = (status == 1) & (iterations < self._limits.maxiter)
        begins = accepts | retries
        first = where(iterations == 0, _first(gradient), 1.0)
        line = [
            where(begins, first, shorter),
            where(begins, 0, trials),
            where(begins, 0.0, most),
            choose(begins, self._direction(changed, x, gradient), direction),
        ]
        head = [x, value, gradient, iterations, calls, status]
        return [goes_on, *head, ~accepts & (is_steepest | retries), *line, *changed]


def _first(gradient: Rows) -> Rows:
    """Return the length of the first step of each problem."""
    size = sqrt(dots(gradient, gradient))
    return minimum(1.0, 1.0 / where(size > 0.0, size, 1.0))


def _shorter(start: Rows, slope: Rows, now: Rows) -> Rows:
    """Return the factor that shortens a step to the minimum of the interpolating parabola."""
    bend = now - start - slope
    is_known = (bend > 0.0) & (bend < math.inf) & (slope < 0.0)
    least = -0.5 * slope / where(is_known, bend, 1.0)
    return where(is_known, minimum(maximum(least, 0.1), 0.5), 0.25)
