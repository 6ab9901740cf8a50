"""The record of judged mutants, which further runs add to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation.reasons import EQUIVALENT


@dataclass(frozen=True)
class Row:
    """A mutant and what the tests said about it."""

    name: str
    package: str
    line: int
    seed: int
    verdict: str
    by: str
    tests: int
    seconds: float

    @property
    def standing(self) -> str:
        """Return "caught", "survived", "left", or "equivalent": it changes no behaviour."""
        if self.verdict in ("caught", "time"):
            return "caught"
        if self.verdict == "left":  # forks did not catch it, and no process has judged it yet
            return "left"
        return "equivalent" if self.name in EQUIVALENT else "survived"

    @property
    def is_survivor(self) -> bool:
        """Whether tests are missing."""
        return self.standing == "survived"


def read(path: Path) -> dict[str, Row]:
    """Return the rows of a record by the names of the mutants."""
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    return {row["name"]: Row(**row) for row in rows}


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows, one on each line."""
    lines = [json.dumps(asdict(row), sort_keys=True) for row in sorted(rows, key=lambda r: r.name)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Count the rows by their standing, and those that were caught by time or run by no test."""
    known = list(rows)
    found = Counter(row.standing for row in known)
    kinds = Counter(row.verdict for row in known)
    return {
        "mutants": len(known),
        **{name: found[name] for name in ("caught", "equivalent", "survived", "left")},
        "caught by time": kinds["time"],
        "run by no test": kinds["not run"],
    }


def notes(rows: Iterable[Row]) -> list[str]:
    """Return the score, a table by package, and the survivors."""
    known = sorted(rows, key=lambda row: row.name)
    total = counts(known)
    judged = total["mutants"] - total["equivalent"]
    score = f"{100 * total['caught'] / max(judged, 1):.1f} %"
    least = "At least " if total["left"] else ""
    head = f"{least}{score} of the {judged} mutants that change behaviour are caught."
    names = ("mutants", "caught", "equivalent", "survived", "left")
    lines = [f"| package | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for package in sorted({row.package for row in known}):
        part = counts(row for row in known if row.package == package)
        cells = [str(part[name]) for name in names]
        lines.append(f"| {package} | {' | '.join(cells)} |")
    survivors = [row for row in known if row.is_survivor]
    named = [
        f"- `{' '.join(row.name.split())}` (line {row.line}, {row.verdict})" for row in survivors
    ]
    found = [head, "\n".join(lines)]
    return [*found, "Survivors:", "\n".join(named)] if named else found
