"""Times by line: what operations took by themselves, and the Python code before them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapegrad.core.event_log import Event, EventLog

BACKGROUND = ("compile",)
"""Kinds of events that may happen while the program runs on."""


@dataclass
class LineTime:
    """What a line of the program took, in nanoseconds."""

    kind: str
    name: str
    site: str
    calls: int = 0
    own: int = 0
    """The time of the operations, without those inside of them."""
    before: int = 0
    """The time since the end of the operation before: Python code, and tapegrad's own."""


def times_by_line(log: EventLog) -> list[LineTime]:
    """Return the times of all events, the largest first."""
    found: dict[tuple[str, str, str], LineTime] = {}
    for event, own, before in own_times(log.events, log.start):
        line = _line(found, event.kind, event.name, event.site)
        line.calls += 1
        line.own += own
        line.before += before
    for (kind, name, site), (count, total) in log.later.items():
        line = _line(found, kind, name, site)
        line.calls += count
        line.own += total
    return sorted(found.values(), key=lambda line: -(line.own + line.before))


def _line(found: dict[tuple[str, str, str], LineTime], kind: str, name: str, site: str) -> LineTime:
    return found.setdefault((kind, name, site), LineTime(kind, name, site))


def own_times(events: Sequence[Event], start: int) -> Iterable[tuple[Event, int, int]]:
    """Yield each event with the time that it took by itself, and the time before it.

    Events of one thread are disjoint or nested. The time before an event counts only at the top
    level, where no other event is under way.

    >>> inner, outer = Event("kernel", "k", "", 1, 2, 4), Event("sweep", "s", "", 1, 1, 6)
    >>> [(e.name, own, before) for e, own, before in own_times([inner, outer], 0)]
    [('s', 3, 1), ('k', 2, 0)]
    """
    threads: dict[int, list[Event]] = {}
    for event in events:
        threads.setdefault(event.thread, []).append(event)
    first = events[0].thread if events else 0
    for thread, found in threads.items():
        found.sort(key=lambda event: (event.start, -event.end))
        inside = _inside(found)
        last = start
        for event, within in zip(found, inside):
            is_top = event.start >= last
            before = event.start - last if is_top and thread == first else 0
            if event.kind in BACKGROUND:
                before = 0
            last = max(last, event.end)
            yield event, event.end - event.start - within, before


def _inside(events: Sequence[Event]) -> list[int]:
    """Return the time of the events directly inside each event."""
    inside = [0] * len(events)
    around: list[int] = []
    for place, event in enumerate(events):
        while around and events[around[-1]].end <= event.start:
            around.pop()
        if around:
            inside[around[-1]] += event.end - event.start
        around.append(place)
    return inside


def total_by_kind(lines: Iterable[LineTime]) -> dict[str, int]:
    """Return the nanoseconds of all events of each kind."""
    totals: dict[str, int] = {}
    for line in lines:
        totals[line.kind] = totals.get(line.kind, 0) + line.own
    return totals
