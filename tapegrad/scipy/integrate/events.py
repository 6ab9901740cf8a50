"""Events of solve_ivp: times at which a function of time and state is zero.

A sign change between the ends of a step locates an event. The time and state of an event have first
derivatives, which include the shift of the time that keeps the function zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.scipy.integrate.control import Control, Field
from tapegrad.scipy.integrate.solution import OdeSolution
from tapegrad.scipy.integrate.steps import Step, integrate
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    read_scalars,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.optimize.scalar_roots import root_between
from tapegrad.scipy.vocabulary import operand, operands, reshape_p, stack, stop_gradient

Event = Callable[..., Any]
_READER = "an event of solve_ivp"


def as_events(events: Any) -> list[Event]:
    """Return the events as a list of functions.

    >>> as_events(None), len(as_events(lambda t, y: y[0]))
    ([], 1)
    """
    found = [] if events is None else [events] if callable(events) else list(events)
    if not all(callable(event) for event in found):
        raise ArgumentTypeError(
            "events must be a function of time and state, or a list of such functions."
        )
    return found


def _value(event: Event, t: Any, y: Any, params: Sequence[Any]) -> Any:
    return reshape_p(operand(event(t, y, *params)), shape=())


def _crosses(event: Event, before: float, after: float) -> bool:
    """Whether the sign changes in the direction of the event."""
    direction = getattr(event, "direction", 0) or 0
    rises, falls = before <= 0 <= after, before >= 0 >= after
    if before == after:
        return False
    return (rises and direction >= 0) or (falls and direction <= 0)


def _limit(event: Event) -> float:
    """Return the number of occurrences after which an event ends the integration."""
    return int(getattr(event, "terminal", None) or 0) or math.inf


def end_of_integration(
    field: Field,
    y0: Any,
    span: tuple[float, float],
    events: Sequence[Event],
    params: Sequence[Any],
    control: Control,
) -> tuple[float, Event] | None:
    """Return the time and the event that ends the integration, or None; nothing is recorded."""
    ending = [event for event in events if _limit(event) < math.inf]
    if not ending:
        return None
    with without_recording():
        start = stop_gradient(y0)
        last = read_scalars(_READER, *(_value(event, span[0], start, params) for event in ending))
        counts = [0] * len(ending)
        ends: list[tuple[float, Event]] = []

        def stop(step: Step) -> bool:
            now = read_scalars(_READER, *(_value(e, step.end, step.after, params) for e in ending))
            for place, (event, a, b) in enumerate(zip(ending, last, now, strict=True)):
                if _crosses(event, a, b):
                    counts[place] += 1
                    if counts[place] >= _limit(event):
                        time = _time_within(event, field, step, params, control)
                        ends.append((time, event))
            last[:] = now
            return bool(ends)

        integrate(field, start, span, control, stop=stop)
    sign = 1.0 if span[1] >= span[0] else -1.0
    return min(ends, key=lambda end: sign * end[0]) if ends else None


def _time_within(
    event: Event, field: Field, step: Step, params: Sequence[Any], control: Control
) -> float:
    """Return the time of an event within a step."""

    def at(t: float) -> float:
        if t == step.start:
            state = step.before
        else:
            state = control.method.advance(field, step.start, step.before, t - step.start)
        return read_scalars(_READER, _value(event, t, state, params))[0]

    return root_between(at, step.start, step.end)


def locate_events(
    events: Sequence[Event],
    solution: OdeSolution,
    field: Field,
    params: Sequence[Any],
    end: tuple[float, Event] | None,
) -> tuple[list[Any], list[Any]]:
    """Return the times and the states of all occurrences, for each event."""
    times, states = solution.times_and_states()
    with without_recording():
        values = [
            read_scalars(
                _READER, *(_value(event, t, states[i], params) for i, t in enumerate(times))
            )
            for event in events
        ]
        found = [
            _times_of(event, own, solution, params, end is not None and end[1] is event)
            for event, own in zip(events, values, strict=True)
        ]
    event_times, event_states = [], []
    for event, own in zip(events, found, strict=True):
        pairs = [_with_derivatives(event, t, solution(t), field, params) for t in own]
        like = states[0]
        event_times.append(stack([t for t, _ in pairs]) if pairs else operands([], like)[0])
        empty = reshape_p(like[:0], shape=(0,)) if like.ndim else like
        event_states.append(stack([y for _, y in pairs]) if pairs else empty)
    return event_times, event_states


def _times_of(
    event: Event, values: list[float], solution: OdeSolution, params: Sequence[Any], ends: bool
) -> list[float]:
    """Return the times of an event; one that `ends` the integration also has the last time."""

    def at(t: float) -> float:
        return read_scalars(_READER, _value(event, t, solution(t), params))[0]

    times, _ = solution.times_and_states()
    found = []
    for i in range(len(times) - (2 if ends else 1)):
        is_new = i == 0 or values[i] != 0
        if is_new and _crosses(event, values[i], values[i + 1]):
            found.append(root_between(at, times[i], times[i + 1]))
    return [*found, times[-1]] if ends else found


def _with_derivatives(
    event: Event, t: float, y: Any, field: Field, params: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the time and state of an event, with derivatives if a tape is recording."""
    time = operands(t, y)[0]
    if not is_recording():
        return time, y
    slope = field(t, y)

    def still(moment: Any) -> Any:
        there = y + slope * (moment[0] - t)
        return reshape_p(_value(event, moment[0], there, params), shape=(1,))

    moment = with_implicit_derivatives(still, reshape_p(time, shape=(1,)))[0]
    return moment, y + slope * (moment - t)
