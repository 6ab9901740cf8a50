"""Searches of an installed SciPy, for methods that are not implemented here.

SciPy gets functions of NumPy arrays, with the derivatives of the tape: gradients, Hessians, and the
Jacobians and curvatures of constraints. Each call copies a point to its device and the result back.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.transforms import grad, jacobian
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError
from tapegrad.scipy.optimize.boxes import Box
from tapegrad.scipy.optimize.damped import System
from tapegrad.scipy.optimize.lagrangian import Lagrangian
from tapegrad.scipy.optimize.objective import Objective, Outcome, State, Watcher
from tapegrad.scipy.vocabulary import cast, numbers_like, numpy_dtype_of, operand, reshape_p

Array = np.ndarray

MINIMIZERS = {
    "Powell": (), "COBYLA": (), "COBYQA": (), "trust-constr": ("jac", "hess"),
    "trust-exact": ("jac", "hess"), "dogleg": ("jac", "hess"),
}  # fmt: skip
"""Methods of SciPy's `minimize`, and the derivatives that they take."""

WITHIN_BOUNDS = ("Powell", "COBYLA", "COBYQA", "trust-constr")
WITH_CONSTRAINTS = ("COBYLA", "COBYQA", "trust-constr")
ROOTS = ("broyden2", "anderson", "linearmixing", "diagbroyden", "excitingmixing", "df-sane")
BRACKETING = ("brenth", "ridder", "toms748")

_NEAR = 1e-5
"""How far from a bound or a constraint an interior method may stop."""


def scipy_optimize(method: str) -> Any:
    """Return the module scipy.optimize; raise if SciPy is not installed.

    >>> scipy_optimize("Powell").__name__
    'scipy.optimize'
    """
    try:
        return importlib.import_module("scipy.optimize")
    except ImportError as error:
        raise ArgumentError(
            f"{method} is SciPy's. Install SciPy (pip install scipy), or choose another method."
        ) from error


def _on_host(value: Any) -> Array:
    return np.asarray(read_on_host(value, "a function that SciPy calls"), dtype=float)


def _on_host_all(*functions: Callable[[Any], Any], like: Any) -> list[Callable[..., Array]]:
    """Return functions of tensors as functions of NumPy arrays."""

    def hosted(function: Callable[[Any], Any]) -> Callable[..., Array]:
        return lambda x, *_: _on_host(function(numbers_like(like, np.asarray(x))))

    return [hosted(function) for function in functions]


def minimize_by_scipy(
    method: str,
    objective: Objective,
    x: Any,
    box: Box | None,
    options: dict[str, Any],
    watcher: Watcher,
    lagrangian: Lagrangian | None,
) -> Outcome:
    """Run a method of SciPy's minimize with exact derivatives; set the Lagrangian's multipliers."""
    size = int(x.shape[0])

    def hessian(x: Any) -> Any:
        if objective.hess is None and objective.hessp is None:
            return jacobian(objective.slope)(x)
        apply = objective.curvature(x)
        return np.stack([_on_host(apply(numbers_like(x, unit))) for unit in np.eye(size)], axis=1)

    def told(point: Array, *_: Any) -> None:
        here = numbers_like(x, np.asarray(point))
        if watcher.stops(here, float(_on_host(objective.value(here)))):
            raise StopIteration

    value, slope = _on_host_all(objective.value, lambda x: objective.both(x)[1], like=x)
    given: dict[str, Any] = dict(options)
    tol = given.pop("tol", None)
    keywords: dict[str, Any] = {"tol": tol, "options": given, "method": method}
    taken = MINIMIZERS[method]
    keywords |= {"jac": slope} if "jac" in taken else {}
    keywords |= {"hess": _on_host_all(hessian, like=x)[0]} if "hess" in taken else {}
    module = scipy_optimize(method)
    if box is not None:
        ends = [np.broadcast_to(_on_host(operand(end)), (size,)) for end in (box.low, box.high)]
        keywords["bounds"] = module.Bounds(*ends)
    if lagrangian is not None:
        keywords["constraints"] = _constraints(module, method, lagrangian, x)
    if watcher.is_needed:
        keywords["callback"] = told
    found = module.minimize(lambda x: float(value(x)), _on_host(x), **keywords)
    point = numbers_like(x, np.asarray(found.x, dtype=float))
    new_value, gradient = objective.both(point)
    if lagrangian is not None:
        lagrangian.multipliers = _multipliers(lagrangian, point)
    status = 0 if found.success else 99 if found.status in (3, 99) and watcher.is_needed else 1
    state = State(point, gradient, float(_on_host(new_value)))
    extra = {"message": str(found.message)}
    return Outcome(state, int(getattr(found, "nit", found.nfev)), status, extra)


