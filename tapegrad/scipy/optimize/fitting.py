"""least_squares and curve_fit with differentiable solutions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.transforms import grad
from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.decompositions import cholesky_p
from tapegrad.ops.linalg.solve import pinv, triangular_solve
from tapegrad.scipy.linalg.ignored_options import ignoring
from tapegrad.scipy.optimize.boxes import Bounds, Box, as_box
from tapegrad.scipy.optimize.damped import (
    Fit,
    Rho,
    System,
    Tolerances,
    check_jac,
    levenberg_marquardt,
    squares,
)
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.optimize.many.fits import fit_parameters, least_squares_many
from tapegrad.scipy.optimize.result import OptimizeError, OptimizeResult
from tapegrad.scipy.problems import are_many
from tapegrad.scipy.vocabulary import (
    arguments,
    atan,
    cast,
    holds_tensors,
    isnan,
    log1p,
    matrix_transpose,
    moveaxis,
    operand,
    operands,
    place_next_to,
    reshape_p,
    stop_gradient,
    sum_over,
    take,
    where,
)

_METHODS = ("trf", "dogbox", "lm")
_MESSAGES = {
    0: "Stopped at the maximum number of evaluations.",
    1: "The gradient is below gtol.",
    2: "The sum of squares falls by less than ftol.",
    3: "The step is below xtol.",
    4: "The sum of squares falls by less than ftol, and the step is below xtol.",
}


def _soft_l1(z: Any) -> tuple[Any, Any, Any]:
    root = (1.0 + z) ** 0.5
    # 2 (root - 1) without cancellation, which would hide small descents.
    return 2.0 * z / (root + 1.0), 1.0 / root, -0.5 / root**3


def _huber(z: Any) -> tuple[Any, Any, Any]:
    far = where(z > 1.0, z, 1.0)
    is_near = z <= 1.0
    value = where(is_near, z, 2.0 * far**0.5 - 1.0)
    return value, where(is_near, 1.0, far**-0.5), where(is_near, 0.0, -0.5 * far**-1.5)


def _cauchy(z: Any) -> tuple[Any, Any, Any]:
    return log1p(z), 1.0 / (1.0 + z), -1.0 / (1.0 + z) ** 2


def _arctan(z: Any) -> tuple[Any, Any, Any]:
    bottom = 1.0 + z * z
    return atan(z), 1.0 / bottom, -2.0 * z / bottom**2


_LOSSES: dict[str, Rho] = {
    "linear": squares,
    "soft_l1": _soft_l1,
    "huber": _huber,
    "cauchy": _cauchy,
    "arctan": _arctan,
}


def _loss(name: Any, scale: float) -> Rho:
    check_choice("loss", name, _LOSSES)
    plain, square = _LOSSES[name], float(scale) ** 2
    if name == "linear":
        return plain

    def scaled(z: Any) -> tuple[Any, Any, Any]:
        value, first, second = plain(z / square)
        return value * square, first, second / square

    return scaled


@ignoring(
    "x_scale", "diff_step", "tr_solver", "tr_options", "jac_sparsity", "verbose", "workers"
)  # fmt: skip
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = None,
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    *,
    loss: str = "linear",
    f_scale: float = 1.0,
    max_nfev: int | None = None,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Minimize half the sum of squares of the vector fun(x, *args) within bounds (lb, ub).

    All methods ('trf', 'dogbox', 'lm') use the Levenberg-Marquardt method. The tape provides the
    Jacobian unless `jac` is a function. `loss` reduces the influence of residuals above `f_scale`.
    Enclosing tapes record the derivatives of the solution with respect to everything that `fun`
    reads.

    >>> import tapegrad
    >>> found = least_squares(lambda x: tapegrad.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), [2, 2])
    >>> found.x.round(6).tolist(), found.success
    ([1.0, 1.0], True)
    """
    if method not in _METHODS:
        raise ArgumentError(f"method must be one of {', '.join(_METHODS)}. Got {method!r}.")
    start = stop_gradient(operand(x0))
    if start.ndim > 1:
        raise ShapeError(f"least_squares needs a scalar or vector x0. Got shape {start.shape}.")
    x = reshape_p(start, shape=(-1,))
    args = arguments(args)
    system = System(fun, tuple(start.shape), args, check_jac(jac), dict(kwargs or {}))
    rho, box = _loss(loss, f_scale), _box(bounds, x)
    most = 100 * max(x.shape[0], 1) if max_nfev is None else int(max_nfev)
    limits = [-1.0 if limit is None else float(limit) for limit in (ftol, xtol, gtol)]
    stops = Tolerances(limits[0], limits[1], limits[2], most)
    if are_many(x, args):
        return least_squares_many(system, x, box, stops, rho)
    with without_recording():
        fit = levenberg_marquardt(system, x, box, stops, rho)
        slope = grad(lambda x: _cost(system, x, rho))(fit.x)
    held = fit.x * 0.0 if box is None else 1.0 - box.free(fit.x, slope)
    solution = fit.x
    if is_recording():
        solution = with_implicit_derivatives(
            lambda x: (1.0 - held) * grad(lambda x: _cost(system, x, rho))(x) + held * (x - fit.x),
            fit.x,
            is_symmetric=box is None,
        )
    return _result(system, fit, solution, slope, held)


