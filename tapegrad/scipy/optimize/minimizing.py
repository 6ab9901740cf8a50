"""SciPy's minimize: which method, with which options, and derivatives of what it finds.

The vectors stay on their device; the host reads one short vector per evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.transforms import grad
from tapegrad.errors import ArgumentError
from tapegrad.scipy.optimize.boxes import Box, as_box, descend_within
from tapegrad.scipy.optimize.constraints import equal_and_positive
from tapegrad.scipy.optimize.descending import Limits, descend
from tapegrad.scipy.optimize.directions import Conjugate, Dense, Limited, Newton
from tapegrad.scipy.optimize.implicit import attached, is_recorded, quietly
from tapegrad.scipy.optimize.lagrangian import Lagrangian, attached_constrained, descend_constrained
from tapegrad.scipy.optimize.objective import Ended, Objective, Watcher
from tapegrad.scipy.optimize.result import WORDS, OptimizeResult, chosen_options
from tapegrad.scipy.optimize.simplex import Pace, Patience, descend_by_simplex
from tapegrad.scipy.optimize.trust_region import Trust, descend_trusting
from tapegrad.scipy.vocabulary import arguments, operand, reshape_p, stop_gradient

_TRUST = {
    "initial_trust_radius": 1.0,
    "max_trust_radius": 1000.0,
    "eta": 0.15,
    "gtol": 1e-4,
    "maxiter": None,
}
METHODS: dict[str, dict[str, Any]] = {
    "Nelder-Mead": {
        "xatol": 1e-4,
        "fatol": 1e-4,
        "maxiter": None,
        "maxfev": None,
        "adaptive": False,
        "initial_simplex": None,
    },
    "CG": {"gtol": 1e-5, "maxiter": None},
    "BFGS": {"gtol": 1e-5, "maxiter": None},
    "Newton-CG": {"xtol": 1e-5, "maxiter": None},
    "L-BFGS-B": {
        "gtol": 1e-5,
        "ftol": 2.220446049250313e-9,
        "maxiter": 15000,
        "maxfun": 15000,
        "maxcor": 10,
    },
    "TNC": {"gtol": 1e-5, "ftol": 2.220446049250313e-9, "maxiter": None, "maxfun": math.inf},
    "SLSQP": {"ftol": 1e-6, "gtol": 1e-6, "maxiter": 100},
    "trust-ncg": _TRUST,
    "trust-krylov": _TRUST,
}
"""The methods and their options; None stands for a number that depends on the variables."""

_BOUNDED = ("Nelder-Mead", "L-BFGS-B", "TNC", "SLSQP")


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find a local minimum of fun(x, *args), a scalar; x may have any shape.

    The method is 'BFGS', with bounds 'L-BFGS-B' and with constraints 'SLSQP', or one of 'CG',
    'Newton-CG', 'trust-ncg', 'TNC' (with bounds) and 'Nelder-Mead' (without gradients, bounds
    allowed). 'SLSQP' is an augmented Lagrangian here, and 'trust-krylov' the same as 'trust-ncg'.

    Gradients and products with the Hessian come from the tape; `jac` may be a function for the
    gradient instead, or True if `fun` returns both; `hess` or `hessp` likewise. `callback` gets
    the point after each iteration and may raise StopIteration.

    A tape around sees the derivatives of the minimum by all that `fun` reads.

    >>> import tapegrad
    >>> found = minimize(lambda x: tapegrad.reduce_sum((x - 2.0) ** 2), [0.0, 5.0])
    >>> found.x.round(4).tolist()
    [2.0, 2.0]
    >>> centre = tapegrad.constant([1.0, 3.0])
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(centre)
    ...     found = minimize(lambda x, c: tapegrad.reduce_sum((x - c) ** 2), [0.0, 0.0], centre)
    >>> tape.gradient(found.x, centre).tolist()
    [1.0, 1.0]
    """
    start = stop_gradient(operand(x0))
    x = reshape_p(start, shape=(-1,))
    args = arguments(args)
    objective = Objective(fun, tuple(start.shape), args, jac, hess, hessp)
    equal, positive = equal_and_positive(constraints)
    box = as_box(bounds, x)
    name = _named(method, box, bool(equal or positive))
    chosen = _options(name, x, tol, options)
    watcher = Watcher(callback, objective.shape)
    with quietly():
        lagrangian = Lagrangian(objective, equal, positive, x) if name == "SLSQP" else None
        ended = _run(name, objective, x, box, chosen, watcher, lagrangian)
    solution = ended.seen.x
    if is_recorded():
        solution = _attached(objective, ended, box, lagrangian)
    return _result(objective, ended, solution)


