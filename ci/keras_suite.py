"""Run the tests that Keras' wheel ships with Keras on tapegrad, and compare the failures.

    python ci/keras_suite.py                 # the tenth of this commit
    python ci/keras_suite.py --tenth 3       # another one
    python ci/keras_suite.py --all --record  # all, and write ci/keras-suite.json
    python ci/keras_suite.py --all keras/src/ops   # some folders

Each commit tests a tenth, the next commit the next tenth. A tenth leaves out
`keras/src/applications`, whose models take too long; `ci/keras_applications.py` trains them.

Keras 3.15.1, pytest, pytest-xdist and pytest-timeout must be installed. Tests that need TensorFlow,
JAX or other libraries count as missing without them. `ci/keras-exclusions.json` names the tests
that are known to fail, by reason. A failure that is not among them is an error; a test among them
that passes is named, so that it can be removed.
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
LIBRARIES = ("tensorflow", "jax", "torch", "scipy", "pandas")
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


def tenth_of_commit(root: Path = ROOT) -> int:
    """Return the tenth of the tests for a commit: the number of its ancestors, modulo ten.

    Ten commits in a row test everything, and a commit is always tested in the same way. Without
    the history, the day decides.
    """
    command = ["git", "rev-list", "--count", "HEAD"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode or (root / ".git" / "shallow").exists():
        return dt.datetime.now(dt.UTC).toordinal() % 10
    return int(done.stdout) % 10


def run(paths: list[str], tenth: int | None, processes: int, texts: str = "no") -> list[str]:
    """Run the tests in Keras' folder, and return lines of outcome, seconds and test.

    `texts` is pytest's `--tb`: known failures are many, so their texts are not printed.
    """
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
        # Some tests compare two runs in all bits, of which one could begin before its program is
        # compiled.
        environment.setdefault("TAPEGRAD_WAIT", "1")
        options = "--assert=plain -p keras_tapegrad -p conftest -p no:cacheprovider -q"
        command = [sys.executable, "-m", "pytest", *options.split(), "--timeout=300"]
        command.append(f"--tb={texts}")
        # The environment may be inside this tree, whose pyproject.toml is not for these tests.
        command += ["-c", os.devnull, f"--rootdir={site}"]
        if tenth is not None:
            command += ["-rN", "--disable-warnings", "--ignore=keras/src/applications"]
        # A file that cannot be imported is a failure of its own; the others run.
        command += ["--continue-on-collection-errors", f"-n{processes}", *paths]
        subprocess.run(command, cwd=site, env=environment, check=False)
        return outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else []


def merged(lines: list[str]) -> dict[str, str]:
    """Return the outcome of each test; one that passed and failed afterwards has failed.

    >>> merged(["passed 0.1 a.py::b", "failed 0.0 a.py::b", "skipped 0.0 c.py::d"])
    {'a.py::b': 'failed', 'c.py::d': 'skipped'}
    """
    found: dict[str, str] = {}
    for line in lines:
        outcome, _, test = line.split(" ", 2)
        if found.get(test) != "failed":
            found[test] = outcome
    return found


def report(found: dict[str, str], known: dict[str, str]) -> list[str]:
    """Print the counts and what differs from the known failures; return the new failures."""
    failures = sorted(test for test, outcome in found.items() if outcome == "failed")
    new = [test for test in failures if test not in known]
    counts = counted(found)
    print(f"{len(found)} tests of Keras {VERSION}: {counts}; {len(new)} unexpected failures")
    for test in new:
        print(f"  {test}")
    has_tensorflow = find_spec("tensorflow") is not None
    healed = [
        test
        for test, reason in known.items()
        if found.get(test) == "passed"
        and not (has_tensorflow and reason.startswith("Without TensorFlow"))
    ]
    if healed:
        print(f"{len(healed)} tests of ci/keras-exclusions.json pass; remove them there:")
    for test in healed:
        print(f"  {test}")
    return new


def counted(found: dict[str, str]) -> dict[str, int]:
    """Return the number of tests for each outcome.

    >>> counted({"a": "passed", "b": "passed"})
    {'passed': 2, 'skipped': 0, 'missing': 0, 'failed': 0}
    """
    outcomes = [*found.values()]
    return {name: outcomes.count(name) for name in ("passed", "skipped", "missing", "failed")}


def write_record(found: dict[str, str], path: Path = RECORD) -> None:
    """Write the counts, also by folder, and the failures."""
    folders = sorted({folder_of(test) for test in found})
    by_folder = {
        folder: counted({t: o for t, o in found.items() if folder_of(t) == folder})
        for folder in folders
    }
    record = {
        "keras": VERSION,
        "digest": digest_of_sources(),
        "libraries": {name: version(name) for name in LIBRARIES if find_spec(name)},
        "tests": len(found),
        **counted(found),
        "folders": by_folder,
        "failures": sorted(test for test, outcome in found.items() if outcome == "failed"),
        "missing_tests": sorted(test for test, outcome in found.items() if outcome == "missing"),
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def folder_of(test: str) -> str:
    """Return the folder of a test below `keras/src`.

    >>> folder_of("keras/src/ops/nn_test.py::NNOpsTest::test_relu")
    'ops'
    """
    return test.removeprefix("keras/src/").partition("/")[0].partition("::")[0]


def main(arguments: list[str]) -> int:
    """Run the tests; 1 if there are failures that the exclusions do not name."""
    parser = argparse.ArgumentParser(description="Run Keras' tests with Keras on tapegrad.")
    parser.add_argument("--tenth", type=int, choices=range(10))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--outcomes", help="record the lines of this file instead of a run")
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("paths", nargs="*", default=["keras/src"])
    given = parser.parse_args(arguments)
    tenth = None if given.all else tenth_of_commit() if given.tenth is None else given.tenth
    if given.outcomes:
        lines = Path(given.outcomes).read_text(encoding="utf-8").splitlines()
    else:
        if tenth is not None:
            print(f"Tenth {tenth} of Keras' tests (python ci/keras_suite.py --tenth {tenth})")
        lines = run(given.paths, tenth, given.processes)
    found = merged(lines)
    new = report(found, excluded())
    if new and not given.outcomes:
        print("The unexpected failures once more, with their errors:", flush=True)
        run(new[:20], None, 1, "short")
    if given.record:
        write_record(found)
    return 1 if new or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
