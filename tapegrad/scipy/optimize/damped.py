"""The Levenberg-Marquardt method for systems of equations and least squares, with optional bounds.

The tape provides the Jacobian. The host reads one short vector per trial step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tapegrad.autodiff.transforms import jacobian
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.decompositions import qr_p
from tapegrad.ops.linalg.solve import triangular_solve
from tapegrad.ops.shape.diagonal import diag
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.implicit import read_scalars
from tapegrad.scipy.optimize.objective import dot, max_norm
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    eps_of,
    matrix_transpose,
    maximum,
    numpy_dtype_of,
    operand,
    operands,
    reshape_p,
    sqrt,
    stop_gradient,
    sum_over,
    where,
    zeros_like,
)

Rho = Callable[[Any], tuple[Any, Any, Any]]
"""A loss function: returns value, first and second derivative at squared residuals."""

_FIRST, _LEAST, _MOST = 1e-3, 1e-24, 1e20


@dataclass
class System:
    """Residuals as a function of a flat vector, their Jacobian, and evaluation counts."""

    fun: Callable[..., Any]
    shape: tuple[int, ...]
    args: tuple[Any, ...] = ()
    jac: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    values: int = 0
    matrices: int = 0

    def residual(self, x: Any) -> Any:
        """Return the residuals as a vector that enclosing tapes record."""
        value = self.fun(reshape_p(x, shape=self.shape), *self.args, **self.options)
        return reshape_p(operands(value, x)[0], shape=(-1,))

    def at(self, x: Any) -> Any:
        """Return the residuals as constants."""
        self.values += 1
        return cast(stop_gradient(self.residual(x)), numpy_dtype_of(x))

    def matrix(self, x: Any) -> Any:
        """Return the Jacobian as a constant."""
        self.matrices += 1
        if not callable(self.jac):
            return stop_gradient(jacobian(self.residual)(x))
        given = self.jac(reshape_p(x, shape=self.shape), *self.args, **self.options)
        return stop_gradient(reshape_p(operand(given), shape=(-1, x.shape[0])))


def check_jac(jac: Any) -> Any:
    """Return the user's Jacobian function, or None if the tape computes the Jacobian.

    >>> check_jac("2-point") is None
    True
    """
    if callable(jac) or jac is None:
        return jac
    if jac in (False, "2-point", "3-point", "cs"):
        return None  # names of finite-difference schemes; the tape is exact
    raise ArgumentError(f"jac must be None or a function. Got {jac!r}.")


@dataclass(frozen=True)
class Tolerances:
    """Stopping criteria: cost, step, gradient and number of evaluations."""

    ftol: float
    xtol: float
    gtol: float
    most: int


@dataclass(frozen=True)
class Fit:
    """The final point; `status` is that of `least_squares`."""

    x: Any
    residual: Any
    matrix: Any
    cost: float
    optimality: float
    status: int


def squares(z: Any) -> tuple[Any, Any, Any]:
    """Return the linear loss: the plain sum of squares."""
    return z, None, None


class _Point:
    """A point with residuals scaled so that their squares match the loss to first order."""

    def __init__(self, system: System, x: Any, rho: Rho) -> None:
        self.x, self._system, self._rho = x, system, rho
        self.residual = system.at(x)
        self._z = rho(self.residual * self.residual)
        self.cost = 0.5 * sum_over(self._z[0])
        self.matrix: Any = None

    def linearize(self) -> None:
        """Compute the Jacobian and the gradient, with Triggs' correction for the loss."""
        matrix, residual = self._system.matrix(self.x), self.residual
        _, first, second = self._z
        self.plain = matrix
        if first is not None:
            bend = first + 2.0 * second * residual * residual
            root = sqrt(maximum(bend, 1e-10))
            matrix = matrix * reshape_p(root, shape=(-1, 1))
            residual = residual * first / root
        self.matrix, self.scaled = matrix, residual
        self.gradient = matrix_transpose(matrix) @ residual


def levenberg_marquardt(
    system: System, x: Any, box: Box | None, stops: Tolerances, rho: Rho = squares
) -> Fit:
    """Minimize half the sum of squares; increase the damping until a step descends."""
    x = x if box is None else box.inside(x)
    here = _Point(system, x, rho)
    here.linearize()
    widths = zeros_like(here.gradient)
    damping, status, optimality = _FIRST, 0, float("inf")
    (cost,) = read_scalars("a step of least_squares", here.cost)
    rounding = 8.0 * eps_of(x)
    while system.values < stops.most:
        squared = sum_over(here.matrix * here.matrix, 0)
        widths = maximum(widths, sqrt(squared))
        step = _step(here, widths, damping, box)
        there = _Point(system, here.x + step if box is None else box.inside(here.x + step), rho)
        move = there.x - here.x
        along = here.matrix @ move
        expected = -dot(here.gradient, move) - 0.5 * dot(along, along)
        reach = max_norm(here.gradient) if box is None else box.reach(here.x, here.gradient)
        numbers = (there.cost, expected, dot(move, move), dot(here.x, here.x), reach)
        new, gain, moved, size, optimality = read_scalars("a step of least_squares", *numbers)
        if optimality <= stops.gtol:
            status = 1
            break
        ratio = _quality(cost, new, gain, rounding)
        is_short = moved**0.5 <= stops.xtol * (stops.xtol + size**0.5)
        is_flat = cost - new <= stops.ftol * cost and ratio > 0.25
        if ratio > 0:
            here, cost = there, new
            here.linearize()
        damping = _next_damping(damping, ratio)
        if is_short or is_flat:
            status = 4 if is_short and is_flat else 3 if is_short else 2
            break
        if damping > _MOST:
            status = 3
            break
    return Fit(here.x, here.residual, here.plain, cost, optimality, status)


def _quality(cost: float, new: float, gain: float, rounding: float) -> float:
    """Return the ratio of actual to predicted decrease; 1 if both are below rounding error."""
    if not gain > 0:
        return -1.0
    if gain <= rounding * cost and abs(cost - new) <= rounding * cost:
        return 1.0
    return (cost - new) / gain


def _next_damping(damping: float, ratio: float) -> float:
    if not ratio > 0.25:
        return damping * 4.0
    if ratio > 0.9:
        return max(damping * 0.02, _LEAST)
    return max(damping * 0.2, _LEAST) if ratio > 0.75 else damping


def _step(here: _Point, widths: Any, damping: float, box: Box | None) -> Any:
    """Return the p that minimizes |J p + r|² + damping |D p|², by QR decomposition."""
    matrix = here.matrix
    if box is not None:
        matrix = matrix * reshape_p(box.free(here.x, here.gradient), shape=(1, -1))
    scale = where(widths > 0.0, widths, 1.0) * damping**0.5
    rows = concat([matrix, diag(scale)], 0)
    side = concat([-here.scaled, zeros_like(scale)], 0)
    q, r = qr_p(rows)
    return triangular_solve(r, matrix_transpose(q) @ side, lower=False)


def check_square(system: System, x: Any, name: str) -> None:
    """Raise unless the system has as many equations as unknowns."""
    count = int(system.residual(x).shape[0])
    if count != x.shape[0]:
        raise ShapeError(
            f"{name} needs as many equations as unknowns. Got {count} equations and "
            f"{x.shape[0]} unknowns."
        )
