"""Adaptive steps of Dormand and Prince's method of order 5(4), in tapegrad's operations.

The states stay on their device. The host reads one number per step, the size of the error, by
which it chooses the next step; so a solver cannot be part of a recorded function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.magnitude import abs as absolute
from tapegrad.ops.powers import sqrt
from tapegrad.ops.reduction import mean
from tapegrad.ops.selection import maximum
from tapegrad.ops.stop_gradient import stop_gradient

Field = Callable[[float, Any], Any]
"""The right-hand side: the slope at a time (a Python number) and a state."""

_TIMES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
_STAGES: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
_WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ERRORS = (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0


@dataclass
class Control:
    """How large an error a step may make, and how often the field was asked."""

    rtol: float
    atol: float
    max_step: float = math.inf
    first_step: float | None = None
    calls: int = 0

    def ask(self, field: Field, t: float, y: Any) -> Any:
        """Return the slope as a constant, and count the call."""
        self.calls += 1
        return stop_gradient(field(t, y))

    def size(self, change: Any, *states: Any) -> float:
        """Return the root mean square of a change over what is allowed of it."""
        scale = absolute(states[0])
        for state in states[1:]:
            scale = maximum(scale, absolute(state))
        share = change / (scale * self.rtol + self.atol)
        return float(sqrt(mean(share * share)))


def _first_step(field: Field, t: float, y: Any, slope: Any, sign: float, control: Control) -> float:
    """Guess a step from the sizes of the first two derivatives (Hairer, Nørsett and Wanner)."""
    if control.first_step is not None:
        return control.first_step
    value, first = control.size(y, y), control.size(slope, y)
    step = 1e-6 if value < 1e-5 or first < 1e-5 else 0.01 * value / first
    ahead = control.ask(field, t + sign * step, y + sign * step * slope)
    second = control.size(ahead - slope, y) / step
    steepest = max(first, second)
    guess = max(1e-6, step * 1e-3) if steepest <= 1e-15 else (0.01 / steepest) ** 0.2
    return min(100 * step, guess, control.max_step)


def _step(
    field: Field, t: float, y: Any, slope: Any, step: float, control: Control
) -> tuple[Any, Any, Any]:
    """Return the state after a step, the slope there, and the estimate of the error."""
    slopes = [slope]
    for time, weights in list(zip(_TIMES, _STAGES))[1:]:
        slopes.append(control.ask(field, t + time * step, y + step * _mix(weights, slopes)))
    after = y + step * _mix(_WEIGHTS, slopes)
    slopes.append(control.ask(field, t + step, after))
    return after, slopes[-1], step * _mix(_ERRORS, slopes)


def _mix(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    parts = [weight * slope for weight, slope in zip(weights, slopes) if weight]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def integrate(
    field: Field, y: Any, times: Sequence[float], control: Control, every_step: bool = False
) -> tuple[list[float], list[Any]]:
    """Return the times and the states there; with `every_step`, also those after each step.

    Steps end at the given times, so what is returned is never interpolated. Nothing is recorded.

    >>> from tapegrad.scipy.operands import operand
    >>> _, states = integrate(lambda t, y: -y, operand(1.0), [0.0, 1.0], Control(1e-9, 1e-9))
    >>> abs(float(states[-1]) - math.exp(-1)) < 1e-8
    True
    """
    y = stop_gradient(y)
    t = times[0]
    found_times, found = [t], [y]
    if len(times) == 1:
        return found_times, found
    sign = math.copysign(1.0, times[-1] - t)
    slope = control.ask(field, t, y)
    step = _first_step(field, t, y, slope, sign, control)
    for end in times[1:]:
        if (end - t) * sign < 0:
            raise ArgumentError("The times of an integration must go in one direction.")
        while t != end:
            before = t
            t, y, slope, step = _accepted(field, t, y, slope, step, end, control)
            if every_step and t != end:
                found_times.append(t)
                found.append(y)
            if t == before:
                raise _too_small(t)
        found_times.append(end)
        found.append(y)
    return found_times, found


def _accepted(
    field: Field, t: float, y: Any, slope: Any, step: float, end: float, control: Control
) -> tuple[float, Any, Any, float]:
    """Try steps until one is exact enough; return where it leads and the step to try next."""
    sign = math.copysign(1.0, end - t)
    factor_limit = _MOST
    while True:
        step = min(step, control.max_step)
        if not step > 10 * abs(math.nextafter(t, sign * math.inf) - t):
            raise _too_small(t)
        rest = abs(end - t)
        is_last = step >= rest
        taken = rest if is_last else step
        after, slope_after, error = _step(field, t, y, slope, sign * taken, control)
        size = control.size(error, y, after)
        if size < 1:
            factor = factor_limit if size == 0 else min(factor_limit, _SAFETY * size**-0.2)
            # A step that was cut short at an output time says little about the next one.
            following = max(step, taken * factor) if is_last else taken * factor
            return (end if is_last else t + sign * taken), after, slope_after, following
        factor_limit = 1.0
        step = taken * (max(_LEAST, _SAFETY * size**-0.2) if size < math.inf else _LEAST)


def _too_small(t: float) -> ArgumentError:
    return ArgumentError(
        f"The step size has become too small at t = {t!r}: the solution grows without bound "
        "there, or the tolerances are below the precision of its dtype."
    )
