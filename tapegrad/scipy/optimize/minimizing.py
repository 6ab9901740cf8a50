"""SciPy's minimize: methods, options, and derivatives of the minimum.

The vectors stay on their device. The host reads one short vector per evaluation.
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
from tapegrad.scipy.optimize.directions import BFGS, LBFGS, ConjugateGradient, NewtonCG
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    stationary_point,
    without_recording,
)
from tapegrad.scipy.optimize.lagrangian import Lagrangian, constrained_minimum, descend_constrained
from tapegrad.scipy.optimize.many.minima import minimize_many
from tapegrad.scipy.optimize.objective import Objective, Outcome, Watcher
from tapegrad.scipy.optimize.result import MESSAGES, OptimizeResult, merge_options
from tapegrad.scipy.optimize.scipy_searches import (
    MINIMIZERS,
    WITH_CONSTRAINTS,
    WITHIN_BOUNDS,
    held_by_bounds,
    minimize_by_scipy,
)
from tapegrad.scipy.optimize.simplex import SimplexCoefficients, SimplexLimits, descend_by_simplex
from tapegrad.scipy.optimize.trust_region import TrustRegion, descend_in_trust_region
from tapegrad.scipy.problems import are_many
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
"""The methods and the defaults of their options; None depends on the number of variables."""

_BOUNDED = ("Nelder-Mead", "L-BFGS-B", "TNC", "SLSQP", *WITHIN_BOUNDS)
_CONSTRAINED = ("SLSQP", *WITH_CONSTRAINTS)


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
    """Find a local minimum of the scalar fun(x, *args); x may have any shape.

    The default method is 'BFGS', with bounds 'L-BFGS-B', with constraints 'SLSQP'. Other methods
    are 'CG', 'Newton-CG', 'trust-ncg', 'TNC' (supports bounds) and 'Nelder-Mead' (no gradients,
    supports bounds). 'SLSQP' is implemented as an augmented Lagrangian, 'trust-krylov' as
    'trust-ncg'. 'Powell', 'COBYLA', 'COBYQA', 'trust-constr', 'trust-exact' and 'dogleg' run
    SciPy's search, if SciPy is installed, with derivatives from the tape.

    The tape provides gradients and Hessian-vector products. Alternatively `jac` is a function for
    the gradient, or True if `fun` returns both; `hess` and `hessp` are functions. `callback`
    receives the point after each iteration and may raise StopIteration.

    Enclosing tapes record the derivatives of the minimum with respect to everything that `fun`
    reads.

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
    if are_many(x, args):
        if callback is not None:
            raise ArgumentError(
                "Inside vmap or a recorded function, minimize supports no callback."
            )
        return minimize_many(objective, x, name, chosen, box)
    watcher = Watcher(callback, objective.shape)
    with without_recording():
        is_constrained = name == "SLSQP" or bool(equal or positive)
        lagrangian = Lagrangian(objective, equal, positive, x) if is_constrained else None
        outcome = _run(name, objective, x, box, chosen, watcher, lagrangian)
    solution = outcome.state.x
    if is_recording():
        solution = _attached(name, objective, outcome, box, lagrangian)
    return _result(objective, outcome, solution)


def _named(method: str | None, box: Box | None, is_constrained: bool) -> str:
    """Return the canonical name of the method; raise if it does not support the arguments."""
    if method is None:
        return "SLSQP" if is_constrained else "BFGS" if box is None else "L-BFGS-B"
    known = {name.lower(): name for name in (*METHODS, *MINIMIZERS)}
    if str(method).lower() not in known:
        raise ArgumentError(f"method must be one of {', '.join(known.values())}. Got {method!r}.")
    name = known[method.lower()]
    if is_constrained and name not in _CONSTRAINED:
        raise ArgumentError(f"{name} does not support constraints. Use method='SLSQP'.")
    if box is not None and name not in _BOUNDED:
        raise ArgumentError(f"{name} does not support bounds. Use one of {', '.join(_BOUNDED)}.")
    return name


def _options(method: str, x: Any, tol: float | None, options: Any) -> dict[str, Any]:
    size = x.shape[0]
    if method in MINIMIZERS:
        return {"tol": tol, **(options or {})}
    chosen = merge_options(method, METHODS[method], tol, options)
    if method == "Nelder-Mead":
        return _default_limits(chosen, size)
    if chosen["maxiter"] is None:
        chosen["maxiter"] = 200 * size
    return chosen


def _default_limits(chosen: dict[str, Any], size: int) -> dict[str, Any]:
    """Fill in the default limits; as in SciPy, giving one limit removes the other."""
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
) -> Outcome:
    if method in MINIMIZERS:
        return minimize_by_scipy(method, objective, x, box, chosen, watcher, lagrangian)
    if method == "Nelder-Mead":
        coefficients = (
            SimplexCoefficients.adapted(x.shape[0]) if chosen["adaptive"] else SimplexCoefficients()
        )
        names = ("xatol", "fatol", "maxiter", "maxfev")
        simplex_limits = SimplexLimits(
            **{name: chosen[name] for name in names}, coefficients=coefficients
        )
        return descend_by_simplex(
            objective, x, box, simplex_limits, chosen["initial_simplex"], watcher
        )
    if method.startswith("trust"):
        trust = TrustRegion(*(chosen[name] for name in _TRUST))
        return descend_in_trust_region(objective, x, trust, watcher)
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
        inside = LBFGS(int(chosen["maxcor"])) if method == "L-BFGS-B" else NewtonCG(objective)
        if box is not None:
            return descend_within(objective, x, box, inside, limits, watcher)
        return descend(objective, x, inside, limits, watcher)
    if method == "BFGS":
        rule = BFGS(x)
        outcome = descend(objective, x, rule, limits, watcher)
        outcome.extra["hess_inv"] = rule.inverse
        return outcome
    return descend(
        objective,
        x,
        ConjugateGradient() if method == "CG" else NewtonCG(objective),
        limits,
        watcher,
    )


def _attached(
    method: str,
    objective: Objective,
    outcome: Outcome,
    box: Box | None,
    lagrangian: Lagrangian | None,
) -> Any:
    """Return the minimum with derivatives; variables held by a bound have none."""
    x = outcome.state.x
    held = None if lagrangian is None else x * 0.0
    if box is not None:
        with without_recording():
            gradient = objective.slope(x) if lagrangian is None else grad(lagrangian)(x)
            held = 1.0 - box.free(x, gradient)
            if method in MINIMIZERS:
                held = held_by_bounds(box, x, gradient)
    if lagrangian is not None:
        return constrained_minimum(lagrangian, x, held)
    return stationary_point(objective.slope, x, held)


def _result(objective: Objective, outcome: Outcome, solution: Any) -> OptimizeResult:
    state = outcome.state
    fields: dict[str, Any] = {
        "x": objective.reshaped(solution),
        "fun": state.value,
        "nit": outcome.iterations,
        "nfev": objective.values,
        "njev": objective.gradients,
        "nhev": objective.products,
        "status": outcome.status,
        "success": outcome.status == 0,
        "message": MESSAGES[outcome.status],
    }
    if state.gradient is not None:
        fields["jac"] = objective.reshaped(state.gradient)
    return OptimizeResult({**fields, **outcome.extra})
