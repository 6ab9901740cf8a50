"""Dense output: the solution of solve_ivp as a function of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.scipy.integrate.control import Field, Method
from tapegrad.scipy.vocabulary import as_constant, stack


class OdeSolution:
    """The solution at any time, by one step of the method from the previous time.

    It is as accurate as the steps and differentiable through the states that they start at. Before
    the first and after the last time it extrapolates.

    >>> from tapegrad.scipy.integrate import solve_ivp
    >>> sol = solve_ivp(lambda t, y: -y, (0, 1), [1.0], dense_output=True, rtol=1e-8).sol
    >>> sol([0.0, 0.5]).round(5).tolist()
    [[1.0, 0.60653]]
    """

    def __init__(self, field: Field, method: Method, times: list[float], states: Any) -> None:
        self._field, self._method, self._times, self._states = field, method, times, states
        self.ts = as_constant(np.array(times))
        self.t_min, self.t_max = min(times), max(times)

    def __call__(self, t: Any) -> Any:
        """Return the state at a time, or the states at several times along the last axis."""
        if np.ndim(t) == 0:
            return self._at(float(t))
        return stack([self._at(float(one)) for one in t], axis=-1)

    def times_and_states(self) -> tuple[list[float], Any]:
        """Return the times of the steps and the states along the first axis."""
        return self._times, self._states

    def _at(self, t: float) -> Any:
        start = _index_before(self._times, t)
        y = self._states[start]
        step = t - self._times[start]
        return y if step == 0 else self._method.advance(self._field, self._times[start], y, step)


def _index_before(times: Sequence[float], t: float) -> int:
    """Return the index of the last time that is not after t in the direction of integration."""
    sign = 1.0 if times[-1] >= times[0] else -1.0
    return max(bisect_right([sign * time for time in times], sign * t) - 1, 0)
