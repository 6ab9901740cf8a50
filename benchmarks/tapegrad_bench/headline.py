"""The few figures at the head of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from tapegrad_bench.quantities import format_ratio
from tapegrad_bench.results import Run, Status
from tapegrad_bench.rows import OURS, Row, is_keras, is_ours, match, standard_rows


@dataclass(frozen=True)
class Fact:
    """A figure with its name and what it means."""

    name: str
    value: str
    note: str


def headline(run: Run, device: str) -> list[Fact]:
    """Return how we stand on `device`, over one size of each workload."""
    rows = [row for row in standard_rows(run, device) if row.is_computed]
    facts = []
    for mode in ("function", "eager", "keras-function", "keras"):
        kind = "compiled" if mode.endswith("function") else "eager"
        found = [_against_best(row, f"{OURS} {mode}") for row in rows]
        facts += _fact(f"{mode} on {device}", f"the fastest {kind} peer", found)
    found = [row.ratio("hand-written", f"{OURS} eager") for row in rows]
    facts += _fact(f"eager on {device}", "a step written by hand", found)
    for mode, plain in (("keras", "eager"), ("keras-function", "function")):
        found = [row.ratio(f"{OURS} {plain}", f"{OURS} {mode}") for row in rows]
        facts += _fact(f"{mode} on {device}", "the same step without layers", found)
    return facts


def _fact(name: str, other: str, found: Sequence[float | None]) -> list[Fact]:
    ratios = [ratio for ratio in found if ratio is not None]
    if not ratios:
        return []
    mean = geometric_mean(ratios)
    value = f"{format_ratio(mean)} faster" if mean >= 1 else f"{format_ratio(1 / mean)} slower"
    ahead = sum(ratio >= 1 for ratio in ratios)
    middle = f"median ratio {format_ratio(median(ratios))}"
    note = f"than {other}, geometric mean; {middle}; ahead in {ahead} of {len(ratios)} workloads"
    return [Fact(name, value, note)]


def _against_best(row: Row, ours: str) -> float | None:
    """Return the fastest answered peer's time over ours; models answer whom plain steps answer."""
    peers = [name for name in row.cells if not is_ours(name) and name != "hand-written"]
    plain = match(ours) if is_keras(ours) else ours
    ratios = [row.ratio(peer, ours) for peer in peers if match(peer) == plain]
    return min((ratio for ratio in ratios if ratio is not None), default=None)


def count_cells(run: Run) -> Fact:
    """Return how the cells ended."""
    counts = Counter(cell.status for cell in run.cells)
    others = [f"{counts[status]} {status.value}" for status in Status if counts[status]]
    return Fact("cells", str(len(run.cells)), ", ".join(others))
