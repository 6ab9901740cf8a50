"""The record of a run on a GPU: what ran, on which sources, and how it ended.

python ci/gpu_report.py --run [pytest arguments]   run the GPU tests and write the report
python ci/gpu_report.py --check                    does the report still match the tree?
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "ci" / "gpu-report.json"
SOURCES = ("backends", "tapegrad/core", "tapegrad/ops", "tapegrad/autodiff", "tests/gpu")


def digest() -> str:
    """One number for all sources that the GPU run depends on."""
    total = hashlib.sha256()
    files = (path for place in SOURCES for path in (ROOT / place).rglob("*.py"))
    for path in sorted(files):
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def run(arguments: list[str]) -> int:
    """Run the tests and write the report, whether they pass or not."""
    before = digest()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "tests/gpu", "-q", "-p", "no:cacheprovider"]
        ended = subprocess.run([*command, f"--junitxml={results}", *arguments], cwd=ROOT)
        counts = count(results)
    report = {
        "digest": before,
        "tests": counts,
        "seconds": round(time.perf_counter() - started, 1),
        "versions": versions(),
    }
    REPORT.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n")
    print(json.dumps(report, indent=2, sort_keys=True))
    return ended.returncode


def count(results: Path) -> dict[str, Any]:
    """How many tests ran, and the names of those that did not pass."""
    suites = ET.parse(results).getroot().iter("testsuite")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    failed: list[str] = []
    for suite in suites:
        for key in totals:
            totals[key] += int(suite.get(key, 0))
        failed.extend(
            f"{case.get('classname')}::{case.get('name')}"
            for case in suite.iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None
        )
    return {**totals, "failed": sorted(failed)}


def versions() -> dict[str, str]:
    """What the run stood on."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "cupy"):
        found[name] = importlib.import_module(name).__version__
    cupy = importlib.import_module("cupy")
    found["device"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found["cuda_runtime"] = str(cupy.cuda.runtime.runtimeGetVersion())
    found["cuda_driver"] = str(cupy.cuda.runtime.driverGetVersion())
    return found


def check() -> int:
    """Say whether the committed report is about this tree and all its tests passed."""
    if not REPORT.exists():
        print("There is no GPU report: run `bash ci/gpu.sh` on a machine with a GPU.")
        return 1
    report = json.loads(REPORT.read_text())
    if report["digest"] != digest():
        print("The GPU report is about other sources: run `bash ci/gpu.sh` again.")
        return 1
    failed = report["tests"]["failed"]
    print(
        f"The GPU report matches this tree: {report['tests']['tests']} tests, {len(failed)} failed."
    )
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the GPU tests and write the report")
    parser.add_argument("--check", action="store_true", help="compare the report with the tree")
    options, rest = parser.parse_known_args()
    if options.run:
        return run(rest)
    return check()


if __name__ == "__main__":
    raise SystemExit(main())
