"""The tests that judge: those of the project, and those of Keras for its backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

KERAS = "backends/keras_tapegrad"
"""The package that the tests of Keras judge."""

FOLDERS = ("api", "compat", "compatibility", "data", "derivatives", "keras", "numpy", "program",
           "rules", "scipy", "text")  # fmt: skip
"""The project's tests that judge; others read the tree as text or try random programs."""


@dataclass(frozen=True)
class Suite:
    """How the tests of a copy of the tree are run."""

    name: str
    python: str
    tests: tuple[str, ...]
    """All tests, as arguments of pytest."""
    folder: Path | None = None
    """Where the tests are, if they are not in the copy of the tree."""
    options: tuple[str, ...] = ()
    roots: tuple[str, ...] = ("", "backends", "benchmarks")
    """The folders of the tree in which Python looks for modules."""
    variables: dict[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        """Return a command that runs pytest."""
        quiet = ("-q", "-p", "no:cacheprovider", "--tb=line")
        return [self.python, "-m", "pytest", *quiet, *self.options, *arguments]

    def place(self, tree: Path) -> Path:
        """Return the folder in which the command runs."""
        return tree if self.folder is None else self.folder

    def environment(self, tree: Path, cache: Path, seed: int) -> dict[str, str]:
        """Return the environment of the command for a copy of the tree."""
        return {
            **os.environ,
            **self.variables,
            "PYTHONPATH": os.pathsep.join(str(tree / root) for root in self.roots),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TAPEGRAD_CACHE": str(cache),
            "TAPEGRAD_SEED": str(seed),
            "TAPEGRAD_WAIT": "1",
        }


def project() -> Suite:
    """Return the tests of the project."""
    return Suite("project", sys.executable, tuple(f"tests/{name}" for name in FOLDERS))


def keras(python: str, tenth: int) -> Suite:
    """Return a tenth of the tests of Keras, as ci/keras_suite.py runs them."""
    find = "import importlib.util as u; print(u.find_spec('keras').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True)
    site = Path(found.stdout.strip()).parent
    options = "--assert=plain,-p,keras_tapegrad,-p,conftest,--disable-warnings,--timeout=300"
    return Suite(
        "keras",
        python,
        ("--ignore=keras/src/applications", "--continue-on-collection-errors", "keras"),
        folder=site,
        options=(*options.split(","), "-c", os.devnull, f"--rootdir={site}"),
        roots=("", "backends", "ci/keras_suite"),
        variables={"KERAS_BACKEND": "tapegrad", "KERAS_SUITE_TENTH": str(tenth)},
    )


def judges(package: str, suites: Sequence[Suite]) -> Suite | None:
    """Return the suite that judges the mutants of a package, None if it cannot run here."""
    name = "keras" if package == KERAS else "project"
    return next((suite for suite in suites if suite.name == name), None)


def end_group(process: int) -> None:
    """End a process and those that it started, if some still run."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        return
