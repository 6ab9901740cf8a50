"""Run the zoo: check that the versions of a program agree, time them side by side, keep the rows.

A row is one program on one device with all contenders. The results file is written after each row,
and a later run continues it if the sources are the same, so that a run may be done in parts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tapegrad_bench.provenance import current_commit, source_digest
from tapegrad_zoo.check import check
from tapegrad_zoo.contenders import MODES
from tapegrad_zoo.program import LIBRARIES, Entry

PATIENCE = 300.0
"""Seconds that one contender may take, compilation included."""

Row = dict[str, Any]


def contenders(libraries: Sequence[str]) -> list[tuple[str, str]]:
    """Return libraries and modes that are installed, ours first.

    >>> contenders(["tapegrad"])
    [('tapegrad', 'eager'), ('tapegrad', 'function')]
    """
    found = [library for library in LIBRARIES if library in libraries]
    return [
        (library, mode)
        for library in found
        if library == "tapegrad" or importlib.util.find_spec(library) is not None
        for mode in MODES[library]
    ]


class Zoo:
    """A results file, and the rows that it lacks."""

    def __init__(self, path: Path, device: str, libraries: Sequence[str]) -> None:
        self._path, self._device, self._libraries = path, device, libraries
        self._digest = source_digest()
        self.rows: dict[str, Row] = {}
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["digest"] == self._digest and kept["device"] == device:
                self.rows = kept["rows"]

    def run(self, entries: Iterable[Entry], budget: float, seconds: float) -> None:
        """Run programs that have no row yet until the budget is spent."""
        deadline = time.monotonic() + budget
        for entry in entries:
            if entry.name in self.rows:
                continue
            if time.monotonic() > deadline:
                return
            self.rows[entry.name] = self._row(entry, seconds)
            self._save()

    def _row(self, entry: Entry, seconds: float) -> Row:
        program = entry.program
        cost = program.cost(program.sizes[self._device])
        row: Row = {
            "family": entry.family,
            "spelling": entry.spelling,
            "workbench": entry.is_on_workbench,
            "bytes": cost.bytes,
            "operations": cost.operations,
            "dtype": program.dtypes[self._device],
            "cells": [],
        }
        present = tuple(dict.fromkeys(library for library, _ in contenders(self._libraries)))
        try:
            complaints = check(entry, present) if len(present) > 1 else []
        except Exception as error:
            complaints = [f"{type(error).__name__}: {error}"]
        row["complaint"] = "; ".join(complaints)
        if not complaints:  # a program that disagrees with its peers is never timed
            row["cells"] = [
                self._cell(entry.name, library, mode, seconds)
                for library, mode in contenders(self._libraries)
            ]
        return row

    def _cell(self, name: str, library: str, mode: str, seconds: float) -> Row:
        command = [sys.executable, "-m", "tapegrad_zoo.measure", name, library, mode, self._device]
        command += ["--seconds", str(seconds)]
        cell: Row = {"library": library, "mode": mode, "times": []}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, env=_environment()
            )
        except subprocess.TimeoutExpired:
            return {**cell, "reason": f"It was not ready after {PATIENCE:.0f} s."}
        try:
            return {**cell, **json.loads(done.stdout.splitlines()[-1])}
        except (IndexError, ValueError):
            return {**cell, "reason": f"Its process ended with status {done.returncode}."}

    def _save(self) -> None:
        content = {
            "digest": self._digest,
            "commit": current_commit(),
            "device": self._device,
            "rows": self.rows,
        }
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        partial.replace(self._path)


def _environment() -> dict[str, str]:
    """Return the variables of a process that times: the same paths, and memory as needed."""
    paths = os.pathsep.join(path for path in sys.path if path)
    settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TAPEGRAD_TF32": "1"}
    return {**os.environ, **settings, "PYTHONPATH": paths}
