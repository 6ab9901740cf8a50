"""Line searches of many problems: each round evaluates one point of every active problem.

The search is that of Nocedal and Wright (algorithms 3.5 and 3.6) as a state machine. Before a
minimum is bracketed, `low` is the last trial, and the step doubles. Afterwards the minimum lies
between `low`, the best trial, and `high`, and a cubic proposes the next step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tapegrad.scipy.problems import Rows
from tapegrad.scipy.vocabulary import maximum, minimum, sqrt, where

_ENOUGH = 1e-4
_MOST_TRIALS = 30
_INFINITE = float("inf")


class Trial(NamedTuple):
    """A step of every problem, and the value and the slope there."""

    step: Rows
    value: Rows
    slope: Rows


class Search(NamedTuple):
    """The state of the line search of every problem; it has no array with more than one axis."""

    step: Rows
    low: Trial
    high: Trial
    is_bracketed: Rows
    takes_low: Rows
    trials: Rows

    def flat(self) -> list[Rows]:
        """Return the fields as a list of arrays."""
        return [self.step, *self.low, *self.high, self.is_bracketed, self.takes_low, self.trials]

    @classmethod
    def of(cls, flat: Any) -> Search:
        """Return the state that has these fields."""
        step, *rest = flat
        return cls(step, Trial(*rest[:3]), Trial(*rest[3:6]), *rest[6:])


FIELDS = 10
"""The number of arrays in the state of a search."""


def begin(step: Rows, value: Rows, slope: Rows) -> Search:
    """Return the state of a search whose first trial is `step`."""
    zero = value * 0.0
    start, never = Trial(zero, value, slope), zero > 1.0
    return Search(step, start, start, never, never, where(never, 1, 0))


class Judgement(NamedTuple):
    """Which problems accept their trials, which have failed, and the state of the others."""

    accepts: Rows
    fails: Rows
    search: Search


def judge(search: Search, trial: Trial, value: Rows, slope: Rows, flat: float) -> Judgement:
    """Accept the trials that satisfy the strong Wolfe conditions; choose the next steps.

    `value` and `slope` are those at the beginning of the line.
    """
    low, high, is_bracketed = search.low, search.high, search.is_bracketed
    is_finite = (abs(trial.value) < _INFINITE) & (abs(trial.slope) < _INFINITE)
    is_later = is_bracketed | (search.trials > 0)
    is_high = trial.value > value + _ENOUGH * trial.step * slope
    is_high = is_high | (is_later & (trial.value >= low.value)) | ~is_finite
    is_flat = abs(trial.slope) <= -flat * slope
    accepts = is_finite & ((~is_high & is_flat) | search.takes_low)
    turns = where(is_bracketed, trial.slope * (high.step - low.step), trial.slope) >= 0.0
    last = Trial(trial.step, where(is_finite, trial.value, _INFINITE), trial.slope)
    new_high = _chosen(is_high, last, _chosen(turns, low, high))
    new_low = _chosen(is_high, low, trial)
    brackets = is_bracketed | is_high | turns
    width = abs(new_high.step - new_low.step)
    trials = search.trials + 1
    is_narrow = brackets & (width <= 1e-12 * maximum(1.0, new_low.step))
    is_over = (is_narrow | (trials >= _MOST_TRIALS)) & ~accepts
    has_fallen = (new_low.step > 0.0) & (new_low.value < value) & ~search.takes_low
    step = where(brackets, _between(new_low, new_high), 2.0 * trial.step)
    takes_low = is_over & has_fallen
    step = where(takes_low, new_low.step, step)
    following = Search(step, new_low, new_high, brackets, takes_low, trials)
    return Judgement(accepts, is_over & ~has_fallen, following)


def _chosen(flags: Rows, one: Trial, other: Trial) -> Trial:
    return Trial(*[where(flags, a, b) for a, b in zip(one, other, strict=True)])


def _between(low: Trial, high: Trial) -> Rows:
    """Return the minimum of the cubic through both ends, away from them, or the midpoint."""
    width = high.step - low.step
    has_width = abs(width) > 0.0
    knows = (high.value < _INFINITE) & (abs(high.slope) < _INFINITE) & has_width
    rise = where(knows, high.value - low.value, 0.0) / where(has_width, width, 1.0)
    far = where(knows, high.slope, 0.0)
    bend = low.slope + far - 3.0 * rise
    square = bend * bend - low.slope * far
    root = sqrt(maximum(square, 0.0)) * where(width >= 0.0, 1.0, -1.0)
    bottom = far - low.slope + 2.0 * root
    is_known = knows & (square >= 0.0) & (abs(bottom) > 0.0)
    fraction = 1.0 - (far + root - bend) / where(abs(bottom) > 0.0, bottom, 1.0)
    fraction = minimum(maximum(fraction, 0.1), 0.9)
    return low.step + where(is_known & (fraction == fraction), fraction, 0.5) * width
