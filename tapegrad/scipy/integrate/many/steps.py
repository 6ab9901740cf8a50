"""Step size control for many trajectories: each has its own steps, as if it were alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tapegrad.autodiff.batching import in_frame
from tapegrad.ops.control.loops import loop
from tapegrad.scipy.integrate.many.methods import Field, ManyMethod, Tolerance
from tapegrad.scipy.problems import Rows, choose
from tapegrad.scipy.vocabulary import (
    concat,
    eps_of,
    expand_dims,
    maximum,
    minimum,
    stop_gradient,
    sum_over,
    where,
)

_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0
TOO_SMALL = -1
"""The status of a trajectory whose steps became too small, as in SciPy."""


@runtime_checkable
class ManyMultistep(Protocol):
    """A method whose steps depend on the steps before."""

    error_order: int
    is_implicit: bool

    def integrate(self, field: Field, y: Rows, times: Rows, steps: Steps) -> Trajectories:
        """See `integrate_many`."""


@dataclass(frozen=True)
class Steps:
    """The method, the tolerances and the limits of steps."""

    method: ManyMethod | ManyMultistep
    goal: Tolerance
    max_step: float = math.inf
    first_step: float | None = None


@dataclass(frozen=True)
class Trajectories:
    """The states at the requested times, time first; NaN after a trajectory has failed."""

    states: Rows
    status: Rows
    calls: Rows


def integrate_many(field: Field, y: Rows, times: Rows, steps: Steps) -> Trajectories:
    """Integrate from the first to the last of the times; both have a row per trajectory.

    The steps of a one-step method end at the times.
    """
    method = steps.method
    if isinstance(method, ManyMultistep):
        return method.integrate(field, y, times, steps)
    with in_frame(None):
        start, signs = times[:, 0], signs_of(times)
        slope = field.still(start, y)
        is_finite = sum_over(abs(stop_gradient(y)) + abs(slope), 1) < math.inf
        step, calls = first_step(field, start, y, slope, signs, steps)
        status = where(is_finite, 0, TOO_SMALL)

        def interval(carried: list[Any], entry: list[Any]) -> tuple[list[Any], list[Any]]:
            t, *rest = carried
            attempt = _attempt(field, signs, entry[0], steps, method)
            state = (t, *rest[:3], t * 0.0 + _MOST, *rest[3:])
            goes_on = (rest[3] == 0) & (abs(entry[0] - t) > 0.0)
            t, y, slope, step, _, status, calls = field.problems.iterate(attempt, goes_on, state)
            seen = choose(status == 0, y, math.nan)
            return [t, y, slope, step, status, calls], [seen]

        ends = [times[:, 1:].transpose()]
        carried = [start, y, slope, step, status, calls]
        if times.shape[1] == 1:
            return Trajectories(expand_dims(y, 0), status, calls)
        last, (seen,) = loop(interval, carried, ends, int(times.shape[1]) - 1)
        return Trajectories(concat([expand_dims(y, 0), seen], 0), last[4], last[5])


def signs_of(times: Rows) -> Rows:
    """Return the directions of integration."""
    return where(times[:, -1] >= times[:, 0], 1.0, -1.0)


def _attempt(
    field: Field, signs: Rows, end: Rows, steps: Steps, method: ManyMethod
) -> Callable[..., list[Rows]]:
    """Return the function that tries one step of every trajectory towards `end`."""
    power = -1.0 / (method.error_order + 1)

    def attempt(
        t: Rows, y: Rows, slope: Rows, step: Rows, most: Rows, status: Rows, calls: Rows
    ) -> list[Rows]:
        step = minimum(step, steps.max_step)
        rest = abs(end - t)
        is_last = step >= rest
        length = where(is_last, where(rest > 0.0, rest, 1.0), step)
        tried = method.attempt(field, t, y, slope, signs * length, steps.goal)
        error = stop_gradient(tried.error)
        accepts = error < 1.0
        scaled = _SAFETY * maximum(error, 1e-30) ** power
        grown = length * minimum(most, scaled)
        # A step shortened by an output time says little about the next step size.
        following = where(is_last, maximum(step, grown), grown)
        shrunk = length * where(error < math.inf, maximum(_LEAST, scaled), _LEAST)
        step = where(accepts, following, shrunk)
        new = where(accepts, where(is_last, end, t + signs * length), t)
        too_small = ~(step > 10.0 * eps_of(t) * maximum(abs(new), 1e-300))
        y = choose(accepts, tried.after, y)
        slope = choose(accepts, stop_gradient(tried.slope), slope)
        status = where(too_small, TOO_SMALL, status)
        goes_on = ~too_small & ~(accepts & is_last)
        most = where(accepts, _MOST, 1.0)
        return [goes_on, new, y, slope, step, most, status, calls + tried.calls]

    return attempt


def first_step(
    field: Field, t: Rows, y: Rows, slope: Rows, signs: Rows, steps: Steps
) -> tuple[Rows, Rows]:
    """Guess the first steps from the norms of two derivatives; also return the numbers of calls."""
    one = where(t == t, 1, 1)
    if steps.first_step is not None:
        return t * 0.0 + float(steps.first_step), one
    goal, y = steps.goal, stop_gradient(y)
    value, first = goal.size(y, y), goal.size(slope, y)
    is_small = (value < 1e-5) | (first < 1e-5)
    step = where(is_small, 1e-6, 0.01 * value / where(is_small, 1.0, first))
    ahead = field.still(t + signs * step, y + expand_dims(signs * step, 1) * slope)
    second = goal.size(ahead - slope, y) / step
    steepest = maximum(first, second)
    power = 1.0 / (steps.method.error_order + 1)
    is_still = steepest <= 1e-15
    rate = (0.01 / where(is_still, 1.0, steepest)) ** power
    guess = where(is_still, maximum(1e-6, step * 1e-3), rate)
    return minimum(minimum(100.0 * step, guess), steps.max_step), one + 1
