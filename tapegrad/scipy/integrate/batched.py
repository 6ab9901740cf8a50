"""Many trajectories in one recorded function, each with its own steps.

Axis 0 of the initial states counts the trajectories. One that fails is NaN after that point and is
marked in `success` and `status`; it raises nothing and leaves the others alone. The first call with
a function compiles; call with the same function object again, rather than with a new lambda.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ShapeError
from tapegrad.scipy.compiled import axes_of, check_problems, solve_together
from tapegrad.scipy.integrate import ivp
from tapegrad.scipy.integrate.ivp import OdeResult
from tapegrad.scipy.vocabulary import arguments, operand

__all__ = ["solve_ivp"]


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    args: Any = (),
    *,
    in_axes: Any = 0,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    max_step: float = math.inf,
    first_step: float | None = None,
) -> OdeResult:
    """Solve y' = fun(t, y, *args) from each row of y0; `.y` has shape (count, ..., times).

    The method is 'RK23', 'RK45', 'DOP853' or, for stiff equations, 'Radau' or 'BDF'. The states are
    returned at `t_eval` or else at the ends of `t_span`, which all trajectories share. `in_axes` is
    the axis of trajectories of all `args`, or one per argument; None for a shared one.

    >>> def decay(t, y, rate):
    ...     return -rate * y
    >>> found = solve_ivp(decay, (0.0, 1.0), [[1.0], [1.0]], args=[[1.0, 2.0]], rtol=1e-8)
    >>> found.y.round(4).tolist(), found.success.tolist()
    ([[[1.0, 0.3679]], [[1.0, 0.1353]]], [True, True])
    """
    method = ivp.method_name(method)
    args = arguments(args)
    span = operand(t_span)
    if tuple(span.shape) != (2,):
        raise ShapeError(f"t_span must have a start and an end. Got shape {span.shape}.")
    if t_eval is not None and isinstance(t_span, tuple | list) and not hasattr(t_eval, "device"):
        ivp.check_t_eval(float(t_span[0]), float(t_span[1]), [float(t) for t in t_eval])
    wanted = [] if t_eval is None else [operand(t_eval)]
    options: dict[str, Any] = {
        "rtol": rtol,
        "atol": atol,
        "max_step": max_step,
        "first_step": first_step,
    }

    def one(y0: Any, span: Any, *rest: Any) -> Any:
        times, own = (rest[0], rest[1:]) if wanted else (None, rest)
        found = ivp.solve_ivp(fun, (span[0], span[1]), y0, method, times, args=own, **options)
        return found.y, found.nfev, found.status

    given = [check_problems(y0, "solve_ivp", "y0"), span, *wanted, *args]
    shared = [None] * (1 + len(wanted))
    axes = [0, *shared, *axes_of(in_axes, len(args), "solve_ivp")]
    settings = ("solve_ivp", method, options, len(wanted))
    y, calls, status = solve_together(fun, one, given, axes, settings)
    return OdeResult(
        wanted[0] if wanted else span,
        y,
        calls,
        status=status,
        message="The status of each trajectory is 0 at the end of t_span, -1 if it failed.",
        success=status == 0,
    )


_check_calls(globals(), __all__)
