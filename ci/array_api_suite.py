"""Run the array API tests that SciPy and scikit-learn ship, with tapegrad as the namespace.

    python ci/array_api_suite.py sklearn                          # all
    python ci/array_api_suite.py scipy --record                   # and write ci/scipy-suite.json
    python ci/array_api_suite.py scipy scipy/stats -- -k skew     # a folder, with options of pytest
    python ci/array_api_suite.py sklearn --site env/lib/python3.11/site-packages
    python ci/array_api_suite.py scipy-functions scipy/linalg     # see below

The packages, pytest and array-api-strict must be installed; nothing is fetched and no file of the
packages is changed. A test runs if it takes its arrays from a namespace: `ci/array_api_suite` has
the plug-ins that add tapegrad to the namespaces. `ci/scipy-exclusions.json` and
`ci/sklearn-exclusions.json` name the tests that are known to fail, by reason. A failure that is not
among them is an error, and so is a test among them that passes.

`scipy-functions` runs SciPy's tests on NumPy arrays with the functions of tapegrad.scipy in place
of SciPy's, where tapegrad has one of that name. Tests that call none of them are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"scipy": "scipy", "sklearn": "scikit-learn", "scipy-functions": "scipy"}
FOLDERS = {"scipy-functions": "scipy"}
"""The package of a suite, where it has another name than the suite."""
PARTS = {"scipy-functions": ["scipy/linalg", "scipy/ndimage", "scipy/stats"]}
"""What a suite runs by default, if not the whole package."""
OUTCOMES = ("passed", "skipped", "xfailed", "failed")
MENTIONS = {
    "scipy": re.compile(r"\bxp\b"),
    "scipy-functions": re.compile(
        r"from scipy import|scipy\.(linalg|ndimage|stats|special|signal)"
    ),
    "sklearn": re.compile(r"yield_(mixed_)?namespace|parametrize_with_checks"),
}


def site_of(library: str, site: str | None) -> Path:
    """Return the folder that contains the package."""
    folder = FOLDERS.get(library, library)
    if site is not None:
        if not (Path(site) / folder / "__init__.py").exists():
            raise SystemExit(f"{site} does not contain {folder}.")
        return Path(site).resolve()
    place = find_spec(folder)
    if place is None or place.origin is None:
        raise SystemExit(f"Install {PACKAGES[library]} first, or name its folder with --site.")
    return Path(place.origin).parents[1]


def test_files(library: str, site: Path, paths: list[str]) -> list[str]:
    """Return the test files below the paths that take arrays from a namespace."""
    found = []
    for path in paths or PARTS.get(library, [library]):
        place, _, name = path.partition("::")
        whole = site / place
        files = [whole] if whole.is_file() else sorted(whole.rglob("tests/test_*.py"))
        found += [
            str(file.relative_to(site)) + (f"::{name}" if name else "")
            for file in files
            if MENTIONS[library].search(file.read_text(encoding="utf-8", errors="replace"))
        ]
    return found


def run(library: str, site: Path, files: list[str], options: list[str]) -> list[dict[str, Any]]:
    """Run the tests in the folder of the package; return one entry per outcome."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes.jsonl"
        roots = [ROOT, ROOT / "backends", ROOT / "ci" / "array_api_suite", site]
        environment = {
            **os.environ,
            "ARRAY_API_SUITE_OUTCOMES": str(outcomes),
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
        }
        if library != "scipy-functions":
            environment["SCIPY_ARRAY_API"] = "1"
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment.setdefault(name, "1")
        command = [sys.executable, "-m", "pytest", "-q", "--assert=plain", "--tb=line", "-rN"]
        command += [
            "-p",
            "no:cacheprovider",
            "-p",
            "outcomes",
            "-p",
            f"for_{library.replace('-', '_')}",
        ]
        command += ["--disable-warnings", "--continue-on-collection-errors"]
        # The environment may be inside this tree, whose pyproject.toml is not for these tests.
        command += ["-c", os.devnull, f"--rootdir={site}", *options, *files]
        subprocess.run(command, cwd=site, env=environment, check=False)
        if not outcomes.exists():
            return []
        return [json.loads(line) for line in outcomes.read_text(encoding="utf-8").splitlines()]


