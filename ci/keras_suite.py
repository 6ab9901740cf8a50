"""Run the tests that Keras' wheel ships with Keras on tapegrad, and compare the failures.

    python ci/keras_suite.py                 # today's tenth
    python ci/keras_suite.py --tenth 3       # one tenth
    python ci/keras_suite.py --all --record  # all, and write ci/keras-suite.json
    python ci/keras_suite.py --all keras/src/ops   # some folders

Keras 3.15.1, pytest, pytest-xdist and pytest-timeout must be installed. Tests that need TensorFlow,
JAX or other libraries count as missing without them. `ci/keras-exclusions.json` names the tests
that are known to fail, by reason. A failure that is not among them is an error.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXCLUSIONS = ROOT / "ci" / "keras-exclusions.json"
RECORD = ROOT / "ci" / "keras-suite.json"
VERSION = "3.15.1"
SOURCES = ("tapegrad", "backends/keras_tapegrad", "backends/tapegrad_numpy")


def digest_of_sources(root: Path = ROOT) -> str:
    """Return a digest of the files that decide how the tests end."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*.py")):
            found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()


def excluded(path: Path = EXCLUSIONS) -> dict[str, str]:
    """Return {test: reason} of the tests that are known to fail."""
    groups = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {test: reason for reason, tests in groups.items() for test in tests}


def run(paths: list[str], tenth: int | None, processes: int) -> dict[str, str]:
    """Run the tests in Keras' folder, and return {test: outcome}."""
    place = find_spec("keras")
    if place is None or version("keras") != VERSION:
        raise SystemExit(f"Install Keras first: pip install keras=={VERSION}")
    site = Path(str(place.origin)).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes.txt"
        roots = [ROOT, ROOT / "backends", ROOT / "ci" / "keras_suite"]
        environment = {
            **os.environ,
            "KERAS_BACKEND": "tapegrad",
            "KERAS_SUITE_OUTCOMES": str(outcomes),
            "KERAS_SUITE_TENTH": "" if tenth is None else str(tenth),
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
        }
        environment.setdefault("OMP_NUM_THREADS", "1")
        options = "--assert=plain -p keras_tapegrad -p conftest -p no:cacheprovider -q --tb=line"
        command = [sys.executable, "-m", "pytest", *options.split(), "--timeout=300"]
        # A file that cannot be imported is a failure of its own; the others run.
        command += ["--continue-on-collection-errors", f"-n{processes}", *paths]
        subprocess.run(command, cwd=site, env=environment, check=False)
        lines = outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else []
    return merged(lines)


def merged(lines: list[str]) -> dict[str, str]:
    """Return the outcome of each test; one that passed and failed afterwards has failed.

    >>> merged(["passed a.py::b", "failed a.py::b", "skipped c.py::d"])
    {'a.py::b': 'failed', 'c.py::d': 'skipped'}
    """
    found: dict[str, str] = {}
    for line in lines:
        outcome, test = line.split(" ", 1)
        if found.get(test) != "failed":
            found[test] = outcome
    return found


def main(arguments: list[str]) -> int:
    """Run the tests; 1 if there are failures that the exclusions do not name."""
    parser = argparse.ArgumentParser(description="Run Keras' tests with Keras on tapegrad.")
    parser.add_argument("--tenth", type=int, choices=range(10))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("paths", nargs="*", default=["keras/src"])
    given = parser.parse_args(arguments)
    today = dt.datetime.now(dt.UTC).toordinal() % 10
    tenth = None if given.all else today if given.tenth is None else given.tenth
    found = run(given.paths, tenth, given.processes)
    known = excluded()
    failures = sorted(test for test, outcome in found.items() if outcome == "failed")
    new = [test for test in failures if test not in known]
    counts = dict.fromkeys(("passed", "skipped", "missing", "failed"), 0)
    for outcome in found.values():
        counts[outcome] += 1
    print(f"{len(found)} tests of Keras {VERSION}: {counts}; {len(new)} unexpected failures")
    for test in new:
        print(f"  {test}")
    if given.record:
        record = {"keras": VERSION, "digest": digest_of_sources(), "tests": len(found), **counts}
        record["failures"] = failures
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if new or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
