"""Write the comparison table of the project's README from recorded results.

python benchmarks/comparison_table.py            write it
python benchmarks/comparison_table.py --check    say whether it is up to date

The facts and the choice of rows are in comparison.json, the figures in results/nvidia-h200.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tapegrad.errors import TapegradError

FOLDER = Path(__file__).resolve().parent
README = FOLDER.parent / "README.md"
BEGIN = "<!-- comparison: begin (made by benchmarks/comparison_table.py, never by hand) -->"
END = "<!-- comparison: end -->"


def table(choice: dict[str, Any], results: dict[str, Any]) -> str:
    """Return the table in Markdown, with a line that says where the figures come from."""
    columns = choice["columns"]
    rows = [[" ", *columns], [":--", *[":-:"] * len(columns)], *choice["facts"]]
    for figure in choice["figures"]:
        medians = _medians(results, figure["workload"])
        cells = [figure["cells"].get(column) for column in columns]
        rows.append([figure["label"], *[medians.get(cell, "-") for cell in cells]])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    machine = results["machine"]["gpu"]
    sets = results.get("sets")
    inputs = "one fixed batch" if sets is None else f"{sets} batches in turn"
    origin = (
        f"Times: {machine}, revision {results['commit'][:7]}, {results['started'][:10]}, {inputs}; "
        "[benchmarks](benchmarks/README.md) has all rows and the versions."
    )
    return "\n".join([*lines, "", origin]) + "\n"


def _medians(results: dict[str, Any], workload: str) -> dict[str | None, str]:
    """The median of each contender in milliseconds, at the row's own size, which comes first."""
    found: dict[str | None, str] = {}
    for cell in results["cells"]:
        if cell["workload"] == workload and cell.get("median") is not None:
            name = f"{cell['library']} {cell['mode']}"
            found.setdefault(name, f"{1000 * cell['median']:.3g}")
    return found


def insert(page: str, text: str) -> str:
    """Return `page` with `text` between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise TapegradError(f"README.md must have the lines {BEGIN!r} and {END!r}, in this order.")
    return f"{before}{BEGIN}\n\n{text}\n{END}{after}"


def main(argv: Sequence[str], readme: Path = README) -> int:
    """Write or check the page; return 1 if the check finds it out of date."""
    if list(argv) not in ([], ["--check"]):
        print("Usage: python benchmarks/comparison_table.py [--check]", file=sys.stderr)
        return 2
    choice = json.loads((FOLDER / "comparison.json").read_text(encoding="utf-8"))
    results = json.loads((FOLDER / "results" / "nvidia-h200.json").read_text(encoding="utf-8"))
    page = readme.read_text(encoding="utf-8")
    fresh = insert(page, table(choice, results))
    if argv:
        if fresh != page:
            print("The comparison in README.md is out of date: run comparison_table.py.")
        return int(fresh != page)
    readme.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
