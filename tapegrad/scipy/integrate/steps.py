"""Adaptive step size control for all methods.

The states stay on their device. The host reads one number per step, the error norm, to choose the
next step. Therefore a solver cannot be part of a recorded function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tapegrad.errors import ArgumentError
from tapegrad.scipy.integrate.control import Control, Field, Multistep
from tapegrad.scipy.vocabulary import stop_gradient

_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0


class Step(NamedTuple):
    """An accepted step; `stages` belong to an implicit method."""

    start: float
    end: float
    before: Any
    after: Any
    stages: Any


Stop = Callable[[Step], bool]
"""Returns whether to end the integration after a step."""


def first_step(field: Field, t: float, y: Any, slope: Any, sign: float, control: Control) -> float:
    """Guess the first step from the norms of two derivatives (Hairer, Nørsett and Wanner)."""
    if control.first_step is not None:
        return control.first_step
    value, first = control.size(y, y), control.size(slope, y)
    step = 1e-6 if value < 1e-5 or first < 1e-5 else 0.01 * value / first
    ahead = control.evaluate(field, t + sign * step, y + sign * step * slope)
    second = control.size(ahead - slope, y) / step
    steepest = max(first, second)
    power = 1 / (control.method.error_order + 1)
    guess = max(1e-6, step * 1e-3) if steepest <= 1e-15 else (0.01 / steepest) ** power
    return min(100 * step, guess, control.max_step)


def integrate(
    field: Field,
    y: Any,
    times: Sequence[float],
    control: Control,
    every_step: bool = False,
    stop: Stop | None = None,
) -> tuple[list[float], list[Any], list[Any]]:
    """Return the times and the states there; with `every_step`, also those after each step.

    Steps end at the given times, so that no state is interpolated. Nothing is recorded. The third
    list holds the steps of implicit methods, for their `repeat`.

    >>> from tapegrad.scipy.vocabulary import operand
    >>> from tapegrad.scipy.integrate.explicit import RK45
    >>> control = Control(1e-9, 1e-9, RK45)
    >>> _, states, _ = integrate(lambda t, y: -y, operand(1.0), [0.0, 1.0], control)
    >>> abs(float(states[-1]) - math.exp(-1)) < 1e-8
    True
    """
    y = stop_gradient(y)
    t = times[0]
    found_times, found, steps = [t], [y], []
    if len(times) == 1:
        return found_times, found, []
    if isinstance(control.method, Multistep):
        return control.method.integrate(field, y, times, control, every_step, stop)
    sign = math.copysign(1.0, times[-1] - t)
    slope = control.evaluate(field, t, y)
    step = first_step(field, t, y, slope, sign, control)
    for end in times[1:]:
        if (end - t) * sign < 0:
            raise ArgumentError("The times of an integration must be increasing or decreasing.")
        while t != end:
            taken, slope, step = _accepted(field, t, y, slope, step, end, control)
            if taken.end == t:
                raise too_small(t)
            t, y = taken.end, taken.after
            if control.method.is_implicit:
                steps.append(taken)
            if every_step and t != end:
                found_times.append(t)
                found.append(y)
            if stop is not None and stop(taken):
                return [*found_times, t], [*found, y], steps
        found_times.append(end)
        found.append(y)
    return found_times, found, steps


def _accepted(
    field: Field, t: float, y: Any, slope: Any, step: float, end: float, control: Control
) -> tuple[Step, Any, float]:
    """Try steps until one meets the tolerance; return it, the slope after it, and the next size."""
    sign = math.copysign(1.0, end - t)
    factor_limit = _MOST
    power = -1 / (control.method.error_order + 1)
    while True:
        step = min(step, control.max_step)
        if not step > least_step(t, sign):
            raise too_small(t)
        rest = abs(end - t)
        is_last = step >= rest
        length = rest if is_last else step
        control.is_retry = factor_limit == 1.0
        tried = control.method.attempt(field, t, y, slope, sign * length, control)
        size = tried.error
        if size < 1:
            factor = factor_limit if size == 0 else min(factor_limit, _SAFETY * size**power)
            # A step shortened by an output time says little about the next step size.
            following = max(step, length * factor) if is_last else length * factor
            arrived = end if is_last else t + sign * length
            return Step(t, arrived, y, tried.after, tried.stages), tried.slope, following
        factor_limit = 1.0
        step = length * (max(_LEAST, _SAFETY * size**power) if size < math.inf else _LEAST)


def least_step(t: float, sign: float) -> float:
    """Return the length that steps from a time in a direction must exceed.

    >>> least_step(1.0, 1.0) < 1e-14
    True
    """
    return 10 * abs(math.nextafter(t, sign * math.inf) - t)


def too_small(t: float) -> ArgumentError:
    """Return the error of steps that became too small."""
    return ArgumentError(
        f"The step size has become too small at t = {t!r}: the solution grows without bound "
        "there, or the tolerances are below the precision of its dtype."
    )
