"""Everything that the page of a report shows, as plain values that JSON can hold."""

from __future__ import annotations

import linecache
import platform
from collections.abc import Sequence
from dataclasses import asdict
from time import perf_counter_ns
from typing import Any

import numpy as np

from tapegrad.core.event_log import Event, EventLog
from tapegrad.core.memory_holders import holders
from tapegrad.core.primitive.checked_kernel import CheckedKernel
from tapegrad.core.values.device import current_device
from tapegrad.debug.reports.memory_curve import MemoryCurve, bands
from tapegrad.debug.reports.times import LineTime, times_by_line, total_by_kind
from tapegrad.debug.reports.trace import number_of
from tapegrad.program.explanation import RecordingNote
from tapegrad.program.reported import ReportedFunction, steps_by_line

MOST_DRAWN = 40_000
"""How many events the timeline draws: the longest ones."""

MOST_LINES = 200
"""How many lines a table has."""

MOST_POINTS = 1000
"""How many points a curve has."""


def summary_of(log: EventLog, curve: MemoryCurve, title: str, error: str) -> dict[str, Any]:
    """Return what the page shows."""
    end = perf_counter_ns()
    lines = times_by_line(log)
    device = current_device()
    functions = list(log.functions.values())
    return {
        "title": title,
        "error": error,
        "device": device,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "seconds": (end - log.start) / 1e9,
        "by_kind": {kind: time / 1e9 for kind, time in total_by_kind(lines).items()},
        "counts": _counts(lines),
        "overhead": _overhead(log),
        "lines": [_line(line) for line in lines[:MOST_LINES]],
        "in_programs": _in_programs(lines, functions),
        "timeline": _timeline(log),
        "memory": _memory(log, curve, functions, end),
        "held": [
            {"where": h.where, "what": h.what, "bytes": h.bytes, "count": h.count}
            for h in holders(device)[:MOST_LINES]
        ],
        "tapes": _tapes(log),
        "functions": [_function(found) for found in functions],
        "lost": [
            {"source": source, "site": site, "reason": reason, "count": count}
            for (source, site, reason), count in log.lost.items()
        ],
        "data": [_line(line) for line in lines if line.kind == "data"],
        "series": _series(log),
    }


def source_line(site: str) -> str:
    """Return the text of a line of a file, "" if the file cannot be read.

    >>> source_line("/no/such/file.py:3")
    ''
    """
    file, _, number = site.rpartition(":")
    return linecache.getline(file, int(number)).strip() if file and number.isdigit() else ""


def _counts(lines: Sequence[LineTime]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.kind] = counts.get(line.kind, 0) + line.calls
    return counts


def _line(line: LineTime) -> dict[str, Any]:
    return {**asdict(line), "text": source_line(line.site)}


def _overhead(log: EventLog) -> dict[str, float]:
    """Measure what it costs to note a kernel, and estimate the cost of all notes of this run."""
    count, noted = 500, len(log.events) + sum(number for number, _ in log.later.values())
    bare = CheckedKernel("calibration", int)
    kept = log.events, log.on_arrays
    log.events = []
    try:
        start = perf_counter_ns()
        for _ in range(count):
            bare()
        each = (perf_counter_ns() - start) / count
    finally:
        log.events, log.on_arrays = kept
    return {"microseconds": each / 1e3, "seconds": each * noted / 1e9}


def _in_programs(
    lines: Sequence[LineTime], functions: Sequence[ReportedFunction]
) -> list[dict[str, Any]]:
    """Return the measured share of each line in each compiled function, and its seconds."""
    spent = {line.name: 0 for line in lines}
    for line in lines:
        if line.kind == "program":
            spent[line.name] += line.own
    found: list[dict[str, Any]] = []
    for function in functions:
        for site, share in steps_by_line(function.programs).items():
            seconds = share * spent.get(function.name, 0) / 1e9
            found.append(
                {
                    "function": function.name,
                    "site": site,
                    "text": source_line(site),
                    "share": share,
                    "seconds": seconds,
                }
            )
    return sorted(found, key=lambda row: -row["seconds"])[:MOST_LINES]


