"""Gradients of ODE solutions by the adjoint method.

The state, its cotangent and the gradients of the parameters are integrated backwards in time, so
memory does not grow with the number of steps. Variables that the field reads get gradients as well.
Higher derivatives apply the same method to the backward integration.

Stiff equations cannot be integrated backwards. Implicit methods store their steps instead, and each
step has the derivatives of the equations that it solves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from tapegrad.autodiff.batching import is_batched
from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.core.recorder import active_stack
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.scipy.integrate.control import Control, Implicit
from tapegrad.scipy.integrate.steps import integrate
from tapegrad.scipy.optimize.implicit import is_recording, without_recording
from tapegrad.scipy.vocabulary import (
    concat,
    operand,
    reshape_p,
    stack,
    stop_gradient,
    sum_over,
    zeros_like,
)

Function = Callable[..., Any]


def flow(
    field: Function,
    y0: Any,
    times: Any,
    params: Sequence[Any],
    control: Control,
    every_step: bool = False,
) -> tuple[list[float], Any]:
    """Solve y' = field(t, y, *params); return the times and the stacked states.

    The solution is differentiable in y0, params and, unless `every_step` is set, times.

    >>> from tapegrad.scipy.vocabulary import operands
    >>> from tapegrad.scipy.integrate.explicit import RK45
    >>> y0, times, rate = operands(1.0, [0.0, 1.0], 2.0)
    >>> control = Control(rtol=1e-8, atol=1e-8, method=RK45)
    >>> _, y = flow(lambda t, y, k: k * y, y0, times, [rate], control)
    >>> round(float(y[1]), 5)
    7.38906
    """
    if control.method.is_implicit:
        return _integrate_implicit(field, y0, times, params, control, every_step)
    found: list[float] = []

    def solve(y0: Any, times: Any, *params: Any) -> Any:
        points = [float(t) for t in read_on_host(times, "the times of an integration")]
        constants = [stop_gradient(p) if is_differentiable(p) else p for p in params]
        found[:], states, _ = integrate(
            lambda t, y: field(t, y, *constants), y0, points, control, every_step
        )
        points = list(found)

        def pull(g: Any, variables: Sequence[Variable] = ()) -> Any:
            # Higher derivatives also need the dependence of the gradient on the states.
            along: Any = states
            if active_stack().recorders:
                along = _split(flow(field, y0, points, params, _fresh(control))[1], len(points))
            by_y0, by_times, by_params, by_variables = _integrate_backwards(
                field, along, points, params, list(variables), g, control
            )
            grads = [by_y0, None if every_step else stack(by_times), *by_params]
            return (grads, by_variables) if variables else grads

        return stack(states), pull

    y = custom_gradient(solve)(y0, operand(times), *params)
    return list(found), y


def _fresh(control: Control) -> Control:
    return replace(control, first_step=None, calls=0)


def _integrate_implicit(
    field: Function, y0: Any, times: Any, params: Sequence[Any], control: Control, every_step: bool
) -> tuple[list[float], Any]:
    """Integrate by an implicit method; if a tape is recording, repeat the same steps recorded."""
    points = [float(t) for t in read_on_host(times, "the times of an integration")]

    def bound(t: float, y: Any) -> Any:
        return field(t, y, *params)

    with without_recording():
        found, states, steps = integrate(bound, y0, points, control, every_step)
    if is_recording():
        states = cast(Implicit, control.method).repeat(bound, y0, steps, set(found))
    return found, stack(states)


def _split(states: Any, count: int) -> list[Any]:
    return [states[i] for i in range(count)]


def _integrate_backwards(
    field: Function,
    states: Sequence[Any],
    times: Sequence[float],
    params: Sequence[Any],
    variables: list[Variable],
    g: Any,
    control: Control,
) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """Return the gradients of the initial state, the times, the parameters and the variables."""
    differentiable = [p for p in params if is_differentiable(p)]
    sources = [*differentiable, *variables]
    adjoint = g[len(times) - 1]
    totals = [zeros_like(source) for source in sources]
    by_times: list[Any] = []
    for i in range(len(times) - 1, 0, -1):
        cotangent = g[i]
        by_times.append(sum_over(cotangent * field(times[i], states[i], *params)))
        parts = [states[i], adjoint, *totals]
        back = augmented(field, parts, variables)
        ends = [times[i], times[i - 1]]
        _, vectors = flow(back, packed(parts), ends, params, _fresh(control))
        _, adjoint, *totals = unpacked(vectors[1], parts)
        if i > 1:
            adjoint = adjoint + g[i - 1]
    by_times.append(-sum_over(adjoint * field(times[0], states[0], *params)))
    found = iter(totals)
    by_params = [next(found) if is_differentiable(p) else None for p in params]
    if len(times) == 1:
        return adjoint, [0.0 * sum_over(adjoint)], by_params, list(found)
    return adjoint + g[0], by_times[::-1], by_params, list(found)


def is_differentiable(value: Any) -> bool:
    """Whether a parameter is a tensor that can have a gradient.

    >>> is_differentiable(1.0)
    False
    """
    return (isinstance(value, Tensor) or is_batched(value)) and value.dtype.is_differentiable


def augmented(field: Function, parts: Sequence[Any], variables: list[Variable]) -> Function:
    """Return the augmented field of state, cotangent and gradients, packed into one vector."""

    def back(t: float, vector: Any, *params: Any) -> Any:
        y, adjoint, *_ = unpacked(vector, parts)
        differentiable = [p for p in params if is_differentiable(p)]
        with TransformTape(watch_accessed_variables=False) as tape:
            y = y * 1
            inner = [p * 1 for p in differentiable]
            tape.watch([y, *inner, *variables])
            places = iter(inner)
            slope = field(t, y, *(next(places) if is_differentiable(p) else p for p in params))
        sources = [y, *inner, *variables]
        gradients = tape.gradient(slope, sources, -adjoint, unconnected_gradients="zero")
        return packed([slope, *gradients])

    return back


def packed(parts: Sequence[Any]) -> Any:
    """Return the elements of several values as one vector."""
    return concat([reshape_p(part, shape=(-1,)) for part in parts], 0)


def unpacked(vector: Any, parts: Sequence[Any]) -> list[Any]:
    """Return the values of the shapes of `parts` that a vector consists of."""
    found, start = [], 0
    for part in parts:
        size = math.prod(part.shape)
        piece = vector[start : start + size]
        found.append(reshape_p(piece, shape=tuple(part.shape)))
        start += size
    return found
