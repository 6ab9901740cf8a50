"""Events of a running program for a report: kernels, programs, sweeps, waits and losses.

Events are recorded only while `LOGS` has a log. Code on a hot path reads `LOGS` only where eager
code is hooked anyway (see `eager_hooks`), or once per call of a function, a sweep or an element.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

from tapegrad.core.call_site import call_site

LOGS: list[EventLog] = []
"""The log of the report that is being made, if there is one."""

MOST_EVENTS = 500_000
"""How many events a log keeps one by one; later ones only count in the totals."""

MOST_POINTS = 200_000
"""How many values of a series are kept."""


class Event(NamedTuple):
    """Something that took time; `start` and `end` are nanoseconds of `perf_counter_ns`."""

    kind: str
    """One of "kernel", "program", "record", "compile", "call", "sweep" and "data"."""
    name: str
    site: str
    thread: int
    start: int
    end: int


class EventLog:
    """The events of one report, and what else it is made from."""

    def __init__(self) -> None:
        self.start = perf_counter_ns()
        self.events: list[Event] = []
        self.later: dict[tuple[str, str, str], tuple[int, int]] = {}
        """Number and nanoseconds of the events that are not kept, by kind, name and site."""
        self.series: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        """Times and values, such as losses, by name and site."""
        self.lost: dict[tuple[str, str, str], int] = {}
        """How often a gradient was None, by the source, the site and the reason."""
        self.sweeps: dict[str, int] = {}
        """How many sweeps each line has made."""
        self.tapes: dict[str, dict[str, tuple[int, int]]] = {}
        """The arrays and bytes that a tape held for a sweep, by the line that made them."""
        self.functions: dict[int, Any] = {}
        """What is known of the functions that were called; see `program.reported`."""
        self.on_arrays: list[Callable[[Any, Any, str], None]] = []
        """Called with the operands, the result and the site of each operation."""

    def add(self, kind: str, name: str, site: str, start: int, end: int) -> None:
        """Note something that has just ended."""
        if len(self.events) < MOST_EVENTS:
            self.events.append(Event(kind, name, site, threading.get_ident(), start, end))
            return
        count, total = self.later.get((kind, name, site), (0, 0))
        self.later[kind, name, site] = (count + 1, total + end - start)

    def add_value(self, name: str, site: str, value: Any) -> None:
        """Note a value of a series; it is copied from its device when the report is written."""
        points = self.series.setdefault((name, site), [])
        if len(points) < MOST_POINTS:
            points.append((perf_counter_ns(), value))

    def add_lost(self, source: str, site: str, reason: str) -> None:
        """Note that a gradient was None."""
        self.lost[source, site, reason] = self.lost.get((source, site, reason), 0) + 1


def timed(kind: str, name: str, call: Callable[[], Any]) -> Any:
    """Return the result of a call whose time is noted.

    >>> timed("data", "next", lambda: 3)
    3
    """
    if not LOGS:
        return call()
    log, start = LOGS[-1], perf_counter_ns()
    try:
        return call()
    finally:
        log.add(kind, name, call_site(), start, perf_counter_ns())
