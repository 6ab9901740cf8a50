"""Times of evaluations with several tools, and their file.

The best time of a run is kept beside its mean: the suite ranks tools by the mean, which contains
the first call, and the best time does not depend on other processes of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapegrad_gradbench.session import Run

DERIVATIVES = {
    **dict.fromkeys(("gmm", "ba", "ht", "lstm"), "jacobian"),
    **dict.fromkeys(("lse", "ode", "llsq", "det"), "gradient"),
    "kmeans": "dir",
    "hello": "double",
}
"""The function of each evaluation that computes a derivative; in the others all do."""

Record = dict[str, Any]


def empty(**facts: Any) -> Record:
    """Return a record without evaluations.

    >>> empty(suite="abc")
    {'suite': 'abc', 'evaluations': {}}
    """
    return {**facts, "evaluations": {}}


def add(record: Record, evaluation: str, tool: str, run: Run) -> None:
    """Merge the times of one run: the smallest best time and the smallest mean count.

    >>> record = empty()
    >>> for times in ([4_000_000, 2_000_000], [3_000_000]):
    ...     add(record, "lse", "jax", Run({("n=2", "primal"): times}, {("n=2", "primal"): True}))
    >>> record["evaluations"]["lse"]["times"]["n=2"]["primal"]["jax"]
    {'best_ms': 2.0, 'mean_ms': 3.0, 'runs': 3}
    """
    entry = record["evaluations"].setdefault(evaluation, {"times": {}, "problems": {}})
    for (workload, function), times in run.times.items():
        if not times or not run.is_valid.get((workload, function)):
            continue
        found = {
            "best_ms": _milliseconds(min(times)),
            "mean_ms": _milliseconds(sum(times) / len(times)),
            "runs": len(times),
        }
        cells = entry["times"].setdefault(workload, {}).setdefault(function, {})
        cells[tool] = merged(cells.get(tool), found)
    entry["problems"].pop(tool, None)
    if run.problem:
        entry["problems"][tool] = run.problem[:200]


def _milliseconds(nanoseconds: float) -> float:
    return float(f"{nanoseconds / 1e6:.4g}")


def merged(kept: Mapping[str, Any] | None, other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cell of two runs."""
    if kept is None:
        return dict(other)
    best = {name: min(kept[name], other[name]) for name in ("best_ms", "mean_ms")}
    return {**best, "runs": kept["runs"] + other["runs"]}


def totals(
    times: Mapping[str, Any], ours: str, theirs: str, derivative: str | None, kind: str = "best_ms"
) -> tuple[int, float, float]:
    """Return how many workloads two tools share, and both sums of their times.

    `derivative` is the function to count, or None for all functions.

    >>> times = {"n=1": {"primal": {"a": {"best_ms": 1.0}, "b": {"best_ms": 3.0}}}}
    >>> totals(times, "a", "b", None)
    (1, 1.0, 3.0)
    """
    pairs = [
        (cells[ours][kind], cells[theirs][kind])
        for functions in times.values()
        for function, cells in functions.items()
        if derivative in (None, function) and ours in cells and theirs in cells
    ]
    return len(pairs), sum(a for a, _ in pairs), sum(b for _, b in pairs)


def save(record: Record, path: Path) -> None:
    """Write a record with one line per workload; a crash leaves the old file as it was."""
    head = json.dumps({k: v for k, v in record.items() if k != "evaluations"}, indent=1)
    parts = []
    for name, entry in record["evaluations"].items():
        rest = {k: v for k, v in entry.items() if k != "times"}
        lines = ",\n".join(
            f"   {json.dumps(workload)}: {json.dumps(cells)}"
            for workload, cells in entry["times"].items()
        )
        parts.append(f'  {json.dumps(name)}: {json.dumps(rest)[:-1]}, "times": {{\n{lines}\n  }}}}')
    text = f'{head[:-2]},\n "evaluations": {{\n' + ",\n".join(parts) + "\n }\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def load(path: Path) -> Record:
    """Read a record."""
    found: Record = json.loads(path.read_text(encoding="utf-8"))
    return found
