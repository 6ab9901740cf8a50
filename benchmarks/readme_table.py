"""Write the tables of benchmarks/README.md from benchmarks/results/*.json.

python benchmarks/readme_table.py            # write them
python benchmarks/readme_table.py --check    # say whether they are up to date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tapegrad_bench.provenance import source_digest
from tapegrad_bench.report_markdown import insert, markdown_table, run_page_command
from tapegrad_bench.results import Run, load
from tapegrad_bench.tables import machine_table, short_tables

FOLDER = Path(__file__).resolve().parent
BEGIN = "<!-- results: begin (made by readme_table.py, never by hand) -->"
END = "<!-- results: end -->"


def section(runs: dict[str, Run]) -> str:
    """Return what stands between the markers: one part per results file, by its name."""
    if not runs:
        return "No results are recorded yet.\n"
    parts = []
    for name, run in runs.items():
        tables = [machine_table(run), *short_tables(run)]
        facts = f"Measured at revision {run.commit}, {run.started[:10]}, with {run.inputs}."
        heading = f"### {name}\n\n{facts}\n\n"
        parts.append(heading + "\n".join(markdown_table(table) for table in tables))
    return "\n".join(parts)


def outdated(runs: dict[str, Run]) -> list[str]:
    """Return a sentence for each results file that is about other sources than the present ones."""
    digest = source_digest()
    return [
        f"{name}.json was measured at revision {run.commit}; the sources have changed since."
        for name, run in runs.items()
        if run.digest != digest
    ]


def main(argv: Sequence[str], folder: Path = FOLDER) -> int:
    """Write or check the page; return 1 if it was to be checked and is out of date."""

    def make(page: str) -> str:
        runs = {file.stem: load(file) for file in sorted((folder / "results").glob("*.json"))}
        wanted = insert(page, BEGIN, END, section(runs))
        print("".join(f"{sentence}\n" for sentence in outdated(runs)), end="")
        return wanted

    return run_page_command(argv, "python benchmarks/readme_table.py", folder / "README.md", make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
