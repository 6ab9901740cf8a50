"""The cells of a run as rows: one workload at one size on one device, by all contenders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tapegrad.errors import ArgumentError
from tapegrad_bench.results import HANDWRITTEN, Cell, Run, Status

OURS = "tapegrad"


@dataclass(frozen=True)
class Row:
    """All contenders at one workload, size and dtype on one device."""

    workload: str
    size: str
    dtype: str
    device: str
    cells: dict[str, Cell]
    """By contender."""

    @property
    def label(self) -> str:
        """Return what the row is called where the device is known."""
        return f"{self.workload}, {self.extent}" if self.extent else self.workload

    @property
    def extent(self) -> str:
        """Return size and dtype, where the row has them.

        Footprints have neither; files from before their size was "beyond NumPy" measured the same.
        """
        if not self.is_computed:
            return "beyond NumPy" if self.size in ("", "-") else self.size
        return ", ".join(part for part in (self.size, self.dtype) if part != "-")

    @property
    def is_computed(self) -> bool:
        """Whether the row is a step, and not what a library takes to import or to install."""
        return self.dtype != "-"

    @property
    def rank(self) -> tuple[int, int]:
        """Return what rows of one workload are sorted by."""
        size = next(iter(self.cells.values())).size
        return (size.elements, size.depth or 0)

    def time(self, contender: str) -> float | None:
        """Return the median of `contender`, or None."""
        cell = self.cells.get(contender)
        return cell.median if cell else None

    def best(self, library: str) -> str | None:
        """Return the fastest mode of a library, or "hand-written"; None if none has a time."""
        modes = [name for name in self.cells if name.split(" ")[0] == library]
        times = {name: time for name in modes if (time := self.time(name)) is not None}
        return min(times, key=lambda name: times[name], default=None)

    def answer(self, peer: str) -> str:
        """Return which of our modes `peer` is held against: the matching one if it took part."""
        ours = [name for name in self.cells if is_ours(name) and name != peer]
        return match(peer) if match(peer) in ours or not ours else ours[0]

    def ratio(self, peer: str, ours: str) -> float | None:
        """Return how many times the time of `ours` the `peer` takes: above 1, we are faster."""
        peer_time, our_time = self.time(peer), self.time(ours)
        return peer_time / our_time if peer_time and our_time else None


def rows_of(run: Run, device: str | None = None) -> list[Row]:
    """Return the rows of `run`: workloads in the order of its cells, small sizes first."""
    rows: dict[tuple[str, str, str, str], Row] = {}
    for cell in run.cells:
        key = (cell.workload, cell.size.label, cell.dtype, cell.device)
        if device in (None, cell.device):
            cells = rows.setdefault(key, Row(*key, {})).cells
            if cell.contender in cells:
                raise ArgumentError(
                    f"The results have two cells of {cell.contender} at {rows[key].label} on "
                    f"{cell.device}. Only one of them can be from the contest with the peers; "
                    "remove the other."
                )
            cells[cell.contender] = cell
    order = list(dict.fromkeys(row.workload for row in rows.values()))
    return sorted(rows.values(), key=lambda row: (order.index(row.workload), row.dtype, row.rank))


def standard_rows(run: Run, device: str) -> list[Row]:
    """Return one row per workload and dtype: that of the size which comes first in the file."""
    first: dict[tuple[str, str], str] = {}
    for cell in run.cells:
        if cell.device == device:
            first.setdefault((cell.workload, cell.dtype), cell.size.label)
    rows = rows_of(run, device)
    return [row for row in rows if first[row.workload, row.dtype] == row.size]


def devices_of(run: Run) -> list[str]:
    """Return the devices on which anything was measured."""
    return list(dict.fromkeys(cell.device for cell in run.cells if cell.status is Status.OK))


def contenders_of(cells: Iterable[Cell]) -> list[str]:
    """Return the contenders that have a time: ours first, then hand-written, then the peers."""
    named = {cell.contender: cell for cell in cells if cell.status is not Status.ABSENT}
    return sorted(named, key=lambda name: _rank(named[name]))


def _rank(cell: Cell) -> int:
    return 0 if cell.library == OURS else 1 if cell.mode == HANDWRITTEN else 2


def is_ours(contender: str) -> bool:
    """Say whether `contender` is one of tapegrad's modes."""
    return contender.split(" ")[0] == OURS


def is_keras(contender: str) -> bool:
    """Say whether `contender` is a model of tapegrad.keras.

    >>> is_keras("tapegrad keras-function"), is_keras("tapegrad function")
    (True, False)
    """
    return contender.startswith(f"{OURS} keras")


def match(peer: str) -> str:
    """Return which of our modes answers `peer`: eager for eager, `function` for compiled.

    >>> match("torch compile"), match("torch nn"), match("tapegrad keras")
    ('tapegrad function', 'tapegrad eager', 'tapegrad eager')
    """
    is_eager = peer == "hand-written" or peer.endswith((" eager", " nn", " keras"))
    return f"{OURS} eager" if is_eager else f"{OURS} function"
