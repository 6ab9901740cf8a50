"""Events of solve_ivp: times at which a function of time and state is zero.

They are looked for between steps, by the signs at their ends. An event's time and state have first
derivatives: the state at a fixed time, and how the time moves so that the function stays zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.scipy.integrate.control import Control, Field
from tapegrad.scipy.integrate.solution import OdeSolution
from tapegrad.scipy.integrate.steps import Step, integrate
from tapegrad.scipy.optimize.implicit import attached, is_recorded, look, quietly
from tapegrad.scipy.optimize.scalar_roots import root_between
from tapegrad.scipy.vocabulary import operand, operands, reshape_p, stack, stop_gradient

Event = Callable[..., Any]
_LOOKING = "an event of solve_ivp"


def as_events(events: Any) -> list[Event]:
    """Return the events as a list of functions.

    >>> as_events(None), len(as_events(lambda t, y: y[0]))
    ([], 1)
    """
    found = [] if events is None else [events] if callable(events) else list(events)
    if not all(callable(event) for event in found):
        raise ArgumentTypeError("Events are functions of the time and the state.")
    return found


def _value(event: Event, t: Any, y: Any, params: Sequence[Any]) -> Any:
    return reshape_p(operand(event(t, y, *params)), shape=())


def _crosses(event: Event, before: float, after: float) -> bool:
    """Whether the sign changes in the direction that the event waits for."""
    direction = getattr(event, "direction", 0) or 0
    rises, falls = before <= 0 <= after, before >= 0 >= after
    if before == after:
        return False
    return (rises and direction >= 0) or (falls and direction <= 0)


def _limit(event: Event) -> float:
    """After how many times an event ends the integration."""
    return int(getattr(event, "terminal", None) or 0) or math.inf


def end_of_integration(
    field: Field,
    y0: Any,
    span: tuple[float, float],
    events: Sequence[Event],
    params: Sequence[Any],
    control: Control,
) -> tuple[float, Event] | None:
    """Return the time of the event that ends the integration, and it; nothing is recorded."""
    ending = [event for event in events if _limit(event) < math.inf]
    if not ending:
        return None
    with quietly():
        start = stop_gradient(y0)
        last = look(_LOOKING, *(_value(event, span[0], start, params) for event in ending))
        counts = [0] * len(ending)
        ends: list[tuple[float, Event]] = []

        def stop(step: Step) -> bool:
            now = look(_LOOKING, *(_value(e, step.end, step.after, params) for e in ending))
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
    """When an event happens within a step."""

    def at(t: float) -> float:
        if t == step.start:
            state = step.before
        else:
            state = control.method.advance(field, step.start, step.before, t - step.start)
        return look(_LOOKING, _value(event, t, state, params))[0]

    return root_between(at, step.start, step.end)


def happened(
    events: Sequence[Event],
    solution: OdeSolution,
    field: Field,
    params: Sequence[Any],
    end: tuple[float, Event] | None,
) -> tuple[list[Any], list[Any]]:
    """Return the times and the states of all events, for each event."""
    times, states = solution.times_and_states()
    with quietly():
        values = [
            look(_LOOKING, *(_value(event, t, states[i], params) for i, t in enumerate(times)))
            for event in events
        ]
        found = [
            _times_of(event, own, solution, params, end is not None and end[1] is event)
            for event, own in zip(events, values, strict=True)
        ]
    moments, points = [], []
    for event, own in zip(events, found, strict=True):
        pairs = [_moved(event, t, solution(t), field, params) for t in own]
        like = states[0]
        moments.append(stack([t for t, _ in pairs]) if pairs else operands([], like)[0])
        empty = reshape_p(like[:0], shape=(0,)) if like.ndim else like
        points.append(stack([y for _, y in pairs]) if pairs else empty)
    return moments, points


def _times_of(
    event: Event, values: list[float], solution: OdeSolution, params: Sequence[Any], ends: bool
) -> list[float]:
    """When an event happens; if it `ends` the integration, then at the last time as well."""

    def at(t: float) -> float:
        return look(_LOOKING, _value(event, t, solution(t), params))[0]

    times, _ = solution.times_and_states()
    found = []
    for i in range(len(times) - (2 if ends else 1)):
        is_new = i == 0 or values[i] != 0
        if is_new and _crosses(event, values[i], values[i + 1]):
            found.append(root_between(at, times[i], times[i + 1]))
    return [*found, times[-1]] if ends else found


def _moved(event: Event, t: float, y: Any, field: Field, params: Sequence[Any]) -> tuple[Any, Any]:
    """An event's time and state, with their derivatives if somebody records."""
    time = operands(t, y)[0]
    if not is_recorded():
        return time, y
    slope = field(t, y)

    def still(moment: Any) -> Any:
        there = y + slope * (moment[0] - t)
        return reshape_p(_value(event, moment[0], there, params), shape=(1,))

    moment = attached(still, reshape_p(time, shape=(1,)))[0]
    return moment, y + slope * (moment - t)
