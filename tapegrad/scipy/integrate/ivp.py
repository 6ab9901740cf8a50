"""Initial value problems: odeint and solve_ivp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.scipy.integrate.adjoint import flow
from tapegrad.scipy.integrate.bdf import BDF
from tapegrad.scipy.integrate.control import Control, Method
from tapegrad.scipy.integrate.events import as_events, end_of_integration, locate_events
from tapegrad.scipy.integrate.explicit import DOP853, RK23, RK45
from tapegrad.scipy.integrate.many.bdf import ManyBDF
from tapegrad.scipy.integrate.many.flow import flow_many
from tapegrad.scipy.integrate.many.methods import ManyExplicit, ManyMethod, ManyRadau, Tolerance
from tapegrad.scipy.integrate.many.steps import ManyMultistep, Steps
from tapegrad.scipy.integrate.radau import Radau
from tapegrad.scipy.integrate.solution import OdeSolution
from tapegrad.scipy.linalg.ignored_options import ignoring
from tapegrad.scipy.problems import are_many
from tapegrad.scipy.vocabulary import (
    arguments,
    as_constant,
    concat,
    moveaxis,
    operand,
    operands,
    place_next_to,
    reshape_p,
    stack,
    take,
)

METHODS: dict[str, Method] = {"RK23": RK23, "RK45": RK45, "DOP853": DOP853}
METHODS |= {"Radau": Radau(), "BDF": BDF(), "LSODA": BDF()}
MANY: dict[str, ManyMethod | ManyMultistep] = {
    "RK23": ManyExplicit(RK23),
    "RK45": ManyExplicit(RK45),
    "DOP853": ManyExplicit(DOP853),
    "Radau": ManyRadau(),
    "BDF": ManyBDF(),
    "LSODA": ManyBDF(),
}


@dataclass(frozen=True)
class OdeResult:
    """The result of `solve_ivp`: times, states as columns, and diagnostics.

    >>> solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0]).success
    True
    """

    t: Any
    y: Any
    nfev: Any
    sol: OdeSolution | None = None
    t_events: list[Any] | None = None
    y_events: list[Any] | None = None
    njev: int = 0
    status: Any = 0
    message: str = "The solver reached the end of t_span."
    success: Any = True


def _parameters(y0: Any, times: Any, args: Any) -> tuple[Any, Any, list[Any]]:
    """Convert y0, the times and the parameters to tensors; Python numbers in args stay numbers."""
    args = arguments(args)
    y0, times = operand(y0), operand(times)
    return y0, times, [arg if type(arg) in NUMBERS else _as_parameter(arg) for arg in args]


def _as_parameter(value: Any) -> Any:
    is_array = hasattr(value, "shape") or isinstance(value, list)
    return operand(value) if is_array else value


def _like_state(slope: Any, y: Any) -> Any:
    slope, y = operands(slope, y)
    if slope.shape != y.shape:
        raise ShapeError(
            f"The right-hand side must return the shape of the state, {y.shape}. Got {slope.shape}."
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
    """Solve y' = func(y, t, *args) with y(t[0]) = y0 and return the states at the times t.

    The steps are adaptive (Dormand-Prince, order 5). The adjoint method provides gradients for y0,
    t, args and variables that `func` reads. The state may have any shape.

    >>> y = odeint(lambda y, t: -y, [1.0, 2.0], [0.0, 1.0])
    >>> y.round(4).tolist()
    [[1.0, 2.0], [0.3679, 0.7358]]
    """
    y0, times, params = _parameters(y0, t, args)
    if times.ndim != 1 or not times.shape[0]:
        raise ShapeError(f"odeint needs a vector of times t. Got shape {times.shape}.")

    def field(t: float, y: Any, *params: Any) -> Any:
        return _like_state(func(t, y, *params) if tfirst else func(y, t, *params), y)

    control = Control(float(rtol), float(atol), RK45, hmax or math.inf, h0 or None)
    return flow(field, y0, times, params, control)[1]


@ignoring("jac", "jac_sparsity", "lband", "uband", "min_step")
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = (),
    *,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    max_step: float = math.inf,
    first_step: float | None = None,
) -> OdeResult:
    """Solve y' = fun(t, y, *args) over t_span; `.t` and `.y` hold the times and the states.

    The method is 'RK23', 'RK45', 'DOP853' or, for stiff equations, 'Radau' or 'BDF', or SciPy's
    class of that name. 'LSODA' is implemented as 'BDF'. The tape provides Jacobians; `jac` is
    ignored. The states are returned at `t_eval` or else after every step. `dense_output` adds
    `.sol`, the solution at any time.
    `events` are functions of time and state with SciPy's attributes `terminal` and `direction`.
    Inside vmap and recorded functions, `status` and `success` are tensors, there are neither events
    nor dense output, and without `t_eval` only the states at the ends of t_span are returned.

    y0, args and variables that `fun` reads get gradients, by the adjoint method or, for 'Radau' and
    'BDF', by implicit differentiation of each step. Times and states of events have first
    derivatives.

    >>> found = solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], t_eval=[0.0, 1.0], rtol=1e-8)
    >>> found.y.round(4).tolist()
    [[1.0, 0.3679]]
    """
    method = method_name(method)
    parameters = () if args is None else args
    if not (dense_output or events) and are_many(y0, parameters, t_span, t_eval):
        many = MANY[method], Tolerance(float(rtol), float(atol)), float(max_step), first_step
        return _solve_many(fun, t_span, y0, t_eval, parameters, Steps(*many))
    start, end = (float(t) for t in t_span)
    requested = None if t_eval is None else [float(t) for t in t_eval]
    check_t_eval(start, end, requested)
    y0, _, params = _parameters(y0, [start], parameters)

    def field(t: float, y: Any, *params: Any) -> Any:
        return _like_state(fun(t, y, *params), y)

    def bound(t: float, y: Any) -> Any:
        return field(t, y, *params)

    functions = as_events(events)
    control = Control(float(rtol), float(atol), METHODS[method], float(max_step), first_step)
    ending = end_of_integration(bound, y0, (start, end), functions, params, control)
    end = end if ending is None else ending[0]
    wanted = _until(requested, start, end)
    every = wanted is None or dense_output or bool(functions)
    times = operand(_all_times(start, end, every, wanted))
    found, states = flow(field, y0, times, params, control, every_step=every)
    solution = OdeSolution(bound, control.method, found, states)
    event_times, event_states = locate_events(functions, solution, bound, params, ending)
    if wanted is not None:
        states = take(states, place_next_to(states, _indices(found, wanted)))
        found = wanted
    return OdeResult(
        as_constant(np.array(found)),
        moveaxis(states, 0, -1),
        control.calls,
        solution if dense_output else None,
        event_times if functions else None,
        event_states if functions else None,
        control.matrices,
        status=0 if ending is None else 1,
        message=OdeResult.message if ending is None else "A terminal event ended the integration.",
    )


def method_name(method: Any) -> str:
    """Return the name of a method; SciPy's classes are named like their methods.

    >>> method_name("RK45")
    'RK45'
    """
    name = method.__name__ if isinstance(method, type) else method
    check_choice("The method of solve_ivp", name, METHODS)
    return str(name)


def _solve_many(
    fun: Callable[..., Any], t_span: Any, y0: Any, t_eval: Any, args: Any, steps: Steps
) -> OdeResult:
    """Solve the problems of the running vmaps; without t_eval, return the ends of the span."""
    ends = [operand(t) for t in t_span]
    wanted = stack(list(operands(*ends))) if t_eval is None else operand(t_eval)
    y0, wanted, params = _parameters(y0, wanted, args)
    y0, wanted = operands(y0, wanted)
    start = reshape_p(operands(ends[0], wanted)[0], shape=(1,))
    times = wanted if t_eval is None else concat([start, wanted], 0)

    def field(t: Any, y: Any, *params: Any) -> Any:
        return _like_state(fun(t, y, *params), y)

    found = flow_many(field, y0, times, params, steps)
    states = found.states if t_eval is None else found.states[1:]
    return OdeResult(
        wanted,
        moveaxis(states, 0, -1),
        found.calls,
        status=found.status,
        message="The status of each trajectory is 0 at the end of t_span, -1 if it failed.",
        success=found.status == 0,
    )


def check_t_eval(start: float, end: float, requested: list[float] | None) -> None:
    """Raise unless the requested times lie in the span, in the direction of integration."""
    low, high = min(start, end), max(start, end)
    order = requested or []
    order = order if start <= end else order[::-1]
    if any(a >= b for a, b in pairwise(order)) or any(not low <= t <= high for t in order):
        raise ArgumentError(
            "t_eval must lie within t_span and be sorted in the direction of integration."
        )


def _until(requested: list[float] | None, start: float, end: float) -> list[float] | None:
    """Return the requested times up to the end, which an event may have moved."""
    if requested is None:
        return None
    sign = 1.0 if end >= start else -1.0
    return [t for t in requested if sign * t <= sign * end]


def _all_times(
    start: float, end: float, goes_to_end: bool, requested: list[float] | None
) -> list[float]:
    """Return the times at which steps must end: the requested ones and the ends of the span."""
    times = [start, *(requested or []), *([end] if goes_to_end else [])]
    return list(dict.fromkeys(times))


def _indices(found: list[float], wanted: list[float]) -> np.ndarray:
    numbers = {t: i for i, t in enumerate(found)}
    return np.array([numbers[t] for t in wanted], np.int64)