def _cost(system: System, x: Any, rho: Rho) -> Any:
    residual = system.residual(x)
    return 0.5 * sum_over(rho(residual * residual)[0])


def _box(bounds: Any, x: Any) -> Box | None:
    """Convert the bounds of least_squares: a pair of numbers or vectors, or `Bounds`."""
    if bounds is None:
        return None
    if not hasattr(bounds, "lb"):
        if len(bounds) != 2:
            raise ArgumentError(f"bounds must be a pair (lb, ub) or Bounds. Got {bounds!r}.")
        bounds = Bounds(*bounds)
    return as_box(bounds, x)


def _result(system: System, fit: Fit, solution: Any, slope: Any, held: Any) -> OptimizeResult:
    sign = where(slope > 0.0, -1.0, 1.0)
    return OptimizeResult(
        x=reshape_p(solution, shape=system.shape),
        cost=fit.cost,
        fun=fit.residual,
        jac=fit.matrix,
        grad=slope,
        optimality=fit.optimality,
        active_mask=cast(held * sign, "int64"),
        nfev=system.values,
        njev=system.matrices,
        status=fit.status,
        success=fit.status > 0,
        message=_MESSAGES[fit.status],
    )


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = (-np.inf, np.inf),
    method: str | None = None,
    jac: Any = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    **options: Any,
) -> Any:
    """Fit f(xdata, *parameters) to ydata; return the parameters and their covariance.

    `sigma` holds the standard deviations of ydata or their covariance matrix. With `nan_policy`
    'omit', points with a NaN do not count; the host looks for them. Other options go to
    least_squares. Enclosing tapes record the derivatives of the parameters with respect to the
    data.

    >>> import tapegrad
    >>> x = np.linspace(0.0, 2.0, 9)
    >>> y = 2.5 * np.exp(-1.3 * x)
    >>> best, _ = curve_fit(lambda x, a, b: a * tapegrad.exp(-b * x), x, y)
    >>> best.round(6).tolist()
    [2.5, 1.3]
    """
    check_choice("nan_policy of curve_fit", nan_policy, (None, "raise", "omit"))
    if nan_policy == "omit":
        xdata, ydata, sigma = _without_nan(xdata, ydata, sigma)
    if check_finite is not False:
        _check_finite(xdata, ydata)
    x, y = operand(xdata), operand(ydata)
    start = first_guess(f, p0, bounds)
    weigh = _weights(sigma, y)

    def misfit(parameters: Any) -> Any:
        found = f(x, *(parameters[i] for i in range(parameters.shape[0])))
        return weigh(reshape_p(operands(found, y)[0] - y, shape=(-1,)))

    def slopes(parameters: Any) -> Any:
        return weigh(operand(jac(x, *(parameters[i] for i in range(parameters.shape[0])))))

    own = slopes if callable(jac) else check_jac(jac)
    found = least_squares(misfit, start, own, bounds, method or "trf", **options)
    if are_many(start, y):
        best, covariance = fit_parameters(found, absolute_sigma)
        facts = {"fvec": found.fun, "nfev": found.nfev}
        return (best, covariance, facts, None, found.status) if full_output else (best, covariance)
    if not found.success:
        raise OptimizeError(
            f"curve_fit found no parameters. {found.message} Pass a better p0 or a larger max_nfev."
        )
    covariance = _covariance(found, absolute_sigma)
    if not full_output:
        return found.x, covariance
    return found.x, covariance, {"fvec": found.fun, "nfev": found.nfev}, found.message, found.status


