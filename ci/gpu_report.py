"""The record of a run on a GPU: what ran, on which sources, and how it ended.

python ci/gpu_report.py --run [pytest arguments]            run all GPU tests, write the report
python ci/gpu_report.py --rest [pytest arguments]           run what failed, or changed since then
python ci/gpu_report.py --bench [tapegrad bench arguments]  add figures; results/ gets them all
python ci/gpu_report.py --check                             does the report still match the tree?

The report knows each file of tests by the sources that it ran on, so that a test that is mended can
be run again without all others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from gpu_parts import ENGINE, ON_THE_HOST, PARTS, ROOT, digest, sources_of, test_files

REPORT = ROOT / "ci" / "gpu-report.json"
RESULTS = ROOT / "benchmarks" / "results"

Report = dict[str, Any]


def new_report() -> Report:
    """A report about the present engine, on which nothing ran yet."""
    parts = {name: {"sources": sources_of(part), "files": {}} for name, part in PARTS.items()}
    return {"engine": digest(ENGINE), "parts": parts, "seconds": 0.0, "milliseconds": {}}


def old_report() -> Report:
    """The report that there is, without what is about other sources."""
    fresh = new_report()
    if not REPORT.exists():
        return fresh
    report: Report = json.loads(REPORT.read_text())
    if report.get("engine") != fresh["engine"]:
        return fresh
    for name, part in fresh["parts"].items():
        kept = report["parts"].get(name, {})
        files = kept.get("files", {}) if kept.get("sources") == part["sources"] else {}
        part["files"] = {
            file: found
            for file, found in files.items()
            if (ROOT / file).exists() and found["digest"] == digest([file])
        }
    return {**report, "parts": fresh["parts"]}


def missing(report: Report, name: str) -> list[str]:
    """The files of a part that failed, or did not run on the present sources."""
    known = report["parts"][name]["files"]
    return [f for f in test_files(PARTS[name]) if f not in known or known[f]["failed"]]


def run(report: Report, arguments: list[str]) -> int:
    """Run what is missing in a report, and write it whether the tests pass or not."""
    report["versions"] = versions()
    for name in PARTS:
        files, started = missing(report, name), time.perf_counter()
        if files:
            report["parts"][name]["files"].update(run_files(name, files, arguments))
            report["seconds"] = round(report["seconds"] + time.perf_counter() - started, 1)
            write(report)  # what ran stays known if the rest is stopped
    say(report)
    return int(any(missing(report, name) for name in PARTS))


def run_files(name: str, files: list[str], arguments: list[str]) -> dict[str, Any]:
    """Run tests of one part; return what was counted in each file, and the file's digest."""
    before = {file: digest([file]) for file in files}
    left_out = [f"--deselect={test}" for test in ON_THE_HOST]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ended = subprocess.run(
            [*command, f"--junitxml={results}", *files, *left_out, *arguments],
            cwd=ROOT,
            env={**os.environ, **PARTS[name].environment},
        ).returncode
        counts = count(results, files)
    if ended and not any(found["failed"] for found in counts.values()):
        for found in counts.values():
            found["failed"].append(f"pytest ended with {ended}")
    return {file: {"digest": before[file], **counts[file]} for file in files}


def count(results: Path, files: list[str]) -> dict[str, dict[str, Any]]:
    """How many tests ran in each file, and the names of those that did not pass."""
    counts: dict[str, dict[str, Any]] = {
        file: {"tests": 0, "skipped": 0, "failed": []} for file in files
    }
    # A class of tests comes after the module in a case's class name.
    modules = {file.removesuffix(".py").replace("/", "."): file for file in files}
    for case in ET.parse(results).getroot().iter("testcase"):
        name = case.get("classname") or case.get("name") or ""
        module = next(m for m in modules if f"{name}.".startswith(f"{m}."))
        found = counts[modules[module]]
        found["tests"] += 1
        found["skipped"] += case.find("skipped") is not None
        if case.find("failure") is not None or case.find("error") is not None:
            found["failed"].append(case.get("name"))
    return counts


def write(report: Report) -> None:
    text = json.dumps(report, indent=1, sort_keys=True) + "\n"
    REPORT.write_text(text)


def say(report: Report) -> None:
    """Print what ran in each part, and what did not pass."""
    for name, part in report["parts"].items():
        files = part["files"]
        total = sum(found["tests"] for found in files.values())
        print(f"{name}: {total} tests in {len(files)} files")
        for file, found in sorted(files.items()):
            for test in found["failed"]:
                print(f"  failed: {file}::{test}")


def add_benchmarks(options: list[str]) -> int:
    """Time all rows on the engine of the report and add the medians to it."""
    report = old_report()
    if not any(part["files"] for part in report["parts"].values()):
        print("The GPU report is about another engine: run the tests first.")
        return 1
    report["milliseconds"] = benchmark(options)
    write(report)
    say(report)
    return 0


def benchmark(options: list[str]) -> dict[str, dict[str, float | str]]:
    """Time all rows; keep the results file, and return the medians by row and library."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tapegrad", "bench", "--devices", "cuda"]
        running = subprocess.Popen([*command, *options, "--output", folder], cwd=ROOT)
        try:
            running.wait()
        except KeyboardInterrupt:
            running.wait()  # it was told as well, and writes what it has
        (written,) = Path(folder).glob("*.json")
        text = written.read_text()
    found = json.loads(text)
    name = versions()["device"].lower().replace(" ", "-")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text)
    rows: dict[str, dict[str, float | str]] = {}
    for cell in found["cells"]:
        time_taken = cell.get("median")
        value = cell["status"] if time_taken is None else round(1000 * time_taken, 4)
        # A row's own size comes first, then those that show how time grows.
        rows.setdefault(cell["workload"], {}).setdefault(f"{cell['library']} {cell['mode']}", value)
    return rows


def versions() -> dict[str, str]:
    """What the run stood on."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "cupy"):
        found[name] = importlib.import_module(name).__version__
    cupy = importlib.import_module("cupy")
    found["device"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found["cuda_runtime"] = str(cupy.cuda.runtime.runtimeGetVersion())
    found["cuda_driver"] = str(cupy.cuda.runtime.driverGetVersion())
    # Without one of these all runs too, but slower.
    return {**found, **dict(importlib.import_module("tapegrad_cupy.libraries").libraries())}


def check() -> int:
    """Say whether the committed report is about this tree and all its tests passed."""
    report = old_report()
    rest = [file for name in PARTS for file in missing(report, name)]
    say(report)
    if rest:
        print(f"{len(rest)} files failed or changed since: run `ci/gpu_report.py --rest` on a GPU.")
        print("\n".join(rest))
    return int(bool(rest))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the GPU tests and write the report")
    parser.add_argument("--rest", action="store_true", help="run what failed or changed since")
    parser.add_argument("--check", action="store_true", help="compare the report with the tree")
    parser.add_argument("--bench", action="store_true", help="add benchmarks to the report")
    options, rest = parser.parse_known_args()
    if options.run or options.rest:
        return run(new_report() if options.run else old_report(), rest)
    if options.bench:
        return add_benchmarks(rest)
    return check()


if __name__ == "__main__":
    raise SystemExit(main())
