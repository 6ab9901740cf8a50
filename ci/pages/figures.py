"""docs/performance.md, written from records.

python ci/pages/figures.py            write the page
python ci/pages/figures.py --check    say whether it is up to date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from tapegrad_bench.report_markdown import markdown_table  # noqa: E402
from tapegrad_bench.results import Run, load  # noqa: E402
from tapegrad_bench.rows import devices_of, standard_rows  # noqa: E402
from tapegrad_bench.tables import best_table, machine_table, time_table  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"

PERFORMANCE = """# Performance

`python ci/pages/figures.py` writes this page from `benchmarks/results`; the figures are not edited
by hand. A time is the median of one whole step. All contenders of a table ran on the same machine
in the same run, and their results were checked against each other first.
[Benchmarks](../benchmarks/README.md) says how, has all tables, and names what was absent or failed.
[Benchmarking](benchmarking.md) shows how to measure a program.
"""


def performance(folder: Path = RESULTS) -> str:
    """Return the page on performance: the main tables of each recorded run."""
    parts = [_run_section(load(file)) for file in sorted(folder.glob("*.json"))]
    return "\n".join([PERFORMANCE, *parts])


def _run_section(run: Run) -> str:
    tables = [machine_table(run)]
    for device in devices_of(run):
        rows = standard_rows(run, device)
        tables += [time_table(rows, device), best_table(rows, device)]
    shown = "\n".join(markdown_table(table) for table in tables if table.rows)
    heading = f"## {run.machine.gpu or run.machine.cpu}\n"
    facts = f"Measured at revision {run.commit}, {run.started[:10]}, with {run.inputs}.\n"
    return "\n".join([heading, facts, re.sub(r"^#### ", "### ", shown, flags=re.MULTILINE)])


PAGES = {"performance.md": performance}


def main(argv: Sequence[str], folder: Path = ROOT / "docs") -> int:
    """Write or check the pages; return 1 if the check finds one out of date."""
    stale = 0
    for name, make in PAGES.items():
        file = folder / name
        fresh = make()
        if list(argv) != ["--check"]:
            file.write_text(fresh, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != fresh:
            print(f"docs/{name} is out of date. Run: python ci/pages/figures.py")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
