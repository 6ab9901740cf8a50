"""Time the three examples of the project's README, and write the table below them.

python benchmarks/readme_examples.py --measure    run and time the examples, keep the record
python benchmarks/readme_examples.py              write the table from the record
python benchmarks/readme_examples.py --check      say whether the table is up to date

The blocks of the README run as they stand. Times are CPU time on one core, the least of many calls.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad_bench.machine import describe_machine
from tapegrad_bench.provenance import current_commit
from tapegrad_bench.report_markdown import insert, run_page_command

FOLDER = Path(__file__).resolve().parent
README = FOLDER.parent / "README.md"
RECORD = FOLDER / "results" / "readme" / "examples.json"
BEGIN = "<!-- examples: begin (made by benchmarks/readme_examples.py, never by hand) -->"
END = "<!-- examples: end -->"
SECONDS = 2.0
"""How long each call is repeated."""


def names_of(page: str) -> dict[str, Any]:
    """Run the examples of a page and return their names."""
    section = page.partition("\n## Three examples\n")[2].partition("\n## ")[0]
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    return names


def least_time(call: Callable[[], Any]) -> float:
    """Return the least CPU time of a call in seconds."""
    ends, best = time.monotonic() + SECONDS, float("inf")
    while time.monotonic() < ends:
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def slope_by_hand(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return what the first example computes, with the derivative written by hand."""
    return np.asarray((2.0 / len(x)) * (x.T @ (x @ w - y)))


def differences(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """Return the gradient of a function by central differences."""
    found, step = np.empty_like(point), 1e-6
    for place in range(point.size):
        ahead, behind = point.copy(), point.copy()
        ahead[place] += step
        behind[place] -= step
        found[place] = (function(ahead) - function(behind)) / (2 * step)
    return found


def measure(page: str) -> list[dict[str, Any]]:
    """Time the examples, and beside each what a reader would compare it with."""
    names = names_of(page)
    x, y, w = names["x"], names["y"], names["w"].numpy()
    energy, point, step = names["energy"], names["point"], names["step"]
    fast_step, slope = names["fast_step"], names["slope"]
    tf.wait_for_programs()
    np.testing.assert_allclose(slope().numpy(), slope_by_hand(x, y, w), atol=1e-4)
    np.testing.assert_allclose(tf.grad(energy)(point), differences(energy, point), atol=1e-4)
    rows = [
        ("a tape", "`slope()`", lambda: slope(),
         "the derivative by hand in NumPy", lambda: slope_by_hand(x, y, w)),
        ("NumPy code", "`tf.grad(energy)(point)`", lambda: tf.grad(energy)(point),
         "differences, 2000 calls of `energy`", lambda: differences(energy, point)),
        ("a compiled step", "`fast_step(x[:32], y[:32])`", lambda: fast_step(x[:32], y[:32]),
         "`step(x[:32], y[:32])`, not compiled", lambda: step(x[:32], y[:32])),
    ]  # fmt: skip
    return [
        {"example": example, "call": call, "seconds": least_time(ours),
         "compared": compared, "compared_seconds": least_time(theirs)}
        for example, call, ours, compared, theirs in rows
    ]  # fmt: skip


def table(record: dict[str, Any]) -> str:
    """Return the record as a table in Markdown."""
    lines = ["| | call | time | compared with | time |", "|:--|:--|--:|:--|--:|"]
    for row in record["rows"]:
        ours, theirs = (_milliseconds(row[key]) for key in ("seconds", "compared_seconds"))
        cells = [row["example"], row["call"], ours, row["compared"], theirs]
        lines.append(f"| {' | '.join(cells)} |")
    origin = f"CPU time on one core: {record['machine']}, revision {record['commit'][:7]}, "
    origin += f"{record['date']}, Python {record['python']}, NumPy {record['numpy']}."
    return "\n".join([*lines, "", origin]) + "\n"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def main(argv: Sequence[str], readme: Path = README, record: Path = RECORD) -> int:
    """Measure, write or check; return 1 if the check finds the table out of date."""
    if list(argv) == ["--measure"]:
        rows = measure(readme.read_text(encoding="utf-8"))
        plain = {"commit": current_commit(FOLDER.parent), "machine": describe_machine(1, None).cpu,
                 "date": datetime.now(UTC).date().isoformat(), "numpy": np.__version__,
                 "python": platform.python_version(), "rows": rows}  # fmt: skip
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        argv = []

    def make(page: str) -> str:
        return insert(page, BEGIN, END, table(json.loads(record.read_text(encoding="utf-8"))))

    return run_page_command(argv, "python benchmarks/readme_examples.py", readme, make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