def _side(lagrangian: Lagrangian, place: int) -> Callable[[Any], Any]:
    """Return the function of the constraints that must be zero (0) or not negative (1)."""
    return lambda x: lagrangian.constraint_values(x)[place]


def _constraints(module: Any, method: str, lagrangian: Lagrangian, x: Any) -> list[Any]:
    """Return the constraints in SciPy's form, with exact derivatives."""
    found = []
    for place, (low, high) in enumerate([(0.0, 0.0), (0.0, np.inf)]):
        values = _side(lagrangian, place)

        def curvature(x: Any, weights: Any, values: Any = values) -> Array:
            def weighted(x: Any) -> Any:
                return values(x) @ numbers_like(x, np.asarray(weights, dtype=float))

            return _on_host(jacobian(grad(weighted))(x))

        if not values(x).shape[0]:
            continue
        plain, matrix = _on_host_all(values, jacobian(values), like=x)

        def bent(x: Any, weights: Any, curvature: Any = curvature, like: Any = x) -> Array:
            return np.asarray(curvature(numbers_like(like, np.asarray(x)), weights))

        exact = {"jac": matrix, "hess": bent} if method == "trust-constr" else {}
        found.append(module.NonlinearConstraint(plain, low, high, **exact))
    return found


def _multipliers(lagrangian: Lagrangian, x: Any) -> tuple[Any, Any]:
    """Return the multipliers that satisfy the conditions of Karush, Kuhn and Tucker best."""
    slope = _on_host(lagrangian.objective.slope(x))
    sides = [_side(lagrangian, place) for place in (0, 1)]
    values = [_on_host(side(x)) for side in sides]
    matrices = [
        _on_host(jacobian(side)(x)) if value.size else np.zeros((0, slope.size))
        for side, value in zip(sides, values, strict=True)
    ]
    active = values[1] <= _NEAR * (1.0 + np.linalg.norm(matrices[1], axis=1))
    columns = np.concatenate([matrices[0], -matrices[1][active]]).T
    found = np.linalg.lstsq(columns, -slope, rcond=None)[0]
    count = values[0].size
    rest = np.zeros(values[1].size)
    rest[active] = np.maximum(found[count:], 0.0)
    return numbers_like(x, found[:count]), numbers_like(x, rest)


def held_by_bounds(box: Box, x: Any, gradient: Any) -> Any:
    """Return 1 for variables at a bound; interior methods stop a little before it.

    >>> import tapegrad
    >>> box = Box(tapegrad.constant([0.0, 0.0]), tapegrad.constant([1.0, 1.0]))
    >>> held_by_bounds(box, tapegrad.constant([1e-7, 0.5]), tapegrad.constant([1.0, 0.0])).tolist()
    [1.0, 0.0]
    """
    below = (x <= box.low + _NEAR) & (gradient > _NEAR)
    above = (x >= box.high - _NEAR) & (gradient < -_NEAR)
    return cast(below | above, numpy_dtype_of(x))


def root_by_scipy(
    method: str, system: System, x: Any, tol: float | None, options: dict[str, Any] | None
) -> tuple[Any, Any, int]:
    """Run a method of SciPy's root; return the point, the residual there and 1 for success."""
    (values,) = _on_host_all(system.at, like=x)
    found = scipy_optimize(method).root(
        values, _on_host(x), method=method, tol=tol, options=dict(options or {})
    )
    point = numbers_like(x, np.asarray(found.x, dtype=float))
    return reshape_p(point, shape=tuple(x.shape)), system.at(point), 1 if found.success else 5


def bracketed_by_scipy(name: str) -> Callable[..., tuple[float, int, bool]]:
    """Return a search of SciPy for the root between two points.

    >>> search = bracketed_by_scipy("ridder")
    >>> round(search(lambda x: x * x - 4.0, (0.0, -4.0), (3.0, 5.0), 1e-9, 1e-9, 50)[0], 6)
    2.0
    """

    def search(
        f: Any, low: Any, high: Any, xtol: float, rtol: float, most: int
    ) -> tuple[float, int, bool]:
        run = getattr(scipy_optimize(name), name)
        limits = {"xtol": xtol, "rtol": rtol, "maxiter": most, "full_output": True, "disp": False}
        x, facts = run(f, low[0], high[0], **limits)
        return float(x), int(facts.iterations), bool(facts.converged)

    return search
