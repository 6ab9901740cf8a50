"""Many small problems in one recorded function: fits, least squares, minima and roots.

Axis 0 of the arguments counts the problems. A problem that cannot be solved is marked in
`success` and `status`; it raises nothing and leaves the others alone. The first call with a
function compiles; call with the same function object again, rather than with a new lambda.

The same solvers run inside `tapegrad.vmap` and inside `tapegrad.function`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ShapeError
from tapegrad.scipy.compiled import axes_of, check_problems, solve_together
from tapegrad.scipy.optimize import fitting, minimizing, roots
from tapegrad.scipy.optimize.result import OptimizeResult
from tapegrad.scipy.vocabulary import arguments, broadcast_p, operand

__all__ = ["curve_fit", "least_squares", "minimize", "root"]


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    in_axes: Any = 0,
    bounds: Any = (-np.inf, np.inf),
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    loss: str = "linear",
    f_scale: float = 1.0,
    max_nfev: int | None = None,
) -> OptimizeResult:
    """Minimize half the sum of squares of fun(x, *args) for each row of x0.

    `in_axes` is the axis of problems of all `args`, or one per argument; None for a shared one.

    >>> import tapegrad
    >>> def residuals(x, a):
    ...     return tapegrad.stack([x[0] - a, x[1] * x[0] - 1.0])
    >>> found = least_squares(residuals, np.ones((2, 2)), [[2.0, 4.0]])
    >>> found.x.round(4).tolist(), found.success.tolist()
    ([[2.0, 0.5], [4.0, 0.25]], [True, True])
    """
    options = {
        "bounds": bounds, "ftol": ftol, "xtol": xtol, "gtol": gtol, "loss": loss,
        "f_scale": f_scale, "max_nfev": max_nfev,
    }  # fmt: skip
    args = arguments(args)

    def one(x: Any, *args: Any) -> Any:
        return fitting.least_squares(fun, x, args=args, **options)

    given = [check_problems(x0, "least_squares", "x0"), *args]
    axes = [0, *axes_of(in_axes, len(args), "least_squares")]
    found: OptimizeResult = solve_together(fun, one, given, axes, ("least_squares", options))
    return found


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    bounds: Any = (-np.inf, np.inf),
    *,
    full_output: bool = False,
    ftol: float | None = 1e-8,
    xtol: float | None = 1e-8,
    gtol: float | None = 1e-8,
    max_nfev: int | None = None,
) -> Any:
    """Fit f(x, *parameters) to each row of ydata; return the parameters and their covariances.

    xdata and sigma of the shape of ydata have one row per problem; others are shared. p0 is one
    guess for all, or has one row per problem. Fits that fail have NaN as parameters and infinite
    covariances. `full_output` adds a dictionary with `fvec` and `nfev`, and the status.

    >>> import tapegrad
    >>> x = np.linspace(0.0, 2.0, 9)
    >>> y = np.stack([2.5 * np.exp(-1.3 * x), 0.5 * np.exp(-0.3 * x)])
    >>> def decay(x, a, b):
    ...     return a * tapegrad.exp(-b * x)
    >>> curve_fit(decay, x, y)[0].round(4).tolist()
    [[2.5, 1.3], [0.5, 0.3]]
    """
    y, x = check_problems(ydata, "curve_fit", "row of ydata"), operand(xdata)
    if y.ndim < 2:
        raise ShapeError(
            f"curve_fit needs one row of ydata per problem. Got shape {y.shape}; for one problem "
            "use tapegrad.scipy.optimize.curve_fit."
        )
    guess = fitting.first_guess(f, p0, bounds) if p0 is None or np.ndim(p0) < 2 else operand(p0)
    if guess.ndim < 2:
        guess = broadcast_p(guess, shape=(y.shape[0], guess.shape[0]))
    options = {
        "absolute_sigma": absolute_sigma, "bounds": bounds, "ftol": ftol, "xtol": xtol,
        "gtol": gtol, "max_nfev": max_nfev,
    }  # fmt: skip

    def one(x: Any, y: Any, p0: Any, *sigma: Any) -> Any:
        errors = sigma[0] if sigma else None
        found = fitting.curve_fit(f, x, y, p0, errors, full_output=True, **options)
        best, covariance, facts, _, status = found
        return (best, covariance, facts, status) if full_output else (best, covariance)

    errors = [] if sigma is None else [operand(sigma)]
    axes = [0 if one.shape == y.shape else None for one in (x, *errors)]
    settings = ("curve_fit", options, full_output)
    return solve_together(f, one, [x, y, guess, *errors], [axes[0], 0, 0, *axes[1:]], settings)


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    *,
    in_axes: Any = 0,
    bounds: Any = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find a local minimum of the scalar fun(x, *args) from each row of x0.

    The method is 'BFGS', the default, 'Newton-CG' or 'L-BFGS-B', the default with `bounds`, which
    all problems share. `in_axes` is the axis of problems of all `args`, or one per argument; None
    for a shared one.

    >>> import tapegrad
    >>> def distance(x, centre):
    ...     return tapegrad.reduce_sum((x - centre) ** 2)
    >>> found = minimize(distance, np.zeros((2, 2)), [[[1.0, 2.0], [3.0, 4.0]]])
    >>> found.x.round(4).tolist(), found.status.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], [0, 0])
    """
    args = arguments(args)

    def one(x: Any, *args: Any) -> Any:
        return minimizing.minimize(fun, x, args, method, bounds=bounds, tol=tol, options=options)

    given = [check_problems(x0, "minimize", "x0"), *args]
    axes = [0, *axes_of(in_axes, len(args), "minimize")]
    ends = [bounds.lb, bounds.ub] if hasattr(bounds, "lb") else bounds
    settings = ("minimize", method, ends, tol, options)
    found: OptimizeResult = solve_together(fun, one, given, axes, settings)
    return found


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    in_axes: Any = 0,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find x with fun(x, *args) = 0 from each row of x0, by damped Newton steps.

    >>> def equation(x, a):
    ...     return x * x - a
    >>> found = root(equation, [[1.0], [1.0], [1.0]], [[4.0, 9.0, -1.0]])
    >>> found.x[:2].round(6).tolist(), found.success.tolist()
    ([[2.0], [3.0]], [True, True, False])
    """
    args = arguments(args)

    def one(x: Any, *args: Any) -> Any:
        return roots.root(fun, x, args, tol=tol, options=options)

    given = [check_problems(x0, "root", "x0"), *args]
    axes = [0, *axes_of(in_axes, len(args), "root")]
    found: OptimizeResult = solve_together(fun, one, given, axes, ("root", tol, options))
    return found


_check_calls(globals(), __all__)
