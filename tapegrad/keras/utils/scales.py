"""Axis scales and ticks of plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Scale:
    """A linear map from [`low`, `high`] to [`start`, `stop`].

    >>> Scale(0, 10, 100, 200).place(5)
    150.0
    """

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.stop - self.start)


def ticks_of(low: float, high: float, most: int = 6) -> list[float]:
    """Return at least two round values that cover a range.

    >>> ticks_of(0.13, 0.94)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if high <= low:
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    step = _step((high - low) / (most - 1))
    while ceil(high / step) - floor(low / step) + 1 > most:
        step = _step(step * 1.01)
    # Multiples of integers keep the values as round as possible.
    digits = 12 - floor(log10(step))
    return [round(k * step, digits) for k in range(floor(low / step), ceil(high / step) + 1)]


def whole_ticks_of(low: int, high: int, most: int = 8) -> list[int]:
    """Return round integers within a range.

    >>> whole_ticks_of(1, 5), whole_ticks_of(1, 40)
    ([1, 2, 3, 4, 5], [10, 20, 30, 40])
    """
    steps = (first * 10**power for power in range(18) for first in (1, 2, 5))
    step = next(step for step in steps if (high - low) / step <= most - 1)
    return [number for number in range(low, high + 1) if number % step == 0]


def _step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5 or 5 times a power of ten that is at least `least`."""
    power = 10.0 ** floor(log10(least))
    return next(power * step for step in _STEPS if power * step >= least * (1 - 1e-9))


def label(value: float, ticks: Sequence[float]) -> str:
    """Return the label of a tick on an axis with these ticks.

    >>> [label(value, [0.0, 0.25, 0.5]) for value in [0.0, 0.25, 0.5]]
    ['0.00', '0.25', '0.50']
    >>> label(2e-5, [1e-5, 2e-5]), label(20000.0, [10000.0, 20000.0])
    ('2e-05', '20000')
    """
    step = ticks[1] - ticks[0]
    largest = max(map(abs, ticks))
    if largest >= 1e6 or step < 1e-4:
        return "0" if value == 0 else f"{value:.4g}"
    decimals = next(k for k in range(8) if abs(step * 10**k - round(step * 10**k)) < 1e-6)
    return f"{value:.{decimals}f}"