def merged(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return one entry per test; a test that passed and failed afterwards has failed.

    >>> merged([{"test": "a", "outcome": "passed"}, {"test": "a", "outcome": "failed"}])
    {'a': {'test': 'a', 'outcome': 'failed'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        known = found.get(entry["test"])
        if known is None or known["outcome"] != "failed":
            found[entry["test"]] = entry
    return found


def counted(entries: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of tests for each outcome.

    >>> counted([{"outcome": "passed"}, {"outcome": "passed"}])
    {'passed': 2, 'skipped': 0, 'xfailed': 0, 'failed': 0}
    """
    outcomes = [entry["outcome"] for entry in entries]
    return {name: outcomes.count(name) for name in OUTCOMES}


def module_of(test: str) -> str:
    """Return the part of the library that a test belongs to.

    >>> module_of("scipy/stats/tests/test_stats.py::test_skew[tapegrad.numpy]")
    'stats'
    >>> module_of("sklearn/tests/test_pipeline.py::test_one")
    'pipeline'
    """
    parts = test.partition("::")[0].split("/")
    return parts[1] if parts[1] != "tests" else Path(parts[2]).stem.removeprefix("test_")


def excluded(library: str, root: Path = ROOT) -> dict[str, list[str]]:
    """Return {reason: tests} of the tests that are known to fail."""
    path = root / "ci" / f"{library}-exclusions.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def reasons_of_skips(entries: list[dict[str, Any]], few: int = 12) -> dict[str, int]:
    """Return how many tests were skipped for each reason, the most frequent first."""
    counts: dict[str, int] = {}
    for entry in entries:
        if entry["outcome"] == "skipped":
            counts[entry["reason"]] = counts.get(entry["reason"], 0) + 1
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = sum(number for _, number in ordered[few:])
    return dict(ordered[:few]) | ({"other reasons": rest} if rest else {})


def record(
    library: str, found: dict[str, dict[str, Any]], how: str = "", root: Path = ROOT
) -> None:
    """Write the counts, also by module, and the failures; `how` is a sentence about the run."""
    entries = [*found.values()]
    modules = sorted({module_of(test) for test in found})
    names = ("numpy", "array-api-strict", PACKAGES[library])
    written = {
        "library": PACKAGES[library],
        "versions": {name: version(name) for name in names},
        "how": how,
        "tests": len(found),
        **counted(entries),
        "modules": {
            name: counted([e for e in entries if module_of(e["test"]) == name]) for name in modules
        },
        "skips": reasons_of_skips(entries),
        "failures": sorted(e["test"] for e in entries if e["outcome"] == "failed"),
    }
    path = root / "ci" / f"{library}-suite.json"
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def report(library: str, found: dict[str, dict[str, Any]]) -> int:
    """Print the counts and what differs from the known failures; return the number of those."""
    known = {test: reason for reason, tests in excluded(library).items() for test in tests}
    failures = [test for test, entry in found.items() if entry["outcome"] == "failed"]
    new = [test for test in failures if test not in known]
    healed = [test for test in known if found.get(test, {}).get("outcome") == "passed"]
    print(f"{len(found)} tests of {PACKAGES[library]}: {counted([*found.values()])}")
    for title, tests in (("Unexpected failures", new), ("Excluded, but they pass", healed)):
        if tests:
            print(f"{title}: {len(tests)}")
        for test in tests:
            print(f"  {test}\n      {found[test]['reason'].splitlines()[:1]}")
    return len(new) + len(healed)


def main(arguments: list[str]) -> int:
    """Run the tests; 1 if the outcome is not the known one."""
    place = arguments.index("--") if "--" in arguments else len(arguments)
    ours, options = arguments[:place], arguments[place + 1 :]
    parser = argparse.ArgumentParser(description="Run array API tests on tapegrad.")
    parser.add_argument("library", choices=PACKAGES)
    parser.add_argument("--site", help="the folder that contains the package")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--how", default="", help="a sentence for the record")
    parser.add_argument("--outcomes", help="also write the outcome of each test to this file")
    parser.add_argument("--read", action="append", help="take the outcomes of earlier runs")
    parser.add_argument("paths", nargs="*")
    given = parser.parse_args(ours)
    if given.read:
        texts = [Path(path).read_text(encoding="utf-8") for path in given.read]
        entries = [json.loads(line) for text in texts for line in text.splitlines()]
    else:
        site = site_of(given.library, given.site)
        entries = run(given.library, site, test_files(given.library, site, given.paths), options)
    found = merged(entries)
    if given.outcomes:
        lines = [json.dumps(entry) for entry in found.values()]
        Path(given.outcomes).write_text("\n".join(lines) + "\n", encoding="utf-8")
    if given.record:
        record(given.library, found, given.how)
    return 1 if report(given.library, found) or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
