"""Systems of equations: root and fsolve with differentiable roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.transforms import jvp
from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.ops.linalg.solve import pinv
from tapegrad.ops.products.functions import outer
from tapegrad.scipy.optimize.damped import (
    System,
    Tolerances,
    check_jac,
    check_square,
    levenberg_marquardt,
)
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    read_scalars,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.optimize.many.fits import root_many
from tapegrad.scipy.optimize.objective import dot, max_norm
from tapegrad.scipy.optimize.result import OptimizeError, OptimizeResult, merge_options
from tapegrad.scipy.optimize.scipy_searches import ROOTS, root_by_scipy
from tapegrad.scipy.problems import are_many
from tapegrad.scipy.sparse.linalg import krylov
from tapegrad.scipy.vocabulary import (
    arguments,
    eps_of,
    operand,
    reshape_p,
    stop_gradient,
    zeros_like,
)

_READER = "an iteration of root"
_METHODS: dict[str, dict[str, Any]] = {
    "hybr": {"xtol": 1.49012e-8, "maxfev": None},
    "lm": {"xtol": 1.49012e-8, "maxfev": None},
    "broyden1": {"ftol": 1e-9, "maxiter": 200},
    "krylov": {"ftol": 1e-9, "maxiter": 100},
}
_FOUND = "Found a root within the tolerances."
_NOT_A_ROOT = "The search converged to a point that is not a root. Start closer to a root."
_MAX_ITERATIONS = "Stopped at the maximum number of iterations."


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find x of any shape with fun(x, *args) = 0, for as many equations as unknowns.

    'hybr' and 'lm' take damped Newton steps with the Jacobian from the tape or from the function
    `jac`. 'krylov' solves the Newton steps by GMRES with Jacobian-vector products. 'broyden1'
    computes the Jacobian once and updates it. 'broyden2', 'anderson', 'linearmixing',
    'diagbroyden', 'excitingmixing' and 'df-sane' run SciPy's search, if SciPy is installed.
    Enclosing tapes record the derivatives of the root with respect to everything that `fun` reads.

    >>> import tapegrad
    >>> def both(x, a):
    ...     return tapegrad.stack([x[0] * x[1] - a, x[0] - x[1]])
    >>> area = tapegrad.constant(9.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(area)
    ...     x = root(both, [1.0, 1.0], area).x
    >>> x.round(4).tolist(), round(float(tape.gradient(x, area)), 4)
    ([3.0, 3.0], 0.3333)
    """
    check_choice("method", method, (*_METHODS, *ROOTS))
    if callback is not None:
        raise ArgumentError("root does not support callback. Got a function; pass callback=None.")
    is_here = method in _METHODS
    chosen = merge_options(method, _METHODS[method], tol, options) if is_here else {}
    start = stop_gradient(operand(x0))
    x = reshape_p(start, shape=(-1,))
    args = arguments(args)
    system = System(fun, tuple(start.shape), args, check_jac(jac))
    if are_many(x, args):
        if method not in ("hybr", "lm"):
            raise ArgumentError(
                "Inside vmap or a recorded function, root supports the methods hybr and lm. "
                f"Got {method!r}."
            )
        check_square(system, x, "root")
        return root_many(system, x, chosen)
    with without_recording():
        check_square(system, x, "root")
        if is_here:
            search = {"broyden1": _broyden, "krylov": _krylov}.get(method, _damped)
            x, rest, status = search(system, x, chosen)
        else:
            x, rest, status = root_by_scipy(method, system, x, tol, options)
    solution = with_implicit_derivatives(system.residual, x) if is_recording() else x
    return OptimizeResult(
        x=reshape_p(solution, shape=system.shape),
        fun=reshape_p(rest, shape=system.shape),
        nfev=system.values,
        njev=system.matrices,
        status=status,
        success=status == 1,
        message={1: _FOUND, 2: _MAX_ITERATIONS}.get(status, _NOT_A_ROOT),
        method=method,
    )


