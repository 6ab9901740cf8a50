"""Backward differentiation formulas for many trajectories, each with its own order and steps.

See `tapegrad.scipy.integrate.bdf` for the method. The differences are one array of rows per order.
Masks select what depends on the order of a trajectory, so that a recorded function fuses it.
Enclosing tapes record each step by its implicit derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.autodiff.batching import in_frame
from tapegrad.ops.control.loops import loop
from tapegrad.scipy.integrate.bdf import (
    ALPHA,
    ERRORS,
    GAMMA,
    LEAST,
    MOST,
    MOST_ITERATIONS,
    MOST_ORDER,
    SAFETY,
)
from tapegrad.scipy.integrate.many.methods import Field, Tolerance, inverse_of
from tapegrad.scipy.integrate.many.steps import (
    TOO_SMALL,
    Steps,
    Trajectories,
    first_step,
    signs_of,
)
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.problems import Rows, choose
from tapegrad.scipy.small_systems import products
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    eps_of,
    exp,
    expand_dims,
    log,
    maximum,
    minimum,
    numbers_like,
    numpy_dtype_of,
    stop_gradient,
    sum_over,
    where,
    zeros_like,
)

_INFINITE = math.inf


def _rescaling_polynomials() -> dict[tuple[int, int], list[float]]:
    """Return the entries of the rescaling matrix above its diagonal as polynomials in the factor.

    Entry (a, b) is the a-th difference at the new step length of the b-th polynomial of the old.
    """
    found = {}
    for b in range(1, MOST_ORDER + 1):
        for a in range(1, b + 1):
            total: np.ndarray = np.zeros(b + 1)
            for c in range(1, a + 1):
                product: np.ndarray = np.ones(1)
                for m in range(1, b + 1):
                    product = np.polymul(product, [-c / m, (m - 1) / m])
                total += (-1) ** c * math.comb(a, c) * product
            found[a, b] = [float(number) for number in total]
    return found


_POLYNOMIALS = _rescaling_polynomials()


def _rescaled(rows: Sequence[Rows], order: Rows, factor: Rows) -> list[Rows]:
    """Return the differences for steps of another length."""
    found = [*rows]
    for a in range(1, MOST_ORDER + 1):
        total = zeros_like(rows[a])
        for b in range(a, MOST_ORDER + 1):
            weight = factor * 0.0
            for number in _POLYNOMIALS[a, b]:
                weight = weight * factor + number
            total = total + expand_dims(where(order >= b, weight, 0.0), 1) * rows[b]
        found[a] = choose((order >= a) & (factor != 1.0), total, rows[a])
    return found


def _picked(table: Sequence[float], order: Rows) -> Rows:
    """Return the entry of a table for each order."""
    found = order * 0.0
    for k, number in enumerate(table):
        found = where(order == k, float(number), found)
    return found


def _row(rows: Sequence[Rows], place: Rows) -> Rows:
    """Return the difference of the given order of each trajectory."""
    found = zeros_like(rows[0])
    for k in range(1, len(rows)):
        found = choose(place == k, rows[k], found)
    return found


def _mixed(rows: Sequence[Rows], weights: Sequence[Rows], order: Rows) -> Rows:
    """Return the state plus weighted differences of the orders 1 to `order`."""
    found = rows[0]
    for k in range(1, MOST_ORDER + 1):
        found = found + expand_dims(where(order >= k, weights[k], 0.0), 1) * rows[k]
    return found


def _behind(rows: Sequence[Rows], order: Rows, fraction: Rows) -> Rows:
    """Return the states that lie fractions of a step, 0 to -1, behind the last ones."""
    weights = [fraction * 0.0 + 1.0]
    for k in range(MOST_ORDER):
        weights.append(weights[-1] * (fraction + k) / (k + 1.0))
    return _mixed(rows, weights, order)


def _accepted(rows: Sequence[Rows], order: Rows, correction: Rows) -> list[Rows]:
    """Return the differences after a step."""
    found, suffix = [*rows], correction
    beyond = correction - _row(rows, order + 1)
    for k in range(MOST_ORDER + 2, -1, -1):
        if k <= MOST_ORDER:
            suffix = choose(order >= k, suffix + rows[k], suffix)
        ahead = choose(order + 2 == k, beyond, rows[k])
        found[k] = choose(order >= k, suffix, choose(order + 1 == k, correction, ahead))
    return found


class _Equations(NamedTuple):
    """The equations of one step of every trajectory: correction = length f(t, y) - past."""

    t: Rows
    length: Rows
    predicted: Rows
    past: Rows

    def exact(self, field: Field, found: Rows) -> Rows:
        """Return the solution with implicit derivatives if a tape is recording."""
        if not is_recording():
            return found

        def one(t: Any, length: Any, predicted: Any, past: Any, found: Any) -> Any:
            return with_implicit_derivatives(
                lambda z: z - (length * field.one(t, predicted + z) - past), found
            )

        return field.problems.call(one, *self, found)

    def solve(self, field: Field, goal: Tolerance) -> tuple[Rows, Rows, Rows]:
        """Return solutions without derivatives, whether they were found, and iteration counts."""
        t, length, predicted, past = (stop_gradient(part) for part in self)
        wide = expand_dims(length, 1)
        matrix = field.matrix(t, predicted)
        unit = numbers_like(predicted, np.eye(int(predicted.shape[1])))
        inverse = inverse_of(unit - expand_dims(wide, 2) * matrix)
        limit = max(10 * eps_of(predicted) / goal.rtol, min(0.03, goal.rtol**0.5))
        never, zero = length * 0.0 > 1.0, length * 0.0

        def iteration(found: Rows, before: Rows, number: Rows, converges: Rows) -> list[Rows]:
            implied = wide * field(t, predicted + found) - past
            change = products(inverse, implied - found)
            now = goal.size(change, predicted)
            pace = where(number > 0.0, now / where(before > 0.0, before, 1.0), 0.0)
            slows = pace < 1.0
            rate = pace / where(slows, 1.0 - pace, 1.0)
            done = (now == 0.0) | ((number > 0.0) & slows & (rate * now < limit))
            number = number + 1.0
            goes_on = ~done & slows & (now < _INFINITE) & (number < MOST_ITERATIONS)
            return [goes_on, found + change, now, number, done]

        state = (zeros_like(predicted), zero, zero, never)
        found, _, number, converges = field.problems.iterate(iteration, ~never, state)
        return found, converges, number


class ManyBDF:
    """Backward differentiation formulas of variable order."""

    is_implicit = True
    error_order = 1

    def integrate(self, field: Field, y: Rows, times: Rows, steps: Steps) -> Trajectories:
        """Integrate from the first to the last of the times."""
        with in_frame(None):
            start, last, signs = times[:, 0], times[:, -1], signs_of(times)
            slope = field(start, y)
            still = stop_gradient(slope)
            is_finite = sum_over(abs(stop_gradient(y)) + abs(still), 1) < _INFINITE
            status = where(is_finite, 0, TOO_SMALL)
            step, calls = first_step(field, start, y, still, signs, steps)
            step = minimum(step, _limit(abs(last - start), steps))
            nothing = [zeros_like(y)] * (MOST_ORDER + 1)
            rows = [y, slope * expand_dims(signs * step, 1), *nothing]

            def interval(carried: list[Any], entry: list[Any]) -> tuple[list[Any], list[Any]]:
                attempt = _attempt(field, signs, entry[0], last, steps)
                goes_on = (carried[4] == 0) & (signs * (entry[0] - carried[0]) > 0.0)
                carried = [*field.problems.iterate(attempt, goes_on, carried)]
                t, step, order, _, status, _, *rows = carried
                seen = _behind(rows, order, (entry[0] - t) / (signs * step))
                return carried, [choose(status == 0, seen, math.nan)]

            zero = step * 0.0
            carried = [start, step, zero + 1.0, zero, status, calls, *rows]
            if times.shape[1] == 1:
                return Trajectories(expand_dims(y, 0), status, calls)
            ends = [times[:, 1:].transpose()]
            carried, (seen,) = loop(interval, carried, ends, int(times.shape[1]) - 1)
            return Trajectories(concat([expand_dims(y, 0), seen], 0), carried[4], carried[5])


def _limit(rest: Rows, steps: Steps) -> Rows:
    """Return the longest step to take with a rest of the span to go."""
    return minimum(where(rest > 0.0, rest, _INFINITE), steps.max_step)


def _attempt(
    field: Field, signs: Rows, end: Rows, last: Rows, steps: Steps
) -> Callable[..., list[Rows]]:
    """Return the function that tries one step of every trajectory until it passes `end`."""

    def attempt(
        t: Rows, step: Rows, order: Rows, equal: Rows, status: Rows, calls: Rows, *rows: Rows
    ) -> list[Rows]:
        new = where(step >= abs(last - t), last, t + signs * step)
        scale = _picked(1.0 / np.maximum(ALPHA, 1.0), order)
        weights = [float(number) * scale for number in GAMMA]
        past = _mixed([zeros_like(rows[0]), *rows[1:]], weights, order)
        length = signs * step * scale
        predicted = _mixed(rows, [order * 0.0 + 1.0] * (MOST_ORDER + 1), order)
        equations = _Equations(new, length, predicted, past)
        with without_recording():
            found, converges, number = equations.solve(field, steps.goal)
            change = expand_dims(_picked(ERRORS, order), 1) * found
            error = steps.goal.size(change, stop_gradient(predicted) + found)
        accepts = converges & (error <= 1.0)
        exact = equations.exact(field, choose(accepts, found, zeros_like(found)))
        after = _accepted(rows, order, exact)
        rows = tuple(choose(accepts, a, b) for a, b in zip(after, rows))
        equal = where(accepts, equal + 1.0, equal)
        safety = SAFETY * (2.0 * MOST_ITERATIONS + 1.0) / (2.0 * MOST_ITERATIONS + number)
        with without_recording():
            better, growth = _best_order(rows, order, error, steps.goal)
        grows = accepts & (equal >= order + 1.0)
        shrunk = maximum(LEAST, safety * _power(error, order + 1.0))
        factor = where(grows, minimum(MOST, safety * growth), where(accepts, 1.0, shrunk))
        factor = where(converges, factor, 0.5)
        order = where(grows, better, order)
        t = where(accepts, new, t)
        following = minimum(step * factor, _limit(abs(last - t), steps))
        factor = following / step
        rows = tuple(_rescaled(rows, order, factor))
        equal = where(factor == 1.0, equal, 0.0)
        too_small = ~(following > 10.0 * eps_of(t) * maximum(abs(t), 1e-300))
        status = where(too_small, TOO_SMALL, status)
        goes_on = ~too_small & (signs * (end - t) > 0.0)
        calls = calls + cast(number, numpy_dtype_of(calls))
        return [goes_on, t, following, order, equal, status, calls, *rows]

    return attempt


def _power(error: Rows, order: Rows) -> Rows:
    """Return by how much a step of an order can be longer if its error is that."""
    return exp(0.0 - log(minimum(maximum(error, 1e-30), 1e30)) / order)


def _best_order(
    rows: Sequence[Rows], order: Rows, error: Rows, goal: Tolerance
) -> tuple[Rows, Rows]:
    """Return the order, at most one off, that promises the longest step, and its factor."""
    rows = [stop_gradient(row) for row in rows]
    lower = goal.size(expand_dims(_picked(ERRORS, order - 1.0), 1) * _row(rows, order), rows[0])
    higher = goal.size(
        expand_dims(_picked(ERRORS, order + 1.0), 1) * _row(rows, order + 2.0), rows[0]
    )
    less = where(order > 1.0, _power(lower, order), 0.0)
    same = _power(error, order + 1.0)
    more = where(order < MOST_ORDER, _power(higher, order + 2.0), 0.0)
    best = maximum(maximum(less, same), more)
    turn = where(less == best, -1.0, where(same == best, 0.0, 1.0))
    return order + turn, best
