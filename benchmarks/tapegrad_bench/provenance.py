"""Which sources a measurement is about: the revision, and a hash over the packages.

Imports the standard library alone: the scripts in ci/ use it too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

COMMIT = "TAPEGRAD_COMMIT"
"""The variable that names the revision where the tree has no git history."""

UNKNOWN = "unknown"
PACKAGES = ("tapegrad", "tapegrad_numpy", "tapegrad_cupy", "tapegrad_bench")

# Runs write these: a change of them is no change of the sources.
_RECORDS = (
    *("ci/gpu-report.json", "ci/cpu-samples.json", "docs/functions.md"),
    *("benchmarks/README.md", "benchmarks/results"),
)


def current_commit(root: Path | None = None) -> str:
    """Return the revision of the tree: that of $TAPEGRAD_COMMIT, git's, or "unknown".

    "+changes" follows git's when files differ from it. The root is that of the package by default.

    >>> current_commit(Path("/nowhere")) == os.environ.get(COMMIT, UNKNOWN)
    True
    """
    if os.environ.get(COMMIT):
        return os.environ[COMMIT]
    root = root or _folder("tapegrad").parent
    head = _git(root, ["rev-parse", "--short=12", "HEAD"]) if (root / ".git").exists() else ""
    if not head:
        return UNKNOWN
    others = [f":(exclude){path}" for path in _RECORDS]
    changes = _git(root, ["status", "--porcelain", "--untracked-files=no", "--", ".", *others])
    return f"{head}+changes" if changes else head


def _git(root: Path, arguments: Sequence[str]) -> str:
    command = ["git", "-C", str(root), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


def source_digest(folders: Iterable[Path] | None = None, more: Sequence[str] = ()) -> str:
    """Return one hash for all Python files of the packages, wherever they are installed.

    `more` names packages that are not in the wheel.

    >>> len(source_digest())
    64
    """
    if folders is None:
        found = [name for name in (*PACKAGES, *more) if importlib.util.find_spec(name) is not None]
        folders = [_folder(name) for name in found]
    total = hashlib.sha256()
    for folder in sorted(folders):
        for path in sorted(folder.rglob("*.py")):
            total.update(path.relative_to(folder.parent).as_posix().encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"There is no package {package!r}.")
    return Path(spec.origin).parent