def _timeline(log: EventLog) -> dict[str, Any]:
    """Return the events that are drawn; their names and lines are places in two lists."""
    drawn: Sequence[Event] = log.events
    if len(drawn) > MOST_DRAWN:
        drawn = sorted(drawn, key=lambda event: event.start - event.end)[:MOST_DRAWN]
        drawn = sorted(drawn, key=lambda event: event.start)
    names: dict[str, int] = {}
    sites: dict[str, int] = {}
    kinds: dict[str, int] = {}
    rows = [
        [
            kinds.setdefault(event.kind, len(kinds)),
            names.setdefault(event.name, len(names)),
            sites.setdefault(event.site, len(sites)),
            round((event.start - log.start) / 1e3, 1),
            round((event.end - event.start) / 1e3, 1),
        ]
        for event in drawn
    ]
    later = sum(number for number, _ in log.later.values())
    return {
        "kinds": list(kinds),
        "names": list(names),
        "sites": list(sites),
        "texts": [source_line(site) for site in sites],
        "events": rows,
        "all": len(log.events) + later,
    }


def _memory(
    log: EventLog, curve: MemoryCurve, functions: Sequence[ReportedFunction], end: int
) -> dict[str, Any]:
    times, found = bands(curve.changes, log.start, end)
    rows = [{"name": site, "bytes": sizes} for site, sizes in found.items()]
    for function in functions:
        kept = [
            sum(p.kept for p in function.programs if p.since <= time or time == times[-1])
            for time in times
        ]
        if any(kept):
            rows.append({"name": f"blocks of the programs of {function.name!r}", "bytes": kept})
    return {
        "milliseconds": [round((time - log.start) / 1e6, 3) for time in times],
        "bands": rows,
        "peak": curve.peak(),
        "is_cut": curve.is_cut,
        "process": [[round((t - log.start) / 1e6, 3), size] for t, size in _thinned(curve.process)],
    }


def _tapes(log: EventLog) -> list[dict[str, Any]]:
    found = []
    for sweep, held in log.tapes.items():
        rows = [
            {"site": site, "text": source_line(site), "arrays": arrays, "bytes": size}
            for site, (arrays, size) in sorted(held.items(), key=lambda item: -item[1][1])
        ]
        total = sum(size for _, size in held.values())
        found.append({"site": sweep, "text": source_line(sweep), "bytes": total, "rows": rows})
    return found


def _function(known: ReportedFunction) -> dict[str, Any]:
    explained = known.history.explanation(known.name)
    return {
        "name": known.name,
        "recordings": [_recording(note) for note in explained.recordings],
        "made": [_recording(note) for note in explained.made],
        "eager": explained.eager_calls,
        "programs": [
            {
                "kept": program.kept,
                "peak": program.peak,
                "steps": [asdict(step) for step in program.steps],
            }
            for program in known.programs
        ],
    }


def _recording(note: RecordingNote) -> dict[str, Any]:
    return {
        "number": note.number,
        "reason": note.reason,
        "seconds": note.seconds,
        "state": note.state,
        "build_seconds": note.build_seconds,
        "calls": note.calls,
        "steps": note.steps,
    }


def _series(log: EventLog) -> list[dict[str, Any]]:
    found = []
    for (name, site), points in log.series.items():
        numbers = [(k, number_of(value)) for k, (_, value) in enumerate(points, 1)]
        finite = [(k, number) for k, number in numbers if number is not None]
        if finite:
            shown = _thinned(finite)
            found.append(
                {
                    "name": name,
                    "site": site,
                    "points": shown,
                    "count": len(points),
                    "not_finite": len(numbers) - len(finite),
                }
            )
    return found


def _thinned(points: Sequence[Any]) -> list[Any]:
    """Return at most `MOST_POINTS` of the points, the last one among them."""
    step = -(-len(points) // MOST_POINTS) or 1
    kept = list(points[::step])
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]
