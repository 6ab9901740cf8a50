"""The section of docs/ecosystem.md about many small problems at once.

The records are the files in `benchmarks/results/many-problems`, one per machine, which
`python benchmarks/many_problems.py --record FILE` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Table = Callable[[list[str], list[list[Any]]], str]

HEAD = """## Many small problems at once

`python benchmarks/many_problems.py` solves problems of one kind by one call of
`tapegrad.scipy.optimize.batched` or `integrate.batched`, and a sample by a loop over SciPy, whose
time is scaled to all of them. SciPy gets functions of NumPy arrays, and exact gradients of those
to minimize. The solutions of the sample are compared. First calls record the functions; they find
most of their compiled loops in the cache."""


def many_section(root: Path, table: Table) -> str:
    """Return the section, from the records of all machines."""
    files = sorted((root / "benchmarks" / "results" / "many-problems").glob("*.json"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return "\n\n".join([HEAD, *[machine_section(record, table) for record in records]])


def machine_section(record: Mapping[str, Any], table: Table) -> str:
    """Return what one record says."""
    machine, versions = record["machine"], record["versions"]
    name = machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    clock = {
        "wall": "Times are those of the clock.",
        "processor": "Times are processor times, of one thread on each side.",
    }[record["clock"]]
    words = ", ".join(f"{library} {version}" for library, version in versions.items())
    titles = [
        "problems",
        "count",
        "tapegrad, ms",
        "SciPy, s",
        "ratio",
        "first call, s",
        "difference",
    ]
    rows = [
        [
            f"`{row['name']}`",
            row["count"],
            f"{row['ours'] * 1e3:,.3g}" if row["ours"] < 1 else f"{row['ours'] * 1e3:,.0f}",
            f"{row['scipy']:,.3g}",
            f"{row['scipy'] / row['ours']:,.0f}",
            f"{row['first']:.1f}",
            f"{row['error']:.0e}" + ("" if row["agrees"] else ", disagrees"),
        ]
        for row in record["rows"]
    ]
    return f"### {name}\n\n{record['date']}, {words}. {clock}\n\n{table(titles, rows)}"
