"""Two runs side by side: what moved, by how much, and whether that is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import hypot
from pathlib import Path
from statistics import median
from typing import TextIO

from tapegrad_bench.quantities import format_bytes, format_digits, format_value
from tapegrad_bench.report_terminal import write_tables
from tapegrad_bench.results import Cell, Run, Status, load
from tapegrad_bench.rows import OURS
from tapegrad_bench.tables import Entry, Table

LEAST_NOISE = 0.02
"""Two runs of the same code differ by about this much even where each is steady in itself."""


class Verdict(StrEnum):
    """What became of a cell."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "no change"
    BROKEN = "broken"
    """It had a time and has none now."""
    MENDED = "mended"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True)
class Change:
    """One measure of one cell in two runs."""

    cell: Cell
    """The newer one, or the older one if it was removed."""
    measure: str
    before: str
    after: str
    moved: float | None
    """Relative change: 0.1 is ten percent more than before."""
    noise: float
    """How large a change is expected with nothing changed."""
    verdict: Verdict


def compare(before: Run, after: Run) -> list[Change]:
    """Return every measure of every cell that either run has."""
    old = {cell.key: cell for cell in before.cells}
    new = {cell.key: cell for cell in after.cells}
    changes: list[Change] = []
    for key in dict.fromkeys([*old, *new]):
        changes += _compare_cells(old.get(key), new.get(key))
    return changes


def _compare_cells(old: Cell | None, new: Cell | None) -> list[Change]:
    if old is None or new is None or None in (old.median, new.median):
        return _compare_status(old, new)
    return [_compare_times(old, new), *_compare_counts(old, new)]


def _compare_status(old: Cell | None, new: Cell | None) -> list[Change]:
    cell = new or old
    assert cell is not None
    if old is None:
        verdict = Verdict.ADDED
    elif new is None:
        verdict = Verdict.REMOVED
    elif old.status is Status.OK:
        verdict = Verdict.BROKEN
    elif new.status is Status.OK:
        verdict = Verdict.MENDED
    else:
        verdict = Verdict.SAME
    return [Change(cell, "time", _outcome(old), _outcome(new), None, 0.0, verdict)]


def _outcome(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    if cell.median is None:
        return f"{cell.status.value}: {cell.reason}"
    return format_value(cell.median, cell.unit)


def _compare_times(old: Cell, new: Cell) -> Change:
    assert old.median is not None
    assert new.median is not None
    noise = max(LEAST_NOISE, hypot(_relative_spread(old), _relative_spread(new)))
    moved = new.median / old.median - 1 if old.median else 0.0
    return Change(new, "time", _outcome(old), _outcome(new), moved, noise, _verdict(moved, noise))


def _relative_spread(cell: Cell) -> float:
    return cell.spread / cell.median if cell.spread and cell.median else 0.0


def _compare_counts(old: Cell, new: Cell) -> list[Change]:
    """Compare what does not depend on the clock; only a difference is worth a line."""
    changes = []
    for name, measure in (
        ("peak_device_bytes", "device memory"),
        ("launches", "launches"),
        ("transfers", "transfers"),
    ):
        first, second = getattr(old, name), getattr(new, name)
        if first is None or second is None or first == second:
            continue
        moved = second / first - 1 if first else float("inf")
        write = format_bytes if "bytes" in name else format_digits
        # Pools round sizes up, so that a few bytes may appear without any reason of ours.
        noise = LEAST_NOISE if "bytes" in name else 0.0
        verdict = _verdict(moved, noise)
        changes.append(Change(new, measure, write(first), write(second), moved, noise, verdict))
    return changes


def _verdict(moved: float, noise: float) -> Verdict:
    # A ratio is as far from 1 downwards as its inverse is upwards: -50 % undoes +100 %.
    if moved > noise:
        return Verdict.WORSE
    if moved < 1 / (1 + noise) - 1:
        return Verdict.BETTER
    return Verdict.SAME


def find_drift(changes: Sequence[Change]) -> float | None:
    """Return how much the libraries other than ours moved in the middle: the machine's part.

    Their code is the same in both runs as long as their versions are.
    """
    moved = [
        change.moved
        for change in changes
        if change.cell.library != OURS and change.measure == "time" and change.moved is not None
    ]
    return median(moved) if moved else None


def comparison_table(changes: Sequence[Change]) -> Table:
    """Return the changes beyond noise, largest first."""
    shown = [change for change in changes if change.verdict is not Verdict.SAME]
    shown.sort(key=lambda change: -abs(change.moved or 0.0))
    rows = tuple(_change_row(change) for change in shown)
    columns = ("cell", "measure", "verdict", "before", "after", "change", "noise")
    note = "Changes within noise are counted below, not listed."
    return Table("What moved", note, columns, rows, names=3)


def _change_row(change: Change) -> tuple[Entry, ...]:
    tones = {
        Verdict.BETTER: "good",
        Verdict.MENDED: "good",
        Verdict.WORSE: "bad",
        Verdict.BROKEN: "bad",
    }
    tone = tones.get(change.verdict, "")
    moved = "-" if change.moved is None else f"{100 * change.moved:+.1f} %"
    noise = "-" if change.moved is None else f"{100 * change.noise:.1f} %"
    return (
        Entry(change.cell.name),
        Entry(change.measure),
        Entry(change.verdict.value, tone),
        Entry(change.before),
        Entry(change.after),
        Entry(moved, tone),
        Entry(noise),
    )


def remarks(before: Run, after: Run, changes: Sequence[Change]) -> list[str]:
    """Return what a reader has to know before believing the table."""
    lines = []
    if before.machine != after.machine:
        lines.append(
            "The two runs are from different machines or settings: only ratios within one run "
            "mean something."
        )
    names = sorted({*before.versions, *after.versions})
    for name in names:
        old, new = before.versions.get(name, "absent"), after.versions.get(name, "absent")
        if old != new:
            lines.append(f"{name} differs: {old} before, {new} after.")
    drift = find_drift(changes)
    if drift is not None and abs(drift) > 2 * LEAST_NOISE:
        lines.append(
            f"The other libraries moved by {100 * drift:+.1f} % in the middle: that much is "
            "likely the machine's doing."
        )
    return lines


def compare_files(before: Path, after: Path, stream: TextIO) -> int:
    """Write the comparison of two results files; return 1 if anything of ours got worse, else 0."""
    old, new = load(before), load(after)
    changes = compare(old, new)
    table = comparison_table(changes)
    if table.rows:
        write_tables([table], stream)
    counts = {verdict: sum(c.verdict is verdict for c in changes) for verdict in Verdict}
    counted = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    for line in (*remarks(old, new, changes), f"{counted or 'There is nothing to compare'}."):
        stream.write(line + "\n")
    return int(any(is_regression(change) for change in changes))


def is_regression(change: Change) -> bool:
    """Say whether `change` is a loss of ours; that a peer became slower is none."""
    return change.cell.library == OURS and change.verdict in (Verdict.WORSE, Verdict.BROKEN)
