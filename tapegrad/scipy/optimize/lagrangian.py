"""Minima under constraints, by an augmented Lagrangian.

What the constraints miss is punished by its square, and by a price for each that is learnt: each
outer round minimises within the bounds, then raises the prices of what is still missed. The result
has derivatives by the conditions of Karush, Kuhn and Tucker.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tapegrad.autodiff.transforms import vjp
from tapegrad.scipy.optimize.boxes import Box, descend_within
from tapegrad.scipy.optimize.constraints import Part, joined
from tapegrad.scipy.optimize.descending import LOOKING, Limits, descend
from tapegrad.scipy.optimize.directions import Limited
from tapegrad.scipy.optimize.implicit import attached, look
from tapegrad.scipy.optimize.objective import Ended, Objective, Seen, Watcher
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
    """A function with constraints, their prices, and the weight of what they miss."""

    def __init__(self, objective: Objective, equal: list[Part], positive: list[Part], x: Any):
        self.objective = objective
        self._equal, self._positive = equal, positive
        self.weight = _FIRST_WEIGHT
        zero, rest = self.missed(x)
        self.prices = zeros_like(zero), zeros_like(rest)

    def missed(self, x: Any) -> tuple[Any, Any]:
        """Return what must be zero and what must not be negative."""
        point = self.objective.shaped(x)
        return joined(self._equal, point, x), joined(self._positive, point, x)

    def __call__(self, x: Any) -> Any:
        value = self.objective.scalar(self.objective.shaped(x), *self.objective.args)
        zero, rest = self.missed(x)
        for_zero, for_rest = self.prices
        value = value + sum_over(for_zero * zero + 0.5 * self.weight * zero * zero)
        short = maximum(for_rest / self.weight - rest, 0.0)
        return value + 0.5 * self.weight * sum_over(short * short)

    def raise_prices(self, x: Any) -> Any:
        """Learn from a minimum; return how much the constraints miss there."""
        zero, rest = (stop_gradient(part) for part in self.missed(x))
        for_zero, for_rest = self.prices
        new = maximum(for_rest - self.weight * rest, 0.0)
        # A constraint with a price must be met exactly, one without must not be overstepped.
        slack = (new - for_rest) / self.weight
        self.prices = for_zero + self.weight * zero, new
        parts = [abs(zero), abs(slack), zeros_like(x[:1])]
        return largest(concat(parts, 0))


def descend_constrained(
    lagrangian: Lagrangian, x: Any, box: Box | None, limits: Limits, watcher: Watcher
) -> Ended:
    """Alternate between minimising and raising prices, until the constraints are kept."""
    objective, rounds, before = lagrangian.objective, 0, math.inf
    inner = Objective(lagrangian, (x.shape[0],))
    quiet = Watcher(None, ())
    goal = max(limits.ftol, 1e-12)
    short = replace(limits, maxiter=_INNER_ROUNDS, ftol=-math.inf)
    status = 4
    while rounds < limits.maxiter:
        rounds += 1
        memory = Limited(10)
        if box is None:
            ended = descend(inner, x, memory, short, quiet)
        else:
            ended = descend_within(inner, x, box, memory, short, quiet)
        moved = look(LOOKING, largest(abs(ended.seen.x - x)))[0]
        x = ended.seen.x
        (missed,) = look(LOOKING, lagrangian.raise_prices(x))
        if watcher.stops(x, ended.seen.value):
            status = 99
            break
        if missed <= goal and (ended.status in (0, 2) or moved == 0):
            status = 0
            break
        if missed > 0.25 * before:
            lagrangian.weight = min(lagrangian.weight * _RAISE, _MOST_WEIGHT)
        before = missed
    objective.values += inner.values
    objective.gradients += inner.gradients
    value, gradient = objective.both(x)
    seen = Seen(x, gradient, look(LOOKING, value)[0])
    extra = {"multipliers": lagrangian.prices}
    return Ended(seen, rounds, status, extra)


def attached_constrained(lagrangian: Lagrangian, x: Any, held: Any) -> Any:
    """Return the minimum with derivatives: those of the solution of the conditions there.

    The unknowns are x and all prices; the price of a constraint that is not needed stays zero, and
    variables that a bound holds (where `held` is 1) stay where they are.
    """
    size, for_zero = x.shape[0], lagrangian.prices[0]
    for_rest = stop_gradient(lagrangian.prices[1])
    needed = cast(for_rest > 0.0, numpy_dtype_of(x))
    found = concat([x, stop_gradient(for_zero), for_rest], 0)
    count = size + for_zero.shape[0]

    def conditions(all_unknowns: Any) -> Any:
        point, zero_prices = all_unknowns[:size], all_unknowns[size:count]
        rest_prices = all_unknowns[count:]
        (zero, rest), pull = vjp(lagrangian.missed, point)
        slope = lagrangian.objective.slope(point) + pull((zero_prices, -rest_prices))
        still = (1.0 - held) * slope + held * (point - x)
        return concat([still, zero, needed * rest + (1.0 - needed) * rest_prices], 0)

    return attached(conditions, found)[:size]
