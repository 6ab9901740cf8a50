"""The trace of a run in the JSON format that Perfetto and chrome://tracing open."""

from __future__ import annotations

from typing import Any

from tapegrad.core.event_log import Event, EventLog
from tapegrad.debug.reports.memory_curve import MemoryCurve


def trace_of(log: EventLog, curve: MemoryCurve) -> dict[str, Any]:
    """Return the events, the memory and the losses of a run as a trace; times are microseconds."""
    threads = list(dict.fromkeys(event.thread for event in log.events))
    names = ["main thread" if k == 0 else f"thread {k}" for k in range(len(threads))]
    made: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": k, "args": {"name": name}}
        for k, name in enumerate(names)
    ]
    made += [_span(event, threads.index(event.thread), log.start) for event in log.events]
    total = 0
    for time, _, change in curve.changes:
        total += change
        made.append(_counter("memory of arrays", (time - log.start) / 1e3, total))
    for (name, _), points in log.series.items():
        for time, value in points:
            number = number_of(value)
            if number is not None:
                made.append(_counter(name, (time - log.start) / 1e3, number))
    return {"traceEvents": made, "displayTimeUnit": "ms"}


def _span(event: Event, thread: int, start: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": event.name,
        "cat": event.kind,
        "pid": 1,
        "tid": thread,
        "ts": (event.start - start) / 1e3,
        "dur": (event.end - event.start) / 1e3,
        "args": {"line": event.site},
    }


def _counter(name: str, time: float, value: float) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": 1, "ts": time, "args": {"value": value}}


def number_of(value: Any) -> float | None:
    """Return a value of a series as a finite number, None if it is none.

    >>> number_of(2), number_of(float("nan"))
    (2.0, None)
    """
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError):
        return None
    return number if number - number == 0.0 else None
