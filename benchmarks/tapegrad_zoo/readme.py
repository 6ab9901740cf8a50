"""Write the tables of the zoo in benchmarks/README.md from benchmarks/results/zoo/*.json.

python -m tapegrad_zoo.readme            # write them
python -m tapegrad_zoo.readme --check    # say whether they are up to date
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tapegrad_bench.report_markdown import insert, markdown_table, run_page_command
from tapegrad_zoo.record import Record, load
from tapegrad_zoo.report import tables_of

FOLDER = Path(__file__).resolve().parents[1]
BEGIN = "<!-- zoo: begin (made by python -m tapegrad_zoo.readme, never by hand) -->"
END = "<!-- zoo: end -->"
DEVICES = ("cpu", "cuda")


def written(records: Mapping[str, Record]) -> str:
    """Return what stands between the markers: one part per record, by its name."""
    parts = []
    for device in DEVICES:
        found = {name: record for name, record in records.items() if record.device == device}
        if not found:
            parts.append(f"No run of the zoo is recorded on {device}.\n")
        for name, record in found.items():
            run = record.run
            facts = f"Measured at revision {run.commit}, {run.started[:10]}."
            if record.batches == "host":
                facts += " Each step got its batch as arrays of NumPy."
            remark = f" {record.remark}" if record.remark else ""
            tables = [markdown_table(table) for table in tables_of(record)]
            parts.append(f"### Zoo: {name}\n\n{facts}{remark}\n\n" + "\n".join(tables))
    return "\n".join(parts)


def main(argv: Sequence[str], folder: Path = FOLDER) -> int:
    """Write or check the page; return 1 if it was to be checked and is out of date."""

    def make(page: str) -> str:
        files = sorted((folder / "results" / "zoo").glob("*.json"))
        return insert(page, BEGIN, END, written({file.stem: load(file) for file in files}))

    return run_page_command(argv, "python -m tapegrad_zoo.readme", folder / "README.md", make)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
