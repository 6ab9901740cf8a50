"""Constrained minimization by an augmented Lagrangian.

Each outer iteration minimizes the objective plus multiplier and penalty terms within the bounds,
then updates the multipliers from the remaining violation. The derivatives of the result follow from
the Karush-Kuhn-Tucker conditions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tapegrad.autodiff.transforms import vjp
from tapegrad.scipy.optimize.boxes import Box, descend_within
from tapegrad.scipy.optimize.constraints import Part, concat_constraints
from tapegrad.scipy.optimize.descending import READER, Limits, descend
from tapegrad.scipy.optimize.directions import LBFGS
from tapegrad.scipy.optimize.implicit import read_scalars, with_implicit_derivatives
from tapegrad.scipy.optimize.objective import Objective, Outcome, State, Watcher
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    largest,
    maximum,
    numpy_dtype_of,
    stop_gradient,
    sum_over,
    zeros_like,
)

_FIRST_WEIGHT, _RAISE, _MOST_WEIGHT = 10.0, 10.0, 1e10
_INNER_ROUNDS = 500


class Lagrangian:
    """An objective with constraints, their multipliers and the penalty weight."""

    def __init__(self, objective: Objective, equal: list[Part], positive: list[Part], x: Any):
        self.objective = objective
        self._equal, self._positive = equal, positive
        self.weight = _FIRST_WEIGHT
        zero, rest = self.constraint_values(x)
        self.multipliers = zeros_like(zero), zeros_like(rest)

    def constraint_values(self, x: Any) -> tuple[Any, Any]:
        """Return the constraint values that must be zero and those that must be non-negative."""
        point = self.objective.reshaped(x)
        return concat_constraints(self._equal, point, x), concat_constraints(
            self._positive, point, x
        )

    def __call__(self, x: Any) -> Any:
        value = self.objective.scalar(self.objective.reshaped(x), *self.objective.args)
        zero, rest = self.constraint_values(x)
        for_zero, for_rest = self.multipliers
        value = value + sum_over(for_zero * zero + 0.5 * self.weight * zero * zero)
        short = maximum(for_rest / self.weight - rest, 0.0)
        return value + 0.5 * self.weight * sum_over(short * short)

    def update_multipliers(self, x: Any) -> Any:
        """Update the multipliers at a minimum and return the largest violation."""
        zero, rest = (stop_gradient(part) for part in self.constraint_values(x))
        for_zero, for_rest = self.multipliers
        new = maximum(for_rest - self.weight * rest, 0.0)
        # A constraint with a multiplier must hold with equality, others must not be violated.
        slack = (new - for_rest) / self.weight
        self.multipliers = for_zero + self.weight * zero, new
        parts = [abs(zero), abs(slack), zeros_like(x[:1])]
        return largest(concat(parts, 0))


def descend_constrained(
    lagrangian: Lagrangian, x: Any, box: Box | None, limits: Limits, watcher: Watcher
) -> Outcome:
    """Alternate between minimization and multiplier updates until the constraints hold."""
    objective, iterations, before = lagrangian.objective, 0, math.inf
    inner = Objective(lagrangian, (x.shape[0],))
    quiet = Watcher(None, ())
    goal = max(limits.ftol, 1e-12)
    short = replace(limits, maxiter=_INNER_ROUNDS, ftol=-math.inf)
    status = 4
    while iterations < limits.maxiter:
        iterations += 1
        rule = LBFGS(10)
        if box is None:
            outcome = descend(inner, x, rule, short, quiet)
        else:
            outcome = descend_within(inner, x, box, rule, short, quiet)
        moved = read_scalars(READER, largest(abs(outcome.state.x - x)))[0]
        x = outcome.state.x
        (violation,) = read_scalars(READER, lagrangian.update_multipliers(x))
        if watcher.stops(x, outcome.state.value):
            status = 99
            break
        if violation <= goal and (outcome.status in (0, 2) or moved == 0):
            status = 0
            break
        if violation > 0.25 * before:
            lagrangian.weight = min(lagrangian.weight * _RAISE, _MOST_WEIGHT)
        before = violation
    objective.values += inner.values
    objective.gradients += inner.gradients
    value, gradient = objective.both(x)
    state = State(x, gradient, read_scalars(READER, value)[0])
    extra = {"multipliers": lagrangian.multipliers}
    return Outcome(state, iterations, status, extra)


def constrained_minimum(lagrangian: Lagrangian, x: Any, held: Any) -> Any:
    """Return the minimum with the derivatives of the solution of the KKT conditions.

    The unknowns are x and all multipliers. The multipliers of inactive constraints stay zero, and
    variables held by a bound (where `held` is 1) stay constant.
    """
    size, for_zero = x.shape[0], lagrangian.multipliers[0]
    for_rest = stop_gradient(lagrangian.multipliers[1])
    needed = cast(for_rest > 0.0, numpy_dtype_of(x))
    found = concat([x, stop_gradient(for_zero), for_rest], 0)
    count = size + for_zero.shape[0]

    def conditions(all_unknowns: Any) -> Any:
        point, zero_multipliers = all_unknowns[:size], all_unknowns[size:count]
        rest_multipliers = all_unknowns[count:]
        (zero, rest), pull = vjp(lagrangian.constraint_values, point)
        slope = lagrangian.objective.slope(point) + pull((zero_multipliers, -rest_multipliers))
        stationary = (1.0 - held) * slope + held * (point - x)
        return concat([stationary, zero, needed * rest + (1.0 - needed) * rest_multipliers], 0)

    return with_implicit_derivatives(conditions, found)[:size]
