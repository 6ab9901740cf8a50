"""The section of docs/ecosystem.md about the evaluations of GradBench.

The records are the files in `benchmarks/results/gradbench`, one per machine, which
`python -m tapegrad_gradbench` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from tapegrad_gradbench.record import DERIVATIVES, totals  # found by the line above

OURS, NAMES = "tapegrad", {"jax": "JAX", "pytorch": "PyTorch"}
Table = Callable[[list[str], list[list[Any]]], str]

HEAD = """## GradBench

[GradBench](https://gradbench.dev) compares tools for automatic differentiation in 12 evaluations,
whose outputs it checks. `benchmarks/tapegrad_gradbench` has an entry for each, written with NumPy's
names. With a checkout of the suite in PATH, all tools run in turn, without containers:

```bash
python -m tapegrad_gradbench --suite PATH --tools tapegrad jax pytorch --record FILE
```"""

READING = """Times are sums over the workloads of the best time of each, of valid
outputs alone. A ratio is the time of the other tool over that of tapegrad, for the workloads that
both finished: above 1 tapegrad is faster. "All" also counts the function without derivatives. The
columns "mean" have ratios of mean times for "all", which contain first calls; the suite ranks tools
by these."""


def gradbench_section(root: Path, table: Table) -> str:
    """Return the section, from the records of all machines."""
    files = sorted((root / "benchmarks" / "results" / "gradbench").glob("*.json"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return "\n\n".join([HEAD, *[machine_section(record, table) for record in records]])


def machine_section(record: Mapping[str, Any], table: Table) -> str:
    """Return what one record says."""
    machine, found = record["machine"], record["evaluations"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    peers = [name for name in NAMES if name in record["versions"]]
    titles = ["evaluation", "workloads", "derivative, ms", "all, ms"]
    titles += [f"{NAMES[peer]}, {kind}" for peer in peers for kind in ("derivative", "all", "mean")]
    rows = [evaluation_row(name, entry, peers) for name, entry in found.items()]
    valid = sum(bool(row[1]) for row in rows)
    parts = [
        f"### {machine['cpu']}, {machine['cores']} cores",
        f"{record['date']}, {versions}, the suite {record['suite']}.\n{record['remark']}",
        f"{valid} of 12 evaluations accept the outputs of tapegrad. {READING}",
        table(titles, rows),
        remarks(found, peers),
    ]
    slower = slower_rows(found, peers)
    if slower:
        titles = ["evaluation", "workload", "function", "tool", "ratio"]
        parts += ["Where another tool is faster:", table(titles, slower)]
    return "\n\n".join(part for part in parts if part)


def evaluation_row(name: str, entry: Mapping[str, Any], peers: list[str]) -> list[Any]:
    """Return the times of tapegrad, and the ratios of the others."""
    times, derivative = entry["times"], DERIVATIVES.get(name)
    count, own, _ = totals(times, OURS, OURS, derivative)
    row: list[Any] = [f"`{name}`", count, _number(own), _number(totals(times, OURS, OURS, None)[1])]
    for peer in peers:
        for function, kind in ((derivative, "best_ms"), (None, "best_ms"), (None, "mean_ms")):
            shared, ours, theirs = totals(times, OURS, peer, function, kind)
            row.append(_number(theirs / ours) if shared else "")
    return row


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.2g}"


def remarks(found: Mapping[str, Any], peers: list[str]) -> str:
    """Return what was left out, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, entry in found.items():
        for tool in (OURS, *peers):
            default = "" if any_times(entry, tool) else "It was not run."
            problem = entry["problems"].get(tool, default).replace("|", "/")
            if problem:
                reasons.setdefault((NAMES.get(tool, tool), problem), []).append(f"`{name}`")
    lines = [f"- {tool}: {', '.join(names)}. {why}" for (tool, why), names in reasons.items()]
    chosen = [
        f"`{name} {' '.join(entry['arguments'])}`"
        for name, entry in found.items()
        if entry.get("arguments")
    ]
    if chosen:
        lines.append(f"- Workloads that were chosen: {', '.join(chosen)}.")
    return "What did not run, or not to its end:\n\n" + "\n".join(lines) if lines else ""


def any_times(entry: Mapping[str, Any], tool: str) -> bool:
    """Whether a tool has a time in an evaluation."""
    return any(
        tool in cells for functions in entry["times"].values() for cells in functions.values()
    )


def slower_rows(found: Mapping[str, Any], peers: list[str]) -> list[list[Any]]:
    """Return the workloads for which a peer took less than 0.95 of the time of tapegrad."""
    return [
        [f"`{name}`", workload, function, NAMES[peer], f"{ratio:.2f}"]
        for name, entry in found.items()
        for workload, functions in entry["times"].items()
        for function, cells in functions.items()
        for peer in peers
        if OURS in cells and peer in cells
        if (ratio := cells[peer]["best_ms"] / cells[OURS]["best_ms"]) < 0.95
    ]
