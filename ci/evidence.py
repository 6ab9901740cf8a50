"""Records of test runs: what ran, on which sources, and whether that still holds for this tree.

A record is a JSON file with one entry per test file. An entry names every file of the repository
that its run read, with a hash of the contents; when one of them changes, the entry is stale.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(1, str(ROOT / "benchmarks"))
from tapegrad_bench.provenance import current_commit  # noqa: E402

__all__ = ["ROOT", "Entry", "Run", "Tree", "current_commit", "hash_of", "load", "log_hash",
           "read_tree", "save"]  # fmt: skip

Tree = Mapping[str, str]
"""Path below the root to a hash of the contents."""


@dataclass(frozen=True)
class Run:
    """What the entries of one run share."""

    commit: str
    date: str
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """What the last run of one test file found."""

    run: Run
    sources: Tree
    environment: Mapping[str, str] = field(default_factory=dict)
    collected: int = 0
    executed: int = 0
    skipped: int = 0
    left_out: tuple[str, ...] = ()
    """Tests that the caller excluded because they cannot hold on this device."""
    failed: tuple[str, ...] = ()
    samples: Mapping[str, bool] = field(default_factory=dict)
    """Rows of the sample table that it ran, and whether all of their tests passed."""
    seconds: float = 0.0
    """The sum over its tests, however many ran at once."""
    log: str = ""
    log_sha256: str = ""

    @property
    def digest(self) -> str:
        """Return one hash for all sources."""
        return _sha256("\n".join(_rows(self.sources)).encode())

    def problem(self) -> str | None:
        """Return why this run proves nothing, or None if it passed."""
        without_result = self.collected - self.executed - self.skipped - len(self.left_out)
        if self.failed:
            return f"{len(self.failed)} failed"
        if not self.executed:
            return "no test was executed"
        if without_result:
            return f"{without_result} of {self.collected} collected tests have no result"
        if not self.sources:
            return "its sources were not recorded"
        return None

    def stale(self, tree: Tree, environment: Mapping[str, str] | None = None) -> str | None:
        """Return what changed since the run, or None if it was on these sources."""
        changed = self.changed(tree)
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            return f"{changed[0]}{more} changed since revision {self.run.commit}"
        if environment is not None and environment != self.environment:
            return f"it ran with {dict(self.environment)}, not with {dict(environment)}"
        return None

    def changed(self, tree: Tree) -> list[str]:
        """Return the sources of the run that are different now, or gone."""
        return [path for path, found in self.sources.items() if tree.get(path) != found]


def read_tree(root: Path) -> dict[str, str]:
    """Return the hash of every file below `root`, without hidden folders and caches."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(n for n in folders if not n.startswith((".", "__pycache__")))
        for name in sorted(names):
            path = Path(folder) / name
            if not name.startswith(".") and path.is_file():
                found[path.relative_to(root).as_posix()] = hash_of(path)
    return found


def hash_of(path: Path) -> str:
    """Return a hash of what a file means to tests."""
    contents = path.read_bytes()
    if path.name == "pyproject.toml":
        # pytest reads it at every start; only its own settings can change what a test means.
        settings = tomllib.loads(contents.decode()).get("tool", {}).get("pytest", {})
        contents = json.dumps(settings, sort_keys=True).encode()
    return _sha256(contents)[:20]


def _sha256(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()


def log_hash(path: Path) -> str:
    """Return the SHA-256 of a log."""
    return _sha256(path.read_bytes())


def load(path: Path) -> dict[str, Entry]:
    """Return the entries of a record by test file; none if there is no record."""
    if not path.exists():
        return {}
    plain = json.loads(path.read_text(encoding="utf-8"))
    runs = [Run(**run) for run in plain["runs"]]
    return {file: _entry(found, runs, plain["sources"]) for file, found in plain["files"].items()}


def _entry(plain: dict[str, Any], runs: Sequence[Run], rows: Sequence[str]) -> Entry:
    digest = plain.pop("digest")
    run, sources = runs[plain.pop("run")], [rows[n] for n in numbers(plain.pop("sources", ""))]
    samples = {name: ok for key, ok in _OUTCOMES for name in plain.pop(key, "").split()}
    pairs = [tuple(row.rsplit(" ", 1)) for row in sources]
    lists = {key: tuple(plain.pop(key, ())) for key in ("left_out", "failed")}
    entry = Entry(run, dict(pairs), samples=samples, **lists, **plain)
    if entry.digest == digest:
        return entry
    return replace(entry, failed=(*entry.failed, "the record was changed by hand"))


_OUTCOMES = (("samples_passed", True), ("samples_failed", False))


def save(path: Path, entries: Mapping[str, Entry], extra: Mapping[str, Any] | None = None) -> None:
    """Write a record; the sources and runs that entries share are written once."""
    rows = sorted({row for entry in entries.values() for row in _rows(entry.sources)})
    places = {row: place for place, row in enumerate(rows)}
    runs: list[Run] = []
    files = {}
    for file, entry in sorted(entries.items()):
        if entry.run not in runs:
            runs.append(entry.run)
        plain = asdict(entry)
        plain["run"] = runs.index(entry.run)
        plain["digest"] = entry.digest
        plain["sources"] = ranges(places[row] for row in _rows(entry.sources))
        samples = plain.pop("samples")
        for key, outcome in _OUTCOMES:
            plain[key] = " ".join(sorted(name for name, ok in samples.items() if ok is outcome))
        # Zeros and empty lists are most of the file, and say nothing.
        files[file] = {key: value for key, value in plain.items() if value or key == "run"}
    record = {**(extra or {}), "runs": [asdict(run) for run in runs], "files": files}
    text = json.dumps({**record, "sources": rows}, indent=1, sort_keys=True) + "\n"
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)  # a run that is killed leaves a whole record


def _rows(sources: Tree) -> list[str]:
    return [f"{path} {found}" for path, found in sorted(sources.items())]


def ranges(places: Iterable[int]) -> str:
    """Return numbers in the short form of a print dialog: 0, 1, 2, 5 is "0-2,5"."""
    parts: list[list[int]] = []
    for place in sorted(places):
        if parts and parts[-1][1] == place - 1:
            parts[-1][1] = place
        else:
            parts.append([place, place])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def numbers(text: str) -> list[int]:
    """Return the numbers that `ranges` wrote."""
    pairs = [part.partition("-") for part in text.split(",") if part]
    return [n for a, _, b in pairs for n in range(int(a), int(b or a) + 1)]