def _without_nan(xdata: Any, ydata: Any, sigma: Any) -> tuple[Any, Any, Any]:
    """Return the points without NaN; the last axis of xdata counts the points."""
    x, y = operand(xdata), operand(ydata)
    has_nan = read_on_host(isnan(y), "curve_fit with nan_policy='omit'")
    bad_x = read_on_host(isnan(x), "curve_fit with nan_policy='omit'")
    bad = has_nan | bad_x.reshape(-1, bad_x.shape[-1]).any(axis=0)
    kept = np.flatnonzero(~bad)
    x = moveaxis(take(moveaxis(x, -1, 0), place_next_to(x, kept)), 0, -1)
    y = take(y, place_next_to(y, kept))
    if sigma is None:
        return x, y, None
    places, sigma = place_next_to(y, kept), operand(sigma)
    for axis in range(sigma.ndim):
        sigma = moveaxis(take(moveaxis(sigma, axis, 0), places), 0, axis)
    return x, y, sigma


def _check_finite(*arrays: Any) -> None:
    """Raise for NaN or infinity in host data; data on a GPU is not checked."""
    for array in arrays:
        is_list = isinstance(array, list | tuple) and not holds_tensors(array)
        if not is_list and not isinstance(array, np.ndarray):
            continue
        if not np.isfinite(np.asarray(array)).all():
            raise ArgumentError(
                "curve_fit needs finite data. Remove NaN and infinite entries, or pass "
                "check_finite=False."
            )


def first_guess(f: Callable[..., Any], p0: Any, bounds: Any) -> Any:
    """Return p0, or ones or the centers of the bounds; the signature of f gives their number."""
    if p0 is not None:
        guess = operand(p0)
        return reshape_p(guess, shape=(-1,))
    names = list(inspect.signature(f).parameters.values())[1:]
    if not names or any(name.kind is inspect.Parameter.VAR_POSITIONAL for name in names):
        raise ArgumentError("curve_fit cannot infer the number of parameters from f. Pass p0.")
    ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    low, high = (np.broadcast_to(np.asarray(end, float), (len(names),)) for end in ends)
    guess = np.ones(len(names))
    for place, (a, b) in enumerate(zip(low, high, strict=True)):
        if np.isfinite(a) and np.isfinite(b):
            guess[place] = 0.5 * (a + b)
        elif np.isfinite(a) or np.isfinite(b):
            guess[place] = a + 1.0 if np.isfinite(a) else b - 1.0
    return operand(guess)


def _weights(sigma: Any, y: Any) -> Callable[[Any], Any]:
    """Return a function that whitens residuals or the rows of a Jacobian."""
    if sigma is None:
        return lambda rows: rows
    errors = operands(sigma, y)[0]
    if errors.ndim < 2:

        def divide(rows: Any) -> Any:
            return rows / (errors if rows.ndim == 1 else reshape_p(errors, shape=(-1, 1)))

        return divide
    root = cholesky_p(errors)
    return lambda rows: triangular_solve(root, rows)


def _covariance(found: OptimizeResult, is_absolute: bool) -> Any:
    """Return (J^T J)^-1 scaled by the residual variance, or infinity if that is undefined."""
    count, size = found.jac.shape
    inverse = pinv(found.jac)
    covariance = inverse @ matrix_transpose(inverse)
    if is_absolute:
        return covariance
    if count <= size:
        return covariance * 0.0 + np.inf
    return covariance * (2.0 * found.cost / (count - size))
