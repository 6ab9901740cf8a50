"""What one benchmark run found, and its JSON file.

Only what was measured is stored; medians, rates and percentages follow from it, here and nowhere
else. They are written to the file too, for readers other than us.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad_bench.json_records import from_plain, to_plain
from tapegrad_bench.provenance import UNKNOWN

SCHEMA = 1
"""Raised by one whenever an older reader would misread a newer file."""


HANDWRITTEN = "handwritten"
"""The mode of steps without any autodiff library: NumPy's on a CPU, CuPy's on a GPU."""


class Status(StrEnum):
    """How a cell of the table ended."""

    OK = "ok"
    ABSENT = "absent"
    """The library or the device is not on this machine."""
    WRONG = "wrong"
    """It ran, but its loss or gradients are not the reference's: its times do not count."""
    FAILED = "failed"
    """It raised."""
    SKIPPED = "skipped"
    """It was not asked for, does not exist in this library, or the budget ran out."""


@dataclass(frozen=True)
class Machine:
    """Where a run took place."""

    cpu: str
    cores: int
    threads: int
    """How many threads each library was allowed."""
    os: str
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None


@dataclass(frozen=True)
class Ceiling:
    """The most that this device did in this run: a plain copy, a large matrix product."""

    device: str
    dtype: str
    copy_tb_per_s: float | None = None
    matmul_tflop_per_s: float | None = None


@dataclass(frozen=True)
class Size:
    """How large one step is."""

    label: str
    elements: int
    """Elements of the data that one step reads (the whole batch), without parameters."""
    batch: int | None = None
    depth: int | None = None
    """How many layers, time steps or chained operations."""


@dataclass(frozen=True)
class Cell:
    """One workload at one size and dtype, on one device, by one library in one mode."""

    workload: str
    size: Size
    dtype: str
    device: str
    """"cpu" or "cuda"."""
    library: str
    mode: str
    """For instance "eager", "function", "compile", "jit" or HANDWRITTEN."""
    status: Status
    reason: str = ""
    times: tuple[float, ...] = ()
    """One value per repeat, in `unit`."""
    device_times: tuple[float, ...] = ()
    """Likewise between two events on the device, where the library can record them."""
    unit: str = "s"
    """"s", or "MB" for what is weighed instead of timed."""
    warmup: int = 0
    """How many steps ran before the first repeat that counts."""
    compile_seconds: float | None = None
    peak_host_bytes: int | None = None
    peak_device_bytes: int | None = None
    launches: float | None = None
    """Kernels or graph launches per step."""
    transfers: float | None = None
    """Copies between host and device per step."""
    bytes_needed: int | None = None
    """Bytes that any implementation of this step has to move."""
    flops_needed: int | None = None
    loss_error: float | None = None
    """Largest relative difference of loss and gradients from the reference."""

    def __post_init__(self) -> None:
        if self.status is Status.OK and not self.times:
            raise ArgumentError(f"A cell with status 'ok' must have times. {self.name} has none.")
        if self.status is not Status.OK and not self.reason:
            raise ArgumentError(
                f"A cell with status {self.status.value!r} must give a reason. "
                f"{self.name} has none."
            )
        if any([value < 0 for value in self.times]):
            raise ArgumentError(f"Times must not be negative. {self.name} has {min(self.times)}.")

    @property
    def contender(self) -> str:
        """Return library and mode as one name, the same on every device."""
        return "hand-written" if self.mode == HANDWRITTEN else f"{self.library} {self.mode}"

    @property
    def key(self) -> tuple[str, str, str, str, str, str]:
        """Return what makes this cell the same cell in another run."""
        return (self.workload, self.size.label, self.dtype, self.device, self.library, self.mode)

    @property
    def name(self) -> str:
        """Return the key as one line of text."""
        return " / ".join(self.key)

    @property
    def median(self) -> float | None:
        """Return the middle of the times, or None where none count."""
        return median(self.times) if self.status is Status.OK else None

    @property
    def spread(self) -> float | None:
        """Return the interquartile range of the times: 0 for a single repeat."""
        if self.status is not Status.OK:
            return None
        if len(self.times) == 1:
            return 0.0
        low, _, high = quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def tb_per_s(self) -> float | None:
        """Return needed bytes over median time, in TB/s."""
        return self._rate(self.bytes_needed)

    @property
    def tflop_per_s(self) -> float | None:
        """Return needed operations over median time, in TFLOP/s."""
        return self._rate(self.flops_needed)

    def _rate(self, amount: int | None) -> float | None:
        if amount is None or not self.median or self.unit != "s":
            return None
        return amount / self.median / 1e12


