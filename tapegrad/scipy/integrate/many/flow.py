"""The states of many trajectories with gradients.

Explicit methods use the adjoint equation, solved backwards from one requested time to the one
before. Implicit methods record their steps. Gradients flow to initial states, parameters and
variables, and for implicit methods to everything that the right-hand side reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.recorder import active_stack
from tapegrad.core.values.variable import Variable
from tapegrad.ops.control.loops import loop
from tapegrad.scipy.integrate.adjoint import augmented, is_differentiable, packed, unpacked
from tapegrad.scipy.integrate.many.methods import Field
from tapegrad.scipy.integrate.many.steps import Steps, Trajectories, integrate_many
from tapegrad.scipy.optimize.implicit import without_recording
from tapegrad.scipy.problems import Problems
from tapegrad.scipy.vocabulary import (
    concat,
    moveaxis,
    reshape_p,
    stack,
    stop_gradient,
    sum_over,
    zeros_like,
)

Function = Callable[..., Any]


@dataclass(frozen=True)
class ManyStates:
    """The states of one trajectory at its times, its status and the number of calls."""

    states: Any
    status: Any
    calls: Any


def flow_many(
    function: Function, y0: Any, times: Any, params: Sequence[Any], steps: Steps
) -> ManyStates:
    """Solve y' = function(t, y, *params) for all trajectories of the running vmaps."""
    facts: list[Any] = []

    def integrated(y0: Any, times: Any, params: Sequence[Any]) -> Any:
        problems = Problems(y0, times, *params)
        found = _integrated(problems, function, y0, times, params, steps)
        facts[:] = [problems.one(found.status), problems.one(found.calls)]
        rows = moveaxis(found.states, 0, 1)
        shape = tuple(y0.shape)
        return reshape_p(problems.one(rows), shape=(int(times.shape[0]), *shape))

    if steps.method.is_implicit:
        return ManyStates(integrated(y0, stop_gradient(times), params), *facts)

    def solve(y0: Any, times: Any, *params: Any) -> Any:
        constants = [stop_gradient(p) if is_differentiable(p) else p for p in params]
        with without_recording():
            states = integrated(stop_gradient(y0), stop_gradient(times), constants)

        def pull(g: Any, variables: Sequence[Variable] = ()) -> Any:
            along = states
            if active_stack().recorders:  # higher derivatives need the dependence of the states
                along = flow_many(function, y0, times, params, _fresh(steps)).states
            by_y0, by_times, by_params, by_variables = _backwards(
                function, along, times, params, list(variables), g, steps
            )
            grads = [by_y0, by_times, *by_params]
            return (grads, by_variables) if variables else grads

        return states, pull

    states = custom_gradient(solve)(y0, times, *params)
    return ManyStates(states, *facts)


def _fresh(steps: Steps) -> Steps:
    return replace(steps, first_step=None)


def _integrated(
    problems: Problems, function: Function, y0: Any, times: Any, params: Sequence[Any], steps: Steps
) -> Trajectories:
    shape = tuple(y0.shape)

    def one(t: Any, y: Any) -> Any:
        return reshape_p(function(t, reshape_p(y, shape=shape), *params), shape=(-1,))

    start = problems.rows(reshape_p(y0, shape=(-1,)))
    return integrate_many(Field(problems, one), start, problems.rows(times), steps)


def _backwards(
    function: Function,
    states: Any,
    times: Any,
    params: Sequence[Any],
    variables: list[Variable],
    g: Any,
    steps: Steps,
) -> tuple[Any, Any, list[Any], list[Any]]:
    """Return the gradients of the initial state, the times, the parameters and the variables."""
    differentiable = [p for p in params if is_differentiable(p)]
    count = int(times.shape[0])
    parts = [states[0], g[0], *differentiable, *[one.read_value() for one in variables]]
    totals = [zeros_like(part) for part in parts[2:]]
    back = augmented(function, parts, variables)

    def slope_along(k: Any, adjoint: Any) -> Any:
        return sum_over(adjoint * function(times[k], states[k], *params))

    def interval(carried: list[Any], entry: list[Any]) -> tuple[list[Any], list[Any]]:
        end, start, state, cotangent = entry
        adjoint, *rest = unpacked(carried[0], parts[1:])
        by_time = sum_over(cotangent * function(end, state, *params))
        given = packed([state, adjoint + cotangent, *rest])
        found = flow_many(back, given, stack([end, start]), params, _fresh(steps)).states
        _, *left = unpacked(found[1], parts)
        return [packed(left)], [by_time]

    carried = packed([zeros_like(g[0]), *totals])
    by_times: list[Any] = []
    if count > 1:
        entries = [times[1:], times[:-1], states[1:], g[1:]]
        (carried,), (between,) = loop(interval, [carried], entries, count - 1, backwards=True)
        by_times = [between]
    adjoint, *found = unpacked(carried, parts[1:])
    first = -slope_along(0, adjoint) if count > 1 else 0.0 * sum_over(adjoint)
    by_time = concat([reshape_p(first, shape=(1,)), *by_times], 0)
    grads = iter(found)
    by_params = [next(grads) if is_differentiable(p) else None for p in params]
    return adjoint + g[0], by_time, by_params, list(grads)
