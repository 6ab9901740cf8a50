"""What a library costs before it computes anything: seconds to import, megabytes on disk."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

TIMEOUT = 60.0
OURS = ("tapegrad", "tapegrad_numpy", "tapegrad_cupy", "keras_tapegrad", "tapegrad_bench")
"""The packages in tapegrad's wheel."""

_CODE = """
import time
start = time.perf_counter()
import numpy
between = time.perf_counter()
import {library}
print(between - start if {library!r} == "numpy" else time.perf_counter() - between)
"""


def import_seconds(library: str) -> float:
    """Import `library` in a fresh process; return its seconds beyond NumPy's (NumPy's: its own).

    >>> import_seconds("numpy") > 0
    True
    """
    command = [sys.executable, "-c", _CODE.format(library=library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"`import {library}` failed: {lines[-1][:300]}")
    return float(done.stdout.split()[-1])


def installed_megabytes(library: str) -> float:
    """Return the size of a library with all that it needs, beyond NumPy (NumPy's: its own).

    >>> installed_megabytes("numpy") > 1
    True
    """
    if library == "tapegrad":
        return _tree_megabytes()
    names = _with_requirements(_distribution_of(library))
    if library != "numpy":
        names -= _with_requirements("numpy")
    return sum(_bytes_of(name) for name in names) / 1e6


def _tree_megabytes() -> float:
    """Our own packages, installed or in a source tree; compiled files come and go."""
    total = 0
    for package in OURS:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            files = (path for path in Path(folder).rglob("*") if path.is_file())
            total += sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    return total / 1e6


def _distribution_of(library: str) -> str:
    found = importlib.metadata.packages_distributions().get(library)
    if not found:
        raise RuntimeError(f"{library} was not installed by a package manager.")
    return found[0]


def _with_requirements(name: str) -> set[str]:
    """The distribution and everything it requires that is installed here."""
    seen: set[str] = set()
    waiting = [_normal(name)]
    while waiting:
        current = waiting.pop()
        if current in seen or not _is_installed(current):
            continue
        seen.add(current)
        for requirement in importlib.metadata.requires(current) or []:
            if "extra ==" not in requirement:
                match = re.match(r"[A-Za-z0-9._-]+", requirement)
                waiting.append(_normal(match[0]) if match else current)
    return seen


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _bytes_of(name: str) -> int:
    files = importlib.metadata.files(name) or []
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())
