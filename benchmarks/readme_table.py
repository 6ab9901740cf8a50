"""Write the tables of benchmarks/README.md from benchmarks/results/*.json.

python benchmarks/readme_table.py            # write them
python benchmarks/readme_table.py --check    # say whether they are up to date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tapegrad.errors import TapegradError
from tapegrad_bench.provenance import source_digest
from tapegrad_bench.results import Run, load
from tapegrad_bench.tables import Entry, Table, machine_table, short_tables

FOLDER = Path(__file__).resolve().parent
BEGIN = "<!-- results: begin (made by readme_table.py, never by hand) -->"
END = "<!-- results: end -->"


def markdown_table(table: Table) -> str:
    """Return `table` in Markdown under a heading."""
    heads = [name or " " for name in table.columns]
    rules = [":--" if place < table.names else "--:" for place in range(len(heads))]
    lines = [_line(heads), _line(rules)]
    lines += [_line([_text(entry) for entry in row]) for row in table.rows]
    note = f"{table.note}\n\n" if table.note else ""
    return f"#### {table.title}\n\n{note}" + "\n".join(lines) + "\n"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _text(entry: Entry) -> str:
    # A line of a Markdown table ends at the first newline, and a cell at the first bar.
    written = " ".join(entry.text.split()).replace("|", "\\|").replace("<", "&lt;")
    return f"**{written}**" if entry.tone == "strong" else written


def section(runs: dict[str, Run]) -> str:
    """Return what stands between the markers: one part per results file, by its name."""
    if not runs:
        return "No results are recorded yet.\n"
    parts = []
    for name, run in runs.items():
        tables = [machine_table(run), *short_tables(run)]
        heading = f"### {name}\n\nMeasured at revision {run.commit}, {run.started[:10]}.\n\n"
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


def insert(page: str, tables: str) -> str:
    """Return `page` with `tables` between the markers instead of what was there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise TapegradError(f"README.md must have the lines {BEGIN!r} and {END!r}, in this order.")
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def main(argv: Sequence[str], folder: Path = FOLDER) -> int:
    """Write or check the page; return 1 if it was to be checked and is out of date."""
    if list(argv) not in ([], ["--check"]):
        print("Usage: python benchmarks/readme_table.py [--check]", file=sys.stderr)
        return 2
    path = folder / "README.md"
    page = path.read_text(encoding="utf-8")
    try:
        runs = {file.stem: load(file) for file in sorted((folder / "results").glob("*.json"))}
        wanted = insert(page, section(runs))
    except TapegradError as error:
        print(f"readme_table: {error}", file=sys.stderr)
        return 2
    print("".join(f"{sentence}\n" for sentence in outdated(runs)), end="")
    if argv and page != wanted:
        print(
            "benchmarks/README.md is out of date. Run: python benchmarks/readme_table.py",
            file=sys.stderr,
        )
        return 1
    if page != wanted:
        path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
