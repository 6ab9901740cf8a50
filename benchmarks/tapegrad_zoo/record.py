"""What runs of the zoo found, and its file: rows of several commands, of one machine and source.

A record is a benchmark run, whose workloads are programs, and the place of each program in the zoo.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad_bench.json_records import from_plain, to_plain
from tapegrad_bench.results import Ceiling, Cell, Run
from tapegrad_zoo.program import Entry

SCHEMA = 1
"""Raised by one whenever an older reader would misread a newer file."""


class Half(StrEnum):
    """The two halves of the zoo."""

    WORKBENCH = "workbench"
    """May be looked at while the library is made faster."""
    EXAMINATION = "examination"
    """Is run only to report."""


@dataclass(frozen=True)
class Place:
    """Where a program stands in the zoo."""

    family: str
    file: str
    """Spellings of one function are in one file."""
    half: Half
    spelling: str = ""
    """"" for a program that is no spelling of anything."""


def place_of(entry: Entry) -> Place:
    """Return the place of a program."""
    half = Half.WORKBENCH if entry.is_on_workbench else Half.EXAMINATION
    return Place(entry.family, entry.module.rpartition(".")[2], half, entry.spelling)


@dataclass(frozen=True)
class Record:
    """Rows that may be compared with each other."""

    run: Run
    device: str
    places: Mapping[str, Place] = field(default_factory=dict)
    """By the name of the program, which is the workload of its cells."""
    remark: str = ""
    """What a reader has to know about the circumstances."""
    batches: str = "device"
    """Where the batches were when a step got them, "device" or "host"."""
    size: int = 0
    """How many programs the zoo had; 0 where that was not recorded."""
    schema: int = SCHEMA

    def cells_of(self, program: str) -> list[Cell]:
        """Return the cells of one program."""
        return [cell for cell in self.run.cells if cell.workload == program]

    def has(self, program: str, contenders: Iterable[str]) -> bool:
        """Say whether a program has a row with all these contenders ("jax jit")."""
        return set(contenders) <= {cell.contender for cell in self.cells_of(program)}

    def with_row(self, program: str, place: Place, cells: Iterable[Cell]) -> Record:
        """Return a record in which a program has these cells alone."""
        others = [cell for cell in self.run.cells if cell.workload != program]
        places = {**self.places, program: place}
        run = replace(self.run, cells=(*others, *cells), complete=len(places) == self.size)
        return replace(self, run=run, places=places)

    @property
    def completeness(self) -> str:
        """Say whether all programs of the zoo have a row."""
        if not self.size:
            return f"{len(self.places)} programs; how many there were was not recorded"
        answer = "yes" if self.run.complete else "no"
        return f"{answer}: {len(self.places)} of {self.size} programs"

    def with_ceiling(self, ceiling: Ceiling) -> Record:
        """Return a record with the best rates seen: a busy machine shows less than it can do."""
        known = self.run.ceiling(ceiling.device, ceiling.dtype)
        others = [c for c in self.run.ceilings if c is not known]
        if known is not None:
            ceiling = replace(
                ceiling,
                copy_tb_per_s=_larger(known.copy_tb_per_s, ceiling.copy_tb_per_s),
                matmul_tflop_per_s=_larger(known.matmul_tflop_per_s, ceiling.matmul_tflop_per_s),
            )
        return replace(self, run=replace(self.run, ceilings=(*others, ceiling)))


def _larger(a: float | None, b: float | None) -> float | None:
    return max((value for value in (a, b) if value is not None), default=None)


def differences(kept: Record, other: Record) -> str:
    """Say why the rows of two records must not be compared, or return ""."""
    ours, theirs = _conditions(kept), _conditions(other)
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return ", ".join(f"{name} {ours.get(name)} and {theirs.get(name)}" for name in names)


def _conditions(record: Record) -> dict[str, Any]:
    """Return what has to be the same in all rows of a record, by name."""
    run = record.run
    facts = {
        "digest of the sources": run.digest[:12],
        "device": record.device,
        "batches on the": record.batches,
    }
    return {**facts, **to_plain(run.machine), **run.versions}


def merged(kept: Record, other: Record, where: str) -> Record:
    """Return a record with the rows of both; those of `other` win."""
    different = differences(kept, other)
    if different:
        raise ArgumentError(
            f"The rows of {where} cannot be merged with the present ones, because these differ: "
            f"{different}. Record into another file."
        )
    for name, place in other.places.items():
        kept = kept.with_row(name, place, other.cells_of(name))
    for ceiling in other.run.ceilings:
        kept = kept.with_ceiling(ceiling)
    return kept


def save(record: Record, path: Path) -> None:
    """Write a record with one line per cell; a crash on the way leaves the old file as it was."""
    plain = to_plain(record)
    cells = [_without_defaults(cell) for cell in plain["run"].pop("cells")]
    head = _dumped({"schema": plain.pop("schema"), **plain})
    lines = ",\n".join(_dumped(cell) for cell in cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(f'{head[:-1]}, "cells": [\n{lines}\n]}}\n', encoding="utf-8")
    partial.replace(path)


def _dumped(plain: Any) -> str:
    return json.dumps(plain, allow_nan=False, ensure_ascii=False)


def _without_defaults(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell without what a reader would fill in."""
    defaults = {f.name: to_plain(f.default) for f in fields(Cell) if f.default is not MISSING}
    return {name: v for name, v in cell.items() if name not in defaults or v != defaults[name]}


def load(path: Path) -> Record:
    """Read what `save` wrote."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArgumentError(f"There is no record {path}.") from error
    except (OSError, ValueError) as error:
        raise ArgumentError(f"The record {path} cannot be read: {error}.") from error
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA or "run" not in plain:
        raise ArgumentError(
            f"{path} must be a record of the zoo with schema {SCHEMA}, as `tapegrad bench --zoo "
            "--record` writes it. Measure again, or read it with the version that wrote it."
        )
    plain["run"]["cells"] = plain.pop("cells", [])
    record: Record = from_plain(Record, plain, str(path))
    return record
