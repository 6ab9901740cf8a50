"""least_squares, curve_fit and root for many problems: solutions, derivatives, statuses as data."""

from __future__ import annotations

from typing import Any

from tapegrad.autodiff.transforms import grad
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.damped import Rho, System, Tolerances, squares
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.optimize.many.squares import Fits, fit_many
from tapegrad.scipy.optimize.result import OptimizeResult
from tapegrad.scipy.problems import Problems, choose
from tapegrad.scipy.small_systems import Columns, gram, pairs_of, place_of, solve_symmetric
from tapegrad.scipy.vocabulary import (
    cast,
    eps_of,
    expand_dims,
    ones_like,
    reshape_p,
    sqrt,
    stack,
    stop_gradient,
    sum_over,
    where,
    zeros_like,
)

_INFINITE = float("inf")


def least_squares_many(
    system: System, x: Any, box: Box | None, stops: Tolerances, rho: Rho
) -> OptimizeResult:
    """Return the least squares of all problems of the running vmaps as a result of one problem."""
    problems = Problems(x)

    def cost(x: Any) -> Any:
        residual = system.residual(x)
        return 0.5 * sum_over(rho(residual * residual)[0])

    with without_recording():
        fits = fit_many(problems, system, problems.rows(stop_gradient(x)), box, stops, rho)
        point = problems.one(fits.x)
        slope = grad(cost)(point)
        residual = stop_gradient(system.residual(point))
        matrix = system.matrix(point)
    held = zeros_like(point) if box is None else 1.0 - box.free(point, slope)
    solution = point
    if is_recording():
        solution = with_implicit_derivatives(
            lambda x: (1.0 - held) * grad(cost)(x) + held * (x - point),
            point,
            is_symmetric=box is None,
        )
    status = problems.one(fits.status)
    return OptimizeResult(
        x=reshape_p(solution, shape=system.shape),
        cost=problems.one(fits.cost),
        fun=residual,
        jac=matrix,
        grad=slope,
        optimality=problems.one(fits.optimality),
        active_mask=cast(held * where(slope > 0.0, -1.0, 1.0), "int64"),
        nfev=problems.one(fits.calls),
        njev=problems.one(fits.calls),
        status=status,
        success=status > 0,
    )


def fit_parameters(found: OptimizeResult, is_absolute: bool) -> tuple[Any, Any]:
    """Return the parameters and their covariance; NaN and infinity where a fit has failed."""
    problems = Problems(found.x, found.jac)
    has_found = found.success
    parameters = where(expand_dims(has_found, -1), found.x, float("nan"))
    rows = problems.rows(stop_gradient(found.jac))
    columns = [rows[:, :, i] for i in range(rows.shape[2])]
    covariance = problems.one(_inverse(gram(columns), len(columns)))
    count, size = found.jac.shape
    if not is_absolute:
        factor = 2.0 * found.cost / (count - size) if count > size else _INFINITE
        covariance = covariance * factor
    is_known = has_found & (_largest_entry(covariance) < _INFINITE)
    return parameters, where(expand_dims(expand_dims(is_known, -1), -1), covariance, _INFINITE)


def _largest_entry(matrix: Any) -> Any:
    return sum_over(sum_over(abs(matrix), -1), -1)


def _inverse(matrix: list[Any], size: int) -> Any:
    """Return the inverse of each problem's J^T J; infinite where it is singular."""
    diagonal = [matrix[place_of(i, i)] for i in range(size)]
    scales = [1.0 / sqrt(where(entry > 0.0, entry, 1.0)) for entry in diagonal]
    scaled = [matrix[place] * scales[i] * scales[j] for place, (i, j) in enumerate(pairs_of(size))]
    rows = []
    for i in range(size):
        unit: Columns = [ones_like(d) if i == j else zeros_like(d) for j, d in enumerate(diagonal)]
        found = solve_symmetric(scaled, unit)
        rows.append(stack([x * scales[i] * s for x, s in zip(found, scales)], -1))
    inverse = stack(rows, 1)
    # A pivot that is not positive leaves a zero on the diagonal.
    least = diagonal[0] * 0.0 + _INFINITE
    for i in range(size):
        least = where(inverse[:, i, i] < least, inverse[:, i, i], least)
    return choose(least > 0.0, inverse, _INFINITE * ones_like(inverse))


def root_many(system: System, x: Any, chosen: dict[str, Any]) -> OptimizeResult:
    """Return the roots of all problems of the running vmaps as a result of one problem."""
    problems = Problems(x)
    size = int(x.shape[0])
    most = 100 * (size + 1) if chosen["maxfev"] is None else int(chosen["maxfev"])
    stops = Tolerances(-1.0, float(chosen["xtol"]), 0.0, most)
    with without_recording():
        rows = problems.rows(stop_gradient(x))
        first = problems.call(system.at, rows)
        fits = fit_many(problems, system, rows, None, stops, squares)
        status = _status_of_roots(fits, sqrt(sum_over(first * first, 1)), eps_of(x))
        point = problems.one(fits.x)
        residual = system.at(point)
    solution = with_implicit_derivatives(system.residual, point) if is_recording() else point
    found = problems.one(status)
    return OptimizeResult(
        x=reshape_p(solution, shape=system.shape),
        fun=reshape_p(residual, shape=system.shape),
        nfev=problems.one(fits.calls),
        njev=problems.one(fits.calls),
        status=found,
        success=found == 1,
    )


def _status_of_roots(fits: Fits, before: Any, eps: float) -> Any:
    """Return 1 for a root, 2 for too many evaluations, 5 for a minimum that is no root."""
    is_root = sqrt(2.0 * fits.cost) <= 10.0 * eps**0.5 * (1.0 + before)
    return where(is_root, 1, where(fits.status == 0, 2, 5))
