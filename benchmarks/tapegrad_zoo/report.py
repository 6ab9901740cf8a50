"""What the rows of the zoo say: ratios to each peer, geometric means, the worst rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

Row = Mapping[str, Any]

OURS = "tapegrad:function"
WORST = 10


def times_of(row: Row) -> dict[str, float]:
    """Return the median seconds per step by contender, for those that ran."""
    return {
        f"{cell['library']}:{cell['mode']}": median(cell["times"])
        for cell in row["cells"]
        if cell["times"]
    }


def ratio(row: Row, peer: str) -> float | None:
    """Return how many times faster than a peer we are; None if one of the two did not run.

    >>> cells = [{"library": "tapegrad", "mode": "function", "times": [2.0]},
    ...          {"library": "jax", "mode": "jit", "times": [1.0]}]
    >>> ratio({"cells": cells}, "jax:jit")
    0.5
    """
    times = times_of(row)
    return times[peer] / times[OURS] if peer in times and OURS in times else None


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean, None of nothing.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def table(rows: Mapping[str, Row], peers: tuple[str, ...]) -> str:
    """Return all rows as a Markdown table, the slowest in relation to the first peer first."""
    order = sorted(rows, key=lambda name: ratio(rows[name], peers[0]) or math.inf)
    head = ["program", "function ms", "eager ms", *peers, "first call s", "note"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cells(name, rows[name], peers))} |" for name in order]
    return "\n".join(lines)


def _cells(name: str, row: Row, peers: tuple[str, ...]) -> list[str]:
    times = times_of(row)
    firsts = [
        cell.get("first_seconds")
        for cell in row["cells"]
        if f"{cell['library']}:{cell['mode']}" == OURS
    ]
    ratios = [ratio(row, peer) for peer in peers]
    reasons = [
        f"{cell['library']} {cell['mode']}: {cell['reason']}"
        for cell in row["cells"]
        if cell.get("reason")
    ]
    note = row["complaint"] or "; ".join(reasons)
    return [
        name,
        _milliseconds(times.get(OURS)),
        _milliseconds(times.get("tapegrad:eager")),
        *["-" if value is None else f"{value:.2f}x" for value in ratios],
        f"{firsts[0]:.1f}" if firsts and firsts[0] is not None else "-",
        note.replace("|", "/"),
    ]


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g}"


def summary(rows: Mapping[str, Row], peers: tuple[str, ...]) -> str:
    """Return geometric means, workbench and examination apart, and the worst rows."""
    lines = []
    for title, flag in (("workbench", True), ("examination", False)):
        part = [row for row in rows.values() if row["workbench"] is flag and not row["spelling"]]
        for peer in peers:
            found = [value for row in part if (value := ratio(row, peer)) is not None]
            mean = geometric_mean(found)
            text = "-" if mean is None else f"{mean:.2f}x"
            lines.append(f"{title}, {peer}: {text} ({len(found)} of {len(part)} programs)")
    for peer in peers[:1]:
        known = [(value, name) for name in rows if (value := ratio(rows[name], peer)) is not None]
        worst = ", ".join(f"{name} {value:.2f}x" for value, name in sorted(known)[:WORST])
        lines.append(f"worst against {peer}: {worst}")
    return "\n".join(lines)
