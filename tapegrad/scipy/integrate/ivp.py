"""Initial value problems with SciPy's signatures: odeint and solve_ivp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad.core.convert import NUMBERS
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import as_constant
from tapegrad.ops.shape import moveaxis
from tapegrad.scipy.integrate.adjoint import flow
from tapegrad.scipy.integrate.steps import Control
from tapegrad.scipy.operands import operand, operands


@dataclass(frozen=True)
class OdeResult:
    """What `solve_ivp` found: the times, the states as columns, and how it went.

    >>> solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0]).success
    True
    """

    t: Any
    y: Any
    nfev: int
    status: int = 0
    message: str = "The solver successfully reached the end of the integration interval."
    success: bool = True


def _parameters(y0: Any, times: Any, args: Any) -> tuple[Any, Any, list[Any]]:
    """Return the start, the times and the parameters; numbers among these stay numbers."""
    args = tuple(args) if isinstance(args, tuple | list) else (args,)
    y0, times = operand(y0), operand(times)
    return y0, times, [arg if type(arg) in NUMBERS else _as_parameter(arg) for arg in args]


def _as_parameter(value: Any) -> Any:
    is_array = hasattr(value, "shape") or isinstance(value, list)
    return operand(value) if is_array else value


def _like_state(slope: Any, y: Any) -> Any:
    slope, y = operands(slope, y)
    if tuple(slope.shape) != tuple(y.shape):
        raise ShapeError(
            f"The right-hand side must return slopes of the state's shape {tuple(y.shape)}. "
            f"It returned {tuple(slope.shape)}."
        )
    return slope


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    *,
    rtol: float = 1.49012e-8,
    atol: float = 1.49012e-8,
    hmax: float = 0.0,
    h0: float = 0.0,
    tfirst: bool = False,
) -> Any:
    """Return the solution of y' = func(y, t, *args) at the times t, the first of which is y0's.

    Steps are adaptive (Dormand-Prince, order 5). y0, t, args and variables that `func` reads get
    gradients by the adjoint method. The state may have any shape.

    >>> y = odeint(lambda y, t: -y, [1.0, 2.0], [0.0, 1.0])
    >>> y.numpy().round(4).tolist()
    [[1.0, 2.0], [0.3679, 0.7358]]
    """
    y0, times, params = _parameters(y0, t, args)
    if len(times.shape) != 1 or not times.shape[0]:
        raise ShapeError(f"odeint needs a vector of times. Got shape {tuple(times.shape)}.")

    def field(t: float, y: Any, *params: Any) -> Any:
        return _like_state(func(t, y, *params) if tfirst else func(y, t, *params), y)

    control = Control(float(rtol), float(atol), hmax or math.inf, h0 or None)
    return flow(field, y0, times, params, control)[1]


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    args: Any = (),
    *,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    max_step: float = math.inf,
    first_step: float | None = None,
) -> OdeResult:
    """Solve y' = fun(t, y, *args) over t_span; `.t` and `.y` hold the times and the states.

    The states are at `t_eval`, or after every step without. y0, args and variables that `fun`
    reads get gradients by the adjoint method. The method is RK45.

    >>> found = solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], t_eval=[0.0, 1.0], rtol=1e-8)
    >>> found.y.numpy().round(4).tolist()
    [[1.0, 0.3679]]
    """
    if method != "RK45":
        raise ArgumentError(f"The method of solve_ivp must be 'RK45'. Got {method!r}.")
    start, end = (float(t) for t in t_span)
    asked = None if t_eval is None else [float(t) for t in t_eval]
    y0, times, params = _parameters(y0, _all_times(start, end, asked), args)

    def field(t: float, y: Any, *params: Any) -> Any:
        return _like_state(fun(t, y, *params), y)

    control = Control(float(rtol), float(atol), float(max_step), first_step)
    found, states = flow(field, y0, times, params, control, every_step=asked is None)
    if asked is not None:
        states = states[found.index(asked[0]) : found.index(asked[-1]) + 1] if asked else states[:0]
        found = asked
    t = as_constant(np.array(found))
    return OdeResult(t, moveaxis(states, 0, -1), control.calls)


def _all_times(start: float, end: float, asked: list[float] | None) -> list[float]:
    """The times at which steps must end: the span's, and between them those asked for."""
    if asked is None:
        return [start, end]
    low, high = min(start, end), max(start, end)
    order = asked if start <= end else asked[::-1]
    is_ordered = all(a < b for a, b in pairwise(order))
    if not is_ordered or any(not low <= t <= high for t in asked):
        raise ArgumentError("t_eval must lie within t_span and go from its start to its end.")
    before = [] if asked and asked[0] == start else [start]
    return [*before, *asked] if asked else [start]