@dataclass(frozen=True)
class Run:
    """Everything that one call of the benchmark found."""

    started: str
    """Date and time in ISO 8601."""
    machine: Machine
    versions: Mapping[str, str]
    """Library name to version, Python included."""
    cells: tuple[Cell, ...]
    """Of each workload, dtype and device the standard size first: charts of one size show it."""
    ceilings: tuple[Ceiling, ...] = ()
    complete: bool = True
    """False when the run was interrupted or its budget ended early."""
    commit: str = UNKNOWN
    """The revision of the sources; "+changes" follows if files differed from it."""
    digest: str = ""
    """A hash over the sources of tapegrad and its backends; "" in files from before it was kept."""
    sets: int | None = None
    """Sets of inputs that each contender took in turn; None in files from before there were more
    than one."""
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        try:
            datetime.fromisoformat(self.started)
        except ValueError as error:
            raise ArgumentError(
                f"started must be a date and time in ISO 8601. Got {self.started!r}."
            ) from error

    @property
    def inputs(self) -> str:
        """Return which inputs the steps had, in words."""
        return "one fixed batch" if self.sets is None else f"{self.sets} batches in turn"

    def ceiling(self, device: str, dtype: str) -> Ceiling | None:
        """Return what was measured for `device` and `dtype`, or None."""
        found = [c for c in self.ceilings if (c.device, c.dtype) == (device, dtype)]
        return found[0] if found else None

    def floor(self, cell: Cell) -> float | None:
        """Return the seconds that `cell` would take at the measured ceiling (the roofline)."""
        ceiling = self.ceiling(cell.device, cell.dtype)
        if ceiling is None or cell.unit != "s":
            return None
        pairs = (
            (cell.bytes_needed, ceiling.copy_tb_per_s),
            (cell.flops_needed, ceiling.matmul_tflop_per_s),
        )
        floors = [needed / (rate * 1e12) for needed, rate in pairs if needed and rate]
        return max(floors, default=None)

    def times_the_floor(self, cell: Cell) -> float | None:
        """Return how many times its floor `cell` takes: 1 is the limit of the device."""
        floor = self.floor(cell)
        return cell.median / floor if floor and cell.median else None

    def percent_of_ceiling(self, cell: Cell) -> float | None:
        """Return how much of the measured ceiling `cell` reached: 100 is the floor itself."""
        floor = self.floor(cell)
        if floor is None or not cell.median:
            return None
        return 100 * floor / cell.median


_DERIVED = ("median", "spread", "tb_per_s", "tflop_per_s")
_IGNORED = frozenset([*_DERIVED, "percent_of_ceiling"])


def to_json(run: Run) -> dict[str, Any]:
    """Return `run` as plain lists and dicts, with the derived values beside the measured ones."""
    plain: dict[str, Any] = to_plain(run)
    for cell, entry in zip(run.cells, plain["cells"]):
        for name in _DERIVED:
            entry[name] = getattr(cell, name)
        entry["percent_of_ceiling"] = run.percent_of_ceiling(cell)
    return {"schema": plain.pop("schema"), **plain}


def from_json(plain: Any, where: str = "The results") -> Run:
    """Return the run that `to_json` wrote; `where` names the file in messages."""
    if not isinstance(plain, dict) or "schema" not in plain:
        raise ArgumentError(
            f"{where} must be a JSON object with a key 'schema', as `tapegrad bench` writes it. "
            f"Got {plain!r:.80}."
        )
    if plain["schema"] != SCHEMA:
        raise ArgumentError(
            f"{where} must have schema {SCHEMA}. Got {plain['schema']!r}. "
            "Measure again with this version, or read it with the version that wrote it."
        )
    run: Run = from_plain(Run, plain, where, _IGNORED)
    return run


def save(run: Run, path: Path) -> None:
    """Write `run` to `path`; a crash on the way leaves the old file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    text = json.dumps(to_json(run), indent=1, allow_nan=False, ensure_ascii=False)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)


def load(path: Path) -> Run:
    """Read the run that `save` wrote."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArgumentError(f"There is no results file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"The results file {path} cannot be read: {error}.") from error
    except json.JSONDecodeError as error:
        raise ArgumentError(f"{path} must be a JSON file. It is not: {error}.") from error
    return from_json(plain, str(path))
