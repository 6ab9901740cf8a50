"""Radau's implicit method of order 5 with three stages, for stiff equations.

The stages solve equations by Newton's iteration with the Jacobian of the field from the tape; the
host looks at each iteration. Derivatives of a step are those of the solution of its equations.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from tapegrad.autodiff.transforms import jacobian
from tapegrad.ops.linalg.solve import inv_p, solve
from tapegrad.ops.products import kron
from tapegrad.scipy.integrate.control import Attempt, Control, Field
from tapegrad.scipy.optimize.implicit import attached, quietly
from tapegrad.scipy.vocabulary import (
    concat,
    eps_of,
    numbers_like,
    numpy_dtype_of,
    reshape_p,
    stop_gradient,
    zeros_for,
)

# Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.8.
_ROOT = math.sqrt(6.0)
_TIMES = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
_STAGES = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)
_ERRORS = ((-13 - 7 * _ROOT) / 3, (-13 + 7 * _ROOT) / 3, -1 / 3)
_REAL = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
_MOST_ITERATIONS = 7


class Radau:
    """Radau IIA of order 5; stages are moves away from the state, one after the other."""

    name: ClassVar[str] = "Radau"
    error_order: ClassVar[int] = 3
    is_implicit: ClassVar[bool] = True

    def attempt(
        self, field: Field, t: float, y: Any, slope: Any, step: float, control: Control
    ) -> Attempt:
        shape, flat = tuple(y.shape), reshape_p(y, shape=(-1,))
        bent = _slopes_near(field, t, y, control)
        found = _solved(field, t, y, step, bent, control)
        if found is None:
            return Attempt(y, slope, math.inf)
        moves, size = found, flat.shape[0]
        pulled = sum(weight * moves[i * size : (i + 1) * size] for i, weight in enumerate(_ERRORS))
        after = y + reshape_p(moves[2 * size :], shape=shape)
        unit = numbers_like(y, np.eye(size))
        matrix = unit * (_REAL / step) - bent

        def missed_with(slope: Any) -> Any:
            start = reshape_p(slope, shape=(-1,))
            return reshape_p(solve(matrix, start + pulled / step), shape=shape)

        missed = missed_with(slope)
        error = control.size(missed, y, after)
        if error >= 1 and control.is_retry:
            # A stiff start is judged too harshly by its first slope.
            error = control.size(missed_with(control.ask(field, t, y + missed)), y, after)
        return Attempt(after, control.ask(field, t + step, after), error, moves)

    def advance(self, field: Field, t: float, y: Any, step: float) -> Any:
        with quietly():
            control = Control(1e-9, 1e-12, self)
            still = stop_gradient(y)
            moves = _solved(field, t, still, step, _slopes_near(field, t, still, control), control)
        return self.moved(field, t, y, step, moves)

    def moved(self, field: Field, t: float, y: Any, step: float, stages: Any) -> Any:
        """Return the state after a step whose stages are known, with their derivatives."""
        size = stages.shape[0] // 3
        exact = attached(lambda moves: moves - _wanted(field, t, y, step, moves), stages)
        return y + reshape_p(exact[2 * size :], shape=tuple(y.shape))


def _slopes_near(field: Field, t: float, y: Any, control: Control) -> Any:
    """The Jacobian of the field, as a matrix of constants."""
    control.matrices += 1
    shape = tuple(y.shape)

    def flat(x: Any) -> Any:
        return reshape_p(field(t, reshape_p(x, shape=shape)), shape=(-1,))

    return stop_gradient(jacobian(flat)(reshape_p(y, shape=(-1,))))


def _wanted(field: Field, t: float, y: Any, step: float, moves: Any) -> Any:
    """What the moves of the stages should be, given the slopes where they lead."""
    size = moves.shape[0] // 3
    slopes = []
    for i, time in enumerate(_TIMES):
        move = reshape_p(moves[i * size : (i + 1) * size], shape=tuple(y.shape))
        slopes.append(reshape_p(field(t + time * step, y + move), shape=(-1,)))
    rows = [
        sum(float(weight) * slope for weight, slope in zip(row, slopes, strict=True))
        for row in _STAGES
    ]
    return step * concat(rows, 0)


def _solved(field: Field, t: float, y: Any, step: float, bent: Any, control: Control) -> Any | None:
    """The moves of the stages by Newton's iteration with one matrix; None if it does not end."""
    size = bent.shape[0]
    unit = numbers_like(y, np.eye(3 * size))
    inverse = inv_p(unit - kron(numbers_like(y, step * _STAGES), bent))
    moves = zeros_for(y, (3 * size,), numpy_dtype_of(y))
    flat = reshape_p(y, shape=(-1,))
    states = concat([flat, flat, flat], 0)
    goal = max(10 * eps_of(y) / control.rtol, min(0.03, control.rtol**0.5))
    before = math.inf
    for count in range(_MOST_ITERATIONS):
        control.calls += 3
        change = inverse @ (stop_gradient(_wanted(field, t, y, step, moves)) - moves)
        moves = moves + change
        now = control.size(change, states)
        pace = now / before if count else 0.0
        if now == 0 or (count and pace < 1 and pace / (1 - pace) * now < goal):
            return moves
        if not math.isfinite(now) or (count and pace >= 1):
            return None
        before = now
    return None
