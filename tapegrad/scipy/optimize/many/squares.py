"""Levenberg-Marquardt for many problems: each round tries one step of every active problem.

The state of a problem is its point, the gradient and the product J^T J there, so that the arrays of
residuals and Jacobians live for one round only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tapegrad.autodiff.transforms import jacobian, jvp
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.damped import Rho, System, Tolerances
from tapegrad.scipy.problems import Problems, Rows
from tapegrad.scipy.small_systems import (
    Columns,
    as_rows,
    columns_of,
    gram,
    inner,
    largest_of,
    place_of,
    quadratic,
    solve_symmetric,
)
from tapegrad.scipy.vocabulary import (
    eps_of,
    maximum,
    numbers_like,
    ones_like,
    sqrt,
    sum_over,
    where,
    zeros_like,
)

NOT_FINITE = -1
"""The status of a problem whose residuals are not finite at the start."""

_FIRST, _LEAST, _MOST = 1e-3, 1e-14, 1e20
_FORWARD_COLUMNS = 8
"""Up to this many unknowns the columns of a Jacobian are computed one by one."""


@dataclass(frozen=True)
class Fits:
    """The final points of all problems, with statuses of `least_squares` and counts."""

    x: Rows
    cost: Rows
    optimality: Rows
    status: Rows
    calls: Rows


@dataclass(frozen=True)
class _Model:
    """The quadratic model at the points: cost, gradient and J^T J in columns of problems."""

    cost: Any
    gradient: Columns
    matrix: list[Any]

    def flat(self) -> list[Any]:
        return [self.cost, *self.gradient, *self.matrix]

    @classmethod
    def of(cls, flat: list[Any], size: int) -> _Model:
        return cls(flat[0], flat[1 : 1 + size], flat[1 + size :])


class _Squares:
    """The sums of squares of all problems as a function of their points."""

    def __init__(self, problems: Problems, system: System, rho: Rho) -> None:
        self._problems, self._system, self._rho = problems, system, rho

    def model(self, x: Columns) -> _Model:
        """Return the quadratic models at the points."""
        residual, *columns = self._problems.call(self._linearized, as_rows(x))
        value, first, second = self._rho(residual * residual)
        cost = 0.5 * sum_over(value, 1)
        if first is not None:
            # Triggs' correction: squares that match the loss to second order.
            root = sqrt(maximum(first + 2.0 * second * residual * residual, 1e-10))
            columns = [column * root for column in columns]
            residual = residual * first / root
        gradient = [sum_over(column * residual, 1) for column in columns]
        return _Model(cost, gradient, gram(columns))

    def _linearized(self, x: Any) -> list[Any]:
        """Return the residuals of one problem and the columns of its Jacobian."""
        system, size = self._system, int(x.shape[0])
        if callable(system.jac) or size > _FORWARD_COLUMNS:
            matrix = system.matrix(x) if callable(system.jac) else jacobian(system.residual)(x)
            return [system.residual(x), *[matrix[:, i] for i in range(size)]]
        found = []
        for i in range(size):
            unit = numbers_like(x, [float(i == j) for j in range(size)])
            value, column = jvp(system.residual, [x], [unit])
            found.append(column)
        return [value, *found]


def fit_many(
    problems: Problems, system: System, x: Rows, box: Box | None, stops: Tolerances, rho: Rho
) -> Fits:
    """Minimize half the sum of squares of every problem from the rows of x."""
    size = int(x.shape[1])
    squares = _Squares(problems, system, rho)
    start = columns_of(x if box is None else box.inside(x))
    model = squares.model(start)
    is_finite = abs(model.cost) < float("inf")
    zero = zeros_like(model.cost)
    status = where(is_finite, 0, NOT_FINITE)
    step = _rounds(squares, box, stops, eps_of(x), size)
    optimality = _reach(box, start, model.gradient)
    counts = where(is_finite, 1, 1)  # integers of the same shape
    state = [zero + _FIRST, status, counts, optimality, *start, *([zero] * size), *model.flat()]
    _, status, calls, optimality, *rest = problems.iterate(
        step, is_finite & (optimality > stops.gtol), state
    )
    status = where((status == 0) & (optimality <= stops.gtol), 1, status)
    return Fits(as_rows(rest[:size]), rest[2 * size], optimality, status, calls)


def _rounds(
    squares: _Squares, box: Box | None, stops: Tolerances, eps: float, size: int
) -> Callable[..., Any]:
    """Return the function that tries one step of every problem."""

    def attempt(damping: Any, status: Any, calls: Any, optimality: Any, *rest: Any) -> list[Any]:
        x, widths = list(rest[:size]), list(rest[size : 2 * size])
        model = _Model.of(list(rest[2 * size :]), size)
        diagonal = [model.matrix[place_of(i, i)] for i in range(size)]
        widths = [maximum(w, d) for w, d in zip(widths, diagonal)]
        moves = _step(model, widths, damping, _free(box, x, model.gradient))
        there = [a + b for a, b in zip(x, moves)]
        if box is not None:
            there = columns_of(box.inside(as_rows(there)))
            moves = [b - a for a, b in zip(x, there)]
        expected = -inner(model.gradient, moves) - 0.5 * quadratic(model.matrix, moves)
        new = squares.model(there)
        fall = model.cost - new.cost
        ratio = _quality(model.cost, fall, expected, 8.0 * eps)
        is_short = sqrt(inner(moves, moves)) <= stops.xtol * (stops.xtol + sqrt(inner(x, x)))
        is_flat = (fall <= stops.ftol * model.cost) & (ratio > 0.25)
        takes = ratio > 0.0
        kept = [where(takes, a, b) for a, b in zip(there, x)]
        chosen = [where(takes, a, b) for a, b in zip(new.flat(), model.flat())]
        optimality = _reach(box, kept, _Model.of(chosen, size).gradient)
        damping = _next_damping(damping, ratio)
        calls = calls + 1
        ends = where(is_short & is_flat, 4, where(is_short, 3, where(is_flat, 2, 0)))
        ends = where(damping > _MOST, 3, ends)
        ends = where(optimality <= stops.gtol, 1, ends)
        goes_on = (ends == 0) & (calls < stops.most)
        return [goes_on, damping, ends, calls, optimality, *kept, *widths, *chosen]

    return attempt


def _free(box: Box | None, x: Columns, gradient: Columns) -> Columns | None:
    if box is None:
        return None
    return columns_of(box.free(as_rows(x), as_rows(gradient)))


def _reach(box: Box | None, x: Columns, gradient: Columns) -> Any:
    """Return the maximum norm of the projected gradient of each problem."""
    if box is None:
        return largest_of(gradient)
    point, slope = as_rows(x), as_rows(gradient)
    return largest_of(columns_of(box.inside(point - slope) - point))


def _step(model: _Model, widths: Columns, damping: Any, free: Columns | None) -> Columns:
    """Solve (J^T J + damping D) p = -gradient, scaled to a unit diagonal."""
    size = len(widths)
    scales = [1.0 / sqrt(where(width > 0.0, width, 1.0)) for width in widths]
    masks = [ones_like(width) for width in widths] if free is None else free
    weights = [a * b for a, b in zip(scales, masks)]
    matrix = []
    for i in range(size):
        for j in range(i + 1):
            entry = model.matrix[place_of(i, j)] * weights[i] * weights[j]
            matrix.append(entry + damping if i == j else entry)
    side = [-slope * weight for slope, weight in zip(model.gradient, weights)]
    return [step * scale for step, scale in zip(solve_symmetric(matrix, side), scales)]


def _quality(cost: Any, fall: Any, expected: Any, rounding: float) -> Any:
    """Return the ratio of actual to predicted decrease; 1 if both are below rounding error."""
    is_down = expected > 0.0
    is_noise = (expected <= rounding * cost) & (abs(fall) <= rounding * cost)
    ratio = fall / where(is_down, expected, 1.0)
    found = where(is_noise, 1.0, where(abs(ratio) < float("inf"), ratio, -1.0))
    return where(is_down, found, -1.0)


def _next_damping(damping: Any, ratio: Any) -> Any:
    better = where(ratio > 0.9, 0.02, where(ratio > 0.75, 0.2, 1.0))
    return maximum(damping * where(ratio > 0.25, better, 4.0), _LEAST)
