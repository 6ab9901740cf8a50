"""Systems of equations: root and fsolve, with derivatives of the roots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.transforms import jvp
from tapegrad.core.choices import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.ops.linalg.solve import pinv
from tapegrad.ops.products import outer
from tapegrad.scipy.optimize.damped import System, Tolerances, check_jac, check_square, solve_damped
from tapegrad.scipy.optimize.implicit import attached, is_recorded, look, quietly
from tapegrad.scipy.optimize.objective import dot, steepest
from tapegrad.scipy.optimize.result import OptimizeError, OptimizeResult, chosen_options
from tapegrad.scipy.sparse.linalg import krylov
from tapegrad.scipy.vocabulary import (
    arguments,
    eps_of,
    operand,
    reshape_p,
    stop_gradient,
    zeros_like,
)

_LOOKING = "an iteration of root"
_METHODS: dict[str, dict[str, Any]] = {
    "hybr": {"xtol": 1.49012e-8, "maxfev": None},
    "lm": {"xtol": 1.49012e-8, "maxfev": None},
    "broyden1": {"ftol": 1e-9, "maxiter": 200},
    "krylov": {"ftol": 1e-9, "maxiter": 100},
}
_FOUND = "Found a root within the tolerances."
_LOST = "The search came to rest where the equations do not hold: begin nearer to a root."
_TIRED = "Stopped at the maximum number of iterations."


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
    """Find x, of any shape, with fun(x, *args) = 0, as many equations as unknowns.

    The methods: 'hybr' and 'lm', damped Newton steps with the Jacobian from the tape (or from
    `jac`, a function); 'krylov', Newton steps by GMRES on products with it; 'broyden1', which
    takes the Jacobian once and learns the rest. A tape around sees the derivatives of the root by
    all that `fun` reads.

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
    check_choice("method", method, _METHODS)
    if callback is not None:
        raise ArgumentError("root takes no callback.")
    chosen = chosen_options(method, _METHODS[method], tol, options)
    start = stop_gradient(operand(x0))
    x = reshape_p(start, shape=(-1,))
    args = arguments(args)
    system = System(fun, tuple(start.shape), args, check_jac(jac))
    with quietly():
        check_square(system, x, "root")
        search = _broyden if method == "broyden1" else _krylov if method == "krylov" else _damped
        x, rest, status = search(system, x, chosen)
    solution = attached(system.residual, x) if is_recorded() else x
    return OptimizeResult(
        x=reshape_p(solution, shape=system.shape),
        fun=reshape_p(rest, shape=system.shape),
        nfev=system.values,
        njev=system.matrices,
        status=status,
        success=status == 1,
        message={1: _FOUND, 2: _TIRED}.get(status, _LOST),
        method=method,
    )


def _damped(system: System, x: Any, chosen: dict[str, Any]) -> tuple[Any, Any, int]:
    size = x.shape[0]
    most = 100 * (size + 1) if chosen["maxfev"] is None else int(chosen["maxfev"])
    (before,) = look(_LOOKING, dot(start := system.at(x), start))
    fit = solve_damped(system, x, None, Tolerances(-1.0, float(chosen["xtol"]), 0.0, most))
    # A minimum of the squares that is no root has residuals of the size of those at the start.
    small = 10.0 * eps_of(x) ** 0.5
    is_root = (2.0 * fit.cost) ** 0.5 <= small * (1.0 + before**0.5)
    return fit.x, fit.residual, 1 if is_root else 2 if fit.status == 0 else 5


def _broyden(system: System, x: Any, chosen: dict[str, Any]) -> tuple[Any, Any, int]:
    """Broyden's first method: the inverse Jacobian, corrected after each step by what it missed."""
    rest, inverse = system.at(x), pinv(system.matrix(x))
    size, square = look(_LOOKING, steepest(rest), dot(rest, rest))
    for _ in range(int(chosen["maxiter"])):
        if size <= chosen["ftol"]:
            return x, rest, 1
        found = _backtracked(system, x, -(inverse @ rest), square)
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
    """Newton's steps, each solved by GMRES on products with the Jacobian."""
    rest = system.at(x)
    size, square = look(_LOOKING, steepest(rest), dot(rest, rest))
    for _ in range(int(chosen["maxiter"])):
        if size <= chosen["ftol"]:
            return x, rest, 1
        here = x

        def apply(v: Any, here: Any = here) -> Any:
            return stop_gradient(jvp(system.residual, [here], [v])[1])

        goal = krylov.length(rest) * 1e-4
        start = zeros_like(rest)
        step, _ = krylov.gmres(apply, -rest, start, goal, 10, krylov.nothing, restart=20)
        found = _backtracked(system, x, step, square)
        if found is None:
            return x, rest, 5
        x, rest, size, square = found
    return x, rest, 1 if size <= chosen["ftol"] else 2


def _backtracked(
    system: System, x: Any, step: Any, square: float
) -> tuple[Any, Any, float, float] | None:
    """Shorten a step until the equations are nearer to holding; None if they never are."""
    share = 1.0
    for _ in range(30):
        point = x + share * step
        rest = system.at(point)
        size, new = look(_LOOKING, steepest(rest), dot(rest, rest))
        if new <= (1.0 - 1e-4 * share) * square:
            return point, rest, size, new
        share *= 0.5
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
    """Return x with func(x, *args) = 0, or raise; with `full_output` also how it went.

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