def _damped(system: System, x: Any, chosen: dict[str, Any]) -> tuple[Any, Any, int]:
    size = x.shape[0]
    most = 100 * (size + 1) if chosen["maxfev"] is None else int(chosen["maxfev"])
    (before,) = read_scalars(_READER, dot(start := system.at(x), start))
    fit = levenberg_marquardt(system, x, None, Tolerances(-1.0, float(chosen["xtol"]), 0.0, most))
    # At a minimum that is not a root, the residuals are as large as those at the start.
    small = 10.0 * eps_of(x) ** 0.5
    is_root = (2.0 * fit.cost) ** 0.5 <= small * (1.0 + before**0.5)
    return fit.x, fit.residual, 1 if is_root else 2 if fit.status == 0 else 5


def _broyden(system: System, x: Any, chosen: dict[str, Any]) -> tuple[Any, Any, int]:
    """Broyden's first method: update the inverse Jacobian after each step."""
    rest, inverse = system.at(x), pinv(system.matrix(x))
    size, square = read_scalars(_READER, max_norm(rest), dot(rest, rest))
    for _ in range(int(chosen["maxiter"])):
        if size <= chosen["ftol"]:
            return x, rest, 1
        found = _backtrack(system, x, -(inverse @ rest), square)
        if found is None:
            return x, rest, 5
        point, new, size, square = found
        step, change = point - x, new - rest
        pulled = inverse @ change
        weight = krylov.ratio(1.0, dot(step, pulled))
        row = step @ inverse
        inverse = inverse + weight * outer(step - pulled, row)
        x, rest = point, new
    return x, rest, 1 if size <= chosen["ftol"] else 2


def _krylov(system: System, x: Any, chosen: dict[str, Any]) -> tuple[Any, Any, int]:
    """Take Newton steps solved by GMRES with Jacobian-vector products."""
    rest = system.at(x)
    size, square = read_scalars(_READER, max_norm(rest), dot(rest, rest))
    for _ in range(int(chosen["maxiter"])):
        if size <= chosen["ftol"]:
            return x, rest, 1
        here = x

        def apply(v: Any, here: Any = here) -> Any:
            return stop_gradient(jvp(system.residual, [here], [v])[1])

        goal = krylov.length(rest) * 1e-4
        start = zeros_like(rest)
        step, _ = krylov.gmres(apply, -rest, start, goal, 10, krylov.no_preconditioner, restart=20)
        found = _backtrack(system, x, step, square)
        if found is None:
            return x, rest, 5
        x, rest, size, square = found
    return x, rest, 1 if size <= chosen["ftol"] else 2


def _backtrack(
    system: System, x: Any, step: Any, square: float
) -> tuple[Any, Any, float, float] | None:
    """Shorten a step until the residual decreases; return None if it never does."""
    factor = 1.0
    for _ in range(30):
        point = x + factor * step
        rest = system.at(point)
        size, new = read_scalars(_READER, max_norm(rest), dot(rest, rest))
        if new <= (1.0 - 1e-4 * factor) * square:
            return point, rest, size, new
        factor *= 0.5
    return None


def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: bool = False,
    *,
    xtol: float = 1.49012e-8,
    maxfev: int | None = None,
) -> Any:
    """Return x with func(x, *args) = 0 or raise; `full_output` also returns the diagnostics.

    >>> fsolve(lambda x: x * x - 2.0, [1.0]).round(6).tolist()
    [1.414214]
    """
    options = {"xtol": xtol, "maxfev": maxfev or None}
    found = root(func, x0, args, "hybr", fprime, options=options)
    if full_output:
        facts = {"nfev": found.nfev, "njev": found.njev, "fvec": found.fun}
        return found.x, facts, found.status, found.message
    if not found.success:
        raise OptimizeError(f"fsolve found no root. {found.message}")
    return found.x
