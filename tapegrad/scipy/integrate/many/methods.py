"""One attempted step of every trajectory, by an explicit method or by Radau IIA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapegrad.autodiff.transforms import jacobian
from tapegrad.ops.linalg.solve import inv_p
from tapegrad.scipy.integrate.explicit import Tableau, mix
from tapegrad.scipy.integrate.radau import ERRORS, REAL, STAGES, TIMES
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.problems import Problems, Rows
from tapegrad.scipy.small_systems import products
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    concat,
    eps_of,
    every,
    expand_dims,
    maximum,
    mean,
    numbers_like,
    sqrt,
    stop_gradient,
    where,
    zeros_like,
)

_MOST_ITERATIONS = 7
_INFINITE = float("inf")


@dataclass(frozen=True)
class Field:
    """The right-hand sides of all trajectories as a function of times and flat states."""

    problems: Problems
    one: Callable[[Any, Any], Any]
    """The right-hand side of one trajectory: a time and a flat state, to a flat slope."""

    def __call__(self, t: Rows, y: Rows) -> Rows:
        return self.problems.call(self.one, t, y)

    def still(self, t: Rows, y: Rows) -> Rows:
        """Return the slopes as constants."""
        with without_recording():
            return self(t, stop_gradient(y))

    def matrix(self, t: Rows, y: Rows) -> Rows:
        """Return the Jacobians as constants."""
        with without_recording():
            return self.problems.call(
                lambda t, y: jacobian(lambda x: self.one(t, x))(y), t, stop_gradient(y)
            )


@dataclass(frozen=True)
class Tolerance:
    """The relative and the absolute tolerance."""

    rtol: float
    atol: float

    def scaled(self, change: Rows, *states: Rows) -> Rows:
        """Return a change divided by its tolerance."""
        scale = abs(states[0])
        for state in states[1:]:
            scale = maximum(scale, abs(state))
        return change / (scale * self.rtol + self.atol)

    def size(self, change: Rows, *states: Rows) -> Rows:
        """Return the root mean square of a change divided by its tolerance."""
        scaled = self.scaled(change, *states)
        return sqrt(mean(scaled * scaled, 1))


class ManyAttempts(NamedTuple):
    """New states, slopes there, and errors relative to the tolerance; see `Attempt`."""

    after: Rows
    slope: Rows
    error: Rows
    calls: Rows | int


class ManyMethod(Protocol):
    """A one-step method for all trajectories."""

    error_order: int
    is_implicit: bool

    def attempt(
        self, field: Field, t: Rows, y: Rows, slope: Rows, step: Rows, goal: Tolerance
    ) -> ManyAttempts:
        """Try a step of every trajectory."""


class ManyExplicit:
    """An explicit Runge-Kutta method."""

    is_implicit = False

    def __init__(self, tableau: Tableau) -> None:
        self._tableau, self.error_order = tableau, tableau.error_order

    def attempt(
        self, field: Field, t: Rows, y: Rows, slope: Rows, step: Rows, goal: Tolerance
    ) -> ManyAttempts:
        tableau, wide = self._tableau, expand_dims(step, 1)
        slopes = [slope]
        for time, weights in zip(tableau.times[1:], tableau.stages[1:], strict=True):
            slopes.append(field(t + time * step, y + wide * mix(weights, slopes)))
        after = y + wide * mix(tableau.weights, slopes)
        slopes.append(field(t + step, after))
        fine = goal.scaled(wide * mix(tableau.errors, slopes), y, after)
        error = mean(fine * fine, 1)
        if tableau.coarse is None:
            error = sqrt(error)
        else:
            crude = goal.scaled(wide * mix(tableau.coarse, slopes), y, after)
            both = error + 0.01 * mean(crude * crude, 1)
            error = error / where(both > 0.0, sqrt(both), 1.0)
        return ManyAttempts(after, slopes[-1], error, len(slopes) - 1)


class ManyRadau:
    """Radau IIA of order 5; enclosing tapes record each step by its implicit derivatives."""

    is_implicit = True
    error_order = 3

    def attempt(
        self, field: Field, t: Rows, y: Rows, slope: Rows, step: Rows, goal: Tolerance
    ) -> ManyAttempts:
        size = int(y.shape[1])
        matrix = field.matrix(t, y)
        with without_recording():
            moves, converges, calls = self._stages(field, t, stop_gradient(y), step, matrix, goal)
        after = y + self._exact(field, t, y, step, moves)[:, 2 * size :]
        with without_recording():
            still, ahead = stop_gradient(y), stop_gradient(after)
            wide = expand_dims(step, 1)
            parts = [w * moves[:, i * size : (i + 1) * size] for i, w in enumerate(ERRORS)]
            weighted = (parts[0] + parts[1] + parts[2]) / wide
            unit = numbers_like(y, np.eye(size))
            inverse = inverse_of(unit * (REAL / expand_dims(wide, 2)) - matrix)
            estimate = products(inverse, slope + weighted)
            error = goal.size(estimate, still, ahead)
            # The first slope overestimates the error of a stiff start.
            second = products(inverse, field(t, still + estimate) + weighted)
            error = where(error < 1.0, error, goal.size(second, still, ahead))
            error = where(converges, error, _INFINITE)
            return ManyAttempts(after, field(t + step, ahead), error, calls + 2)

    def _exact(self, field: Field, t: Rows, y: Rows, step: Rows, moves: Rows) -> Rows:
        """Return the stages with implicit derivatives if a tape is recording."""
        if not is_recording():
            return moves

        def one(t: Any, y: Any, step: Any, moves: Any) -> Any:
            return with_implicit_derivatives(
                lambda z: z - _implied(field.one, t, y, step, z), moves
            )

        return field.problems.call(one, t, y, step, moves)

    def _stages(
        self, field: Field, t: Rows, y: Rows, step: Rows, matrix: Rows, goal: Tolerance
    ) -> tuple[Rows, Rows, Rows]:
        """Solve the stage equations of every trajectory by simplified Newton iterations."""
        size = int(y.shape[1])
        unit = numbers_like(y, np.eye(3 * size))
        stages = numbers_like(y, STAGES)
        count = matrix.shape[0]
        product = broadcast_p(
            expand_dims(expand_dims(stages, 1), 3), shape=(3, 1, 3, 1)
        ) * expand_dims(expand_dims(matrix, 1), 3)
        product = product.reshape((count, 3 * size, 3 * size))
        inverse = inverse_of(unit - expand_dims(expand_dims(step, 1), 2) * product)
        states = concat([y, y, y], 1)
        limit = max(10 * eps_of(y) / goal.rtol, min(0.03, goal.rtol**0.5))
        never, zero = step * 0.0 > 1.0, step * 0.0

        def iteration(moves: Rows, before: Rows, number: Rows, converges: Rows) -> list[Rows]:
            implied = field.problems.call(
                lambda t, y, h, z: _implied(field.one, t, y, h, z), t, y, step, moves
            )
            change = products(inverse, implied - moves)
            now = goal.size(change, states)
            pace = where(number > 0, now / where(before > 0.0, before, 1.0), 0.0)
            slows = pace < 1.0
            rate = pace / where(slows, 1.0 - pace, 1.0)
            done = (now == 0.0) | ((number > 0) & slows & (rate * now < limit))
            number = number + 1
            goes_on = ~done & slows & (now < _INFINITE) & (number < _MOST_ITERATIONS)
            return [goes_on, moves + change, now, number, done]

        state = (zeros_like(states), zero, where(never, 1, 0), never)
        moves, _, number, converges = field.problems.iterate(iteration, ~never, state)
        return moves, converges, 3 * number


def inverse_of(matrices: Rows) -> Rows:
    """Return the inverse of every trajectory's matrix; of the identity where it is not finite."""
    is_finite = every(abs(matrices) < _INFINITE, (1, 2), keepdims=True)
    return inv_p(where(is_finite, matrices, numbers_like(matrices, np.eye(matrices.shape[1]))))


def _implied(one: Callable[[Any, Any], Any], t: Any, y: Any, step: Any, moves: Any) -> Any:
    """Return the displacements that the slopes at the current stages imply, for one trajectory."""
    size = int(y.shape[0])
    slopes = [
        one(t + time * step, y + moves[i * size : (i + 1) * size]) for i, time in enumerate(TIMES)
    ]
    rows = [
        float(row[0]) * slopes[0] + float(row[1]) * slopes[1] + float(row[2]) * slopes[2]
        for row in STAGES
    ]
    return step * concat(rows, 0)