def _named(method: str | None, box: Box | None, is_constrained: bool) -> str:
    """The method's name as it is written here; what it cannot do is refused."""
    if method is None:
        return "SLSQP" if is_constrained else "BFGS" if box is None else "L-BFGS-B"
    known = {name.lower(): name for name in METHODS}
    if str(method).lower() not in known:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}. Got {method!r}.")
    name = known[method.lower()]
    if is_constrained and name != "SLSQP":
        raise ArgumentError(f"{name} takes no constraints. Use method='SLSQP'.")
    if box is not None and name not in _BOUNDED:
        raise ArgumentError(f"{name} takes no bounds. Use one of {', '.join(_BOUNDED)}.")
    return name


def _options(method: str, x: Any, tol: float | None, options: Any) -> dict[str, Any]:
    size = x.shape[0]
    chosen = chosen_options(method, METHODS[method], tol, options)
    if method == "Nelder-Mead":
        return _patience(chosen, size)
    if chosen["maxiter"] is None:
        chosen["maxiter"] = 200 * size
    return chosen


def _patience(chosen: dict[str, Any], size: int) -> dict[str, Any]:
    """One limit that is given leaves the other open, as in SciPy."""
    maxiter, maxfev = chosen["maxiter"], chosen["maxfev"]
    if maxiter is None and maxfev is None:
        maxiter = maxfev = 200 * size
    chosen["maxiter"] = math.inf if maxiter is None else maxiter
    chosen["maxfev"] = math.inf if maxfev is None else maxfev
    return chosen


def _run(
    method: str,
    objective: Objective,
    x: Any,
    box: Box | None,
    chosen: dict[str, Any],
    watcher: Watcher,
    lagrangian: Lagrangian | None,
) -> Ended:
    if method == "Nelder-Mead":
        pace = Pace.adapted(x.shape[0]) if chosen["adaptive"] else Pace()
        names = ("xatol", "fatol", "maxiter", "maxfev")
        patience = Patience(**{name: chosen[name] for name in names}, pace=pace)
        return descend_by_simplex(objective, x, box, patience, chosen["initial_simplex"], watcher)
    if method.startswith("trust"):
        trust = Trust(*(chosen[name] for name in _TRUST))
        return descend_trusting(objective, x, trust, watcher)
    stops = {k: chosen[k] for k in ("gtol", "ftol", "xtol", "maxfun") if k in chosen}
    limits = Limits(
        int(chosen["maxiter"]),
        flat=0.4 if method == "CG" else 0.9,
        guesses=method not in ("Newton-CG", "TNC"),
        **stops,
    )
    if lagrangian is not None:
        return descend_constrained(lagrangian, x, box, limits, watcher)
    if method in ("L-BFGS-B", "TNC"):
        inside = Limited(int(chosen["maxcor"])) if method == "L-BFGS-B" else Newton(objective)
        if box is not None:
            return descend_within(objective, x, box, inside, limits, watcher)
        return descend(objective, x, inside, limits, watcher)
    if method == "BFGS":
        memory = Dense(x)
        ended = descend(objective, x, memory, limits, watcher)
        ended.extra["hess_inv"] = memory.inverse
        return ended
    return descend(
        objective, x, Conjugate() if method == "CG" else Newton(objective), limits, watcher
    )


def _attached(
    objective: Objective, ended: Ended, box: Box | None, lagrangian: Lagrangian | None
) -> Any:
    """The minimum with derivatives; variables that a bound holds have none."""
    x = ended.seen.x
    held = x * 0.0
    if box is not None:
        with quietly():
            gradient = objective.slope(x) if lagrangian is None else grad(lagrangian)(x)
            held = 1.0 - box.free(x, gradient)
    if lagrangian is not None:
        return attached_constrained(lagrangian, x, held)

    def still(point: Any) -> Any:
        return (1.0 - held) * objective.slope(point) + held * (point - x)

    return attached(still, x, is_symmetric=box is None)


def _result(objective: Objective, ended: Ended, solution: Any) -> OptimizeResult:
    seen = ended.seen
    fields: dict[str, Any] = {
        "x": objective.shaped(solution),
        "fun": seen.value,
        "nit": ended.rounds,
        "nfev": objective.values,
        "njev": objective.gradients,
        "nhev": objective.products,
        "status": ended.status,
        "success": ended.status == 0,
        "message": WORDS[ended.status],
    }
    if seen.gradient is not None:
        fields["jac"] = objective.shaped(seen.gradient)
    return OptimizeResult(**fields, **ended.extra)
