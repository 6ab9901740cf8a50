"""Line search for a step that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ENOUGH = 1e-4
_MOST_TRIALS = 30


@dataclass(frozen=True)
class Trial:
    """A point on the line: step, value, slope and attached data."""

    step: float
    value: float
    slope: float
    point: Any = None


def search(
    at: Callable[[float], Trial], start: Trial, first: Trial, flat: float = 0.9
) -> Trial | None:
    """Return a trial that satisfies the strong Wolfe conditions, or None.

    The search begins with the trial `first`. It follows algorithms 3.5 and 3.6 of Nocedal and
    Wright, Numerical Optimization.

    >>> def at(step):
    ...     return Trial(step, (step - 2) ** 2, 2 * (step - 2))
    >>> search(at, at(0.0), at(1.0)).step
    1.0
    """
    before, trial = start, first
    for count in range(_MOST_TRIALS):
        if not math.isfinite(trial.value):
            trial = at(0.5 * (before.step + trial.step))
            continue
        if _is_too_high(trial, start) or (count and trial.value >= before.value):
            return _zoom(at, start, before, trial, flat)
        if abs(trial.slope) <= -flat * start.slope:
            return trial
        if trial.slope >= 0:
            return _zoom(at, start, trial, before, flat)
        before, trial = trial, at(2 * trial.step)
    return None


def _is_too_high(trial: Trial, start: Trial) -> bool:
    return trial.value > start.value + _ENOUGH * trial.step * start.slope


def _zoom(
    at: Callable[[float], Trial], start: Trial, low: Trial, high: Trial, flat: float
) -> Trial | None:
    """Narrow an interval that contains an acceptable step; `low` is the best trial so far."""
    for _ in range(_MOST_TRIALS):
        trial = at(_between(low, high))
        if _is_too_high(trial, start) or not trial.value < low.value:
            high = trial
        else:
            if abs(trial.slope) <= -flat * start.slope:
                return trial
            if trial.slope * (high.step - low.step) >= 0:
                high = low
            low = trial
        if abs(high.step - low.step) <= 1e-12 * max(1.0, low.step):
            break
    return low if low.step > 0 and low.value < start.value else None


def _between(low: Trial, high: Trial) -> float:
    """Return the minimum of the cubic through both ends, away from them, or the midpoint."""
    width = high.step - low.step
    middle = low.step + 0.5 * width
    if not math.isfinite(high.value) or not math.isfinite(high.slope):
        return middle
    bend = low.slope + high.slope - 3 * (high.value - low.value) / width
    square = bend * bend - low.slope * high.slope
    if square < 0:
        return middle
    root = math.copysign(math.sqrt(square), width)
    bottom = high.slope - low.slope + 2 * root
    if bottom == 0:
        return middle
    fraction = 1 - (high.slope + root - bend) / bottom
    return low.step + min(max(fraction, 0.1), 0.9) * width if math.isfinite(fraction) else middle
