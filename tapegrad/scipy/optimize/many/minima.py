"""minimize for many problems: each round evaluates one point of every active problem."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.descending import Limits
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    stationary_point,
    without_recording,
)
from tapegrad.scipy.optimize.many.directions import (
    ManyBFGS,
    ManyDirections,
    ManyLBFGS,
    ManyNewtonCG,
)
from tapegrad.scipy.optimize.many.searches import FIELDS, Search, Trial, begin, judge
from tapegrad.scipy.optimize.many.state import Minima
from tapegrad.scipy.optimize.many.within_bounds import DescentWithin
from tapegrad.scipy.optimize.objective import Objective
from tapegrad.scipy.optimize.result import OptimizeResult
from tapegrad.scipy.problems import Problems, Rows, choose
from tapegrad.scipy.small_systems import dots
from tapegrad.scipy.vocabulary import (
    expand_dims,
    largest,
    maximum,
    mean,
    minimum,
    sqrt,
    stop_gradient,
    where,
)

METHODS = ("BFGS", "L-BFGS-B", "Newton-CG")


def minimize_many(
    objective: Objective, x: Any, method: str, chosen: dict[str, Any], box: Box | None = None
) -> OptimizeResult:
    """Return the minima of all problems of the running vmaps as a result of one problem."""
    if method not in METHODS:
        raise ArgumentError(
            "Inside vmap or a recorded function, minimize supports the methods "
            f"{', '.join(METHODS)}. Got {method!r}."
        )
    problems = Problems(x)
    with without_recording():
        rule, limits = _rule(problems, objective, method, chosen), _limits(method, chosen)
        if box is not None and isinstance(rule, ManyLBFGS):
            descent: Any = DescentWithin(problems, objective, box, rule, limits)
        else:
            descent = _Descent(problems, objective, rule, limits)
        found = descent.run(problems.rows(stop_gradient(x)))
        held = None if box is None else problems.one(1.0 - box.free(found.x, found.gradient))
    point = problems.one(found.x)
    solution = point
    if is_recording():
        solution = stationary_point(objective.slope, point, held)
    status = problems.one(found.status)
    return OptimizeResult(
        x=objective.reshaped(solution),
        fun=problems.one(found.value),
        jac=objective.reshaped(problems.one(found.gradient)),
        nit=problems.one(found.iterations),
        nfev=problems.one(found.calls),
        njev=problems.one(found.calls),
        status=status,
        success=status == 0,
    )


def _limits(method: str, chosen: dict[str, Any]) -> Limits:
    stops = {k: chosen[k] for k in ("gtol", "ftol", "xtol", "maxfun") if k in chosen}
    return Limits(int(chosen["maxiter"]), guesses=method != "Newton-CG", **stops)


def _rule(
    problems: Problems, objective: Objective, method: str, chosen: dict[str, Any]
) -> ManyDirections:
    if method == "L-BFGS-B":
        return ManyLBFGS(int(chosen["maxcor"]))
    return ManyNewtonCG(problems, objective) if method == "Newton-CG" else ManyBFGS()


class _Descent:
    """The iteration of all problems."""

    def __init__(
        self, problems: Problems, objective: Objective, rule: ManyDirections, limits: Limits
    ) -> None:
        self._problems, self._objective = problems, objective
        self._rule, self._limits = rule, limits

    def run(self, x: Rows) -> Minima:
        value, gradient = self._problems.call(self._objective.both, x)
        size = largest(abs(gradient), 1)
        is_finite = abs(value) + size < math.inf
        is_done = size <= self._limits.gtol
        status = where(is_finite, where(is_done, 0, 1), 2)
        known = self._rule.start(x)
        gain = 0.5 * sqrt(dots(gradient, gradient)) if self._limits.guesses else value * 0.0
        direction, slope, search = self._line(known, x, value, gradient, gain)
        none, one = where(is_finite, 0, 0), where(is_finite, 1, 1)
        line = [direction, slope, *search.flat()]
        state = [x, value, gradient, none, one, status, value * 0.0 > 1.0, *line, *known]
        goes_on = is_finite & ~is_done & (none < self._limits.maxiter)
        return Minima(*self._problems.iterate(self._round, goes_on, state)[:6])

    def _line(
        self, known: list[Rows], x: Rows, value: Rows, gradient: Rows, gain: Rows
    ) -> tuple[Rows, Rows, Search]:
        """Return the direction at a point, the slope along it and the state of a new search."""
        direction = self._rule.direction(known, x, gradient)
        slope = dots(gradient, direction)
        is_down = slope < 0.0
        direction = choose(is_down, direction, -gradient)
        slope = where(is_down, slope, -dots(gradient, gradient))
        guess = minimum(2.02 * gain / maximum(-slope, 1e-30), 1.0)
        return direction, slope, begin(where(gain > 0.0, guess, 1.0), value, slope)

    def _round(
        self,
        x: Rows,
        value: Rows,
        gradient: Rows,
        iterations: Rows,
        calls: Rows,
        status: Rows,
        is_steepest: Rows,
        direction: Rows,
        slope: Rows,
        *rest: Rows,
    ) -> list[Rows]:
        search, known = Search.of(rest[:FIELDS]), list(rest[FIELDS:])
        move = expand_dims(search.step, 1) * direction
        there = x + move
        new_value, new_gradient = self._problems.call(self._objective.both, there)
        trial = Trial(search.step, new_value, dots(new_gradient, direction))
        found = judge(search, trial, value, slope, self._limits.flat)
        accepts, calls = found.accepts, calls + 1
        updated = self._rule.update(known, move, new_gradient - gradient)
        # After a failed search the method begins again with steepest descent, once.
        fresh, retries = self._rule.start(x), found.fails & ~is_steepest
        changed = [
            choose(accepts, a, choose(retries, b, c)) for a, b, c in zip(updated, fresh, known)
        ]
        iterations = iterations + where(accepts, 1, 0)
        status = self._status(found.fails & is_steepest, accepts, value, trial, direction, status)
        size = largest(abs(choose(accepts, new_gradient, gradient)), 1)
        status = where(accepts & (size <= self._limits.gtol), 0, status)
        gain = value - new_value if self._limits.guesses else value * 0.0
        gain = where(accepts, gain, 0.0)
        x, gradient = choose(accepts, there, x), choose(accepts, new_gradient, gradient)
        value = where(accepts, new_value, value)
        status = where((status == 1) & (calls >= self._limits.maxfun), 3, status)
        goes_on = (status == 1) & (iterations < self._limits.maxiter)
        restarts = accepts | retries
        new_line = self._line(changed, x, value, gradient, gain)
        line = [choose(restarts, a, b) for a, b in zip(new_line[:2], (direction, slope))]
        steps = [
            choose(restarts, a, b)
            for a, b in zip(new_line[2].flat(), found.search.flat(), strict=True)
        ]
        head = [x, value, gradient, iterations, calls, where(goes_on, 1, status)]
        return [
            goes_on,
            *head,
            where(accepts, is_steepest & ~accepts, is_steepest | retries),
            *line,
            *steps,
            *changed,
        ]

    def _status(
        self, fails: Rows, accepts: Rows, value: Rows, trial: Trial, direction: Rows, status: Rows
    ) -> Rows:
        """Return 2 where the search has failed, and 0 where a step meets ftol or xtol."""
        limits = self._limits
        status = where(fails, 2, status)
        width = trial.step * mean(abs(direction), 1)
        largest_value = maximum(maximum(abs(value), abs(trial.value)), 1.0)
        is_flat = value - trial.value <= limits.ftol * largest_value
        return where(accepts & ((width <= limits.xtol) | is_flat), 0, status)
