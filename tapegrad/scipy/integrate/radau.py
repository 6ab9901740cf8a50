"""The implicit Radau IIA method of order 5 with three stages, for stiff equations.

Newton's iteration solves the stage equations with the Jacobian of the field from the tape. The host
reads one number per iteration. The derivatives of a step follow from the implicit function theorem.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any, ClassVar

import numpy as np

from tapegrad.autodiff.transforms import jacobian
from tapegrad.ops.linalg.solve import inv_p, solve
from tapegrad.ops.products.functions import kron
from tapegrad.scipy.integrate.control import Attempt, Control, Field
from tapegrad.scipy.optimize.implicit import with_implicit_derivatives, without_recording
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
TIMES = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
STAGES = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)
ERRORS = ((-13 - 7 * _ROOT) / 3, (-13 + 7 * _ROOT) / 3, -1 / 3)
REAL = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
_MOST_ITERATIONS = 7


class Radau:
    """Radau IIA of order 5; the stages are concatenated displacements from the state."""

    name: ClassVar[str] = "Radau"
    error_order: ClassVar[int] = 3
    is_implicit: ClassVar[bool] = True

    def attempt(
        self, field: Field, t: float, y: Any, slope: Any, step: float, control: Control
    ) -> Attempt:
        shape, flat = tuple(y.shape), reshape_p(y, shape=(-1,))
        jac_matrix = field_jacobian(field, t, y, control)
        found = _solve_stages(field, t, y, step, jac_matrix, control)
        if found is None:
            return Attempt(y, slope, math.inf)
        moves, size = found, flat.shape[0]
        weighted_stages = sum(
            weight * moves[i * size : (i + 1) * size] for i, weight in enumerate(ERRORS)
        )
        after = y + reshape_p(moves[2 * size :], shape=shape)
        unit = numbers_like(y, np.eye(size))
        matrix = unit * (REAL / step) - jac_matrix

        def error_with(slope: Any) -> Any:
            start = reshape_p(slope, shape=(-1,))
            return reshape_p(solve(matrix, start + weighted_stages / step), shape=shape)

        error_estimate = error_with(slope)
        error = control.size(error_estimate, y, after)
        if error >= 1 and control.is_retry:
            # The first slope overestimates the error of a stiff start.
            error = control.size(
                error_with(control.evaluate(field, t, y + error_estimate)), y, after
            )
        return Attempt(after, control.evaluate(field, t + step, after), error, moves)

    def advance(self, field: Field, t: float, y: Any, step: float) -> Any:
        with without_recording():
            control = Control(1e-9, 1e-12, self)
            still = stop_gradient(y)
            moves = _solve_stages(
                field, t, still, step, field_jacobian(field, t, still, control), control
            )
        if moves is None:  # the equations of two shorter steps are easier to solve
            y = self.advance(field, t, y, 0.5 * step)
            return self.advance(field, t + 0.5 * step, y, 0.5 * step)
        return self.advance_with_stages(field, t, y, step, moves)

    def repeat(
        self, field: Field, y: Any, steps: Sequence[Any], times: Container[float]
    ) -> list[Any]:
        """Return the states at the times, of steps already taken, with derivatives."""
        found = [y]
        for step in steps:
            y = self.advance_with_stages(field, step.start, y, step.end - step.start, step.stages)
            if step.end in times:
                found.append(y)
        return found

    def advance_with_stages(self, field: Field, t: float, y: Any, step: float, stages: Any) -> Any:
        """Return the state after a step with known stages, with implicit derivatives."""
        size = stages.shape[0] // 3
        exact = with_implicit_derivatives(
            lambda moves: moves - _stage_equations(field, t, y, step, moves), stages
        )
        return y + reshape_p(exact[2 * size :], shape=tuple(y.shape))


def field_jacobian(field: Field, t: float, y: Any, control: Control) -> Any:
    """Return the Jacobian of the field as a constant matrix."""
    control.matrices += 1
    shape = tuple(y.shape)

    def flat(x: Any) -> Any:
        return reshape_p(field(t, reshape_p(x, shape=shape)), shape=(-1,))

    return stop_gradient(jacobian(flat)(reshape_p(y, shape=(-1,))))


def _stage_equations(field: Field, t: float, y: Any, step: float, moves: Any) -> Any:
    """Return the displacements that the slopes at the current stages imply."""
    size = moves.shape[0] // 3
    slopes = []
    for i, time in enumerate(TIMES):
        move = reshape_p(moves[i * size : (i + 1) * size], shape=tuple(y.shape))
        slopes.append(reshape_p(field(t + time * step, y + move), shape=(-1,)))
    rows = [
        sum(float(weight) * slope for weight, slope in zip(row, slopes, strict=True))
        for row in STAGES
    ]
    return step * concat(rows, 0)


def _solve_stages(
    field: Field, t: float, y: Any, step: float, jac_matrix: Any, control: Control
) -> Any | None:
    """Solve the stage equations by simplified Newton iteration; None if it does not converge."""
    size = jac_matrix.shape[0]
    unit = numbers_like(y, np.eye(3 * size))
    inverse = inv_p(unit - kron(numbers_like(y, step * STAGES), jac_matrix))
    moves = zeros_for(y, (3 * size,), numpy_dtype_of(y))
    flat = reshape_p(y, shape=(-1,))
    states = concat([flat, flat, flat], 0)
    goal = max(10 * eps_of(y) / control.rtol, min(0.03, control.rtol**0.5))
    before = math.inf
    for count in range(_MOST_ITERATIONS):
        control.calls += 3
        change = inverse @ (stop_gradient(_stage_equations(field, t, y, step, moves)) - moves)
        moves = moves + change
        now = control.size(change, states)
        pace = now / before if count else 0.0
        if now == 0 or (count and pace < 1 and pace / (1 - pace) * now < goal):
            return moves
        if not math.isfinite(now) or (count and pace >= 1):
            return None
        before = now
    return None
