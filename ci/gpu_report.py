"""The record of a run on a GPU: what ran, on which sources, and how it ended.

python ci/gpu_report.py --run [pytest arguments]            run the GPU tests, write the report
python ci/gpu_report.py --again                             run what failed once more, alone
python ci/gpu_report.py --bench [tapegrad bench arguments]  add figures; results/ gets them all
python ci/gpu_report.py --check                             does the report still match the tree?
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "ci" / "gpu-report.json"
RESULTS = ROOT / "benchmarks" / "results"
SOURCES = (
    "backends",
    *(f"tapegrad/{part}" for part in ("core", "ops", "autodiff", "program", "optimizers")),
    "tests/gpu",
)


def digest(places: Sequence[str] = SOURCES) -> str:
    """One number for all sources that a part of the GPU run depends on."""
    total = hashlib.sha256()
    files = (path for place in places for path in (ROOT / place).rglob("*.py"))
    for path in sorted(files):
        total.update(str(path.relative_to(ROOT)).encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


# What users see, on the GPU: the same tests that run on NumPy. Of tests/api these are left out:
# test_optimizers (needs array_api_strict), and what is about the host, needs no device, or has GPU
# tests of its own (benchmarks, faces, nest, registry, transfers, interop).
TAPE_TESTS = tuple(
    f"tests/api/test_{name}.py"
    for name in (
        "awkward_points", "clipping", "custom_gradient", "custom_gradient_in_vmap",
        "custom_gradient_nested", "data_model", "dtype", "errors", "explain", "forward",
        "gradient", "gradient_paths", "guides", "inplace", "jacobian", "memory", "module",
        "neighbours", "numpy_protocol", "operator_turns", "optimizer_groups", "patterns",
        "random", "recompute", "tape_lifecycle", "tape_use", "tensor", "transforms", "tutorials",
        "variable", "vmap", "watch",
    )
) + tuple(
    f"tests/program/test_{name}.py"
    for name in (
        "control_flow_in_functions", "functions_and_tapes", "memory_budget", "recomputation",
        "recording",
    )
)  # fmt: skip
# Single tests that cannot hold on a GPU as they are written.
ON_THE_HOST = (
    # The rule in the test turns raw arrays into NumPy's.
    "tests/api/test_gradient_paths.py::test_G22_an_output_without_gradient_gets_zeros",
    # These count the bytes of the host.
    "tests/api/test_memory.py::test_L8_reset_releases_what_was_recorded",
    "tests/api/test_memory.py::test_L15_a_persistent_tape_keeps_everything_between_calls",
    "tests/api/test_memory.py::test_L17_the_sweep_frees_what_it_has_used",
    # CuPy loads ml_dtypes itself.
    "tests/api/test_dtype.py::test_bfloat16_is_loaded_when_its_name_is_asked_for",
    # NumPy imports no memory of a GPU.
    "tests/api/test_tensor.py::test_T1_dlpack_export",
)
LIBRARIES = {
    "tape": (("tests/api", "tests/program"), TAPE_TESTS),
    "training": (
        ("tapegrad/keras", "tapegrad/data", "examples"),
        ("tests/keras", "tests/data", "tests/examples"),
    ),
    "numpy": (("tapegrad/numpy",), ("tests/numpy",)),
    "scipy": (("tapegrad/numpy", "tapegrad/scipy"), ("tests/scipy",)),
    "autograd": (("tapegrad/numpy", "tapegrad/scipy", "tapegrad/compat"), ("tests/compat",)),
}
"""Tests that run on NumPy too, by what they are about, with sources besides the engine's, which may
change while the proof of the rest holds. They need array_api_strict."""


def run(arguments: list[str]) -> int:
    """Run the tests and write the report, whether they pass or not."""
    before = digest()
    started = time.perf_counter()
    # Every recorded sequence of launches is compared with the call that it was recorded from.
    ended, counts = run_tests(["tests/gpu", *arguments], TAPEGRAD_CHECK_REPLAYS="1")
    libraries = {name: run_library(name, arguments) for name in LIBRARIES}
    write({
        "digest": before,
        "tests": counts,
        "libraries": libraries,
        "seconds": round(time.perf_counter() - started, 1),
        "versions": versions(),
        "milliseconds": {},
    })  # fmt: skip
    return ended or any(part["failed"] for part in libraries.values())


def run_library(name: str, arguments: list[str]) -> dict[str, Any]:
    """Run the tests of one library on the GPU: what they counted, and on which sources."""
    sources, tests = LIBRARIES[name]
    before = digest(sources)
    left_out = [f"--deselect={name}" for name in ON_THE_HOST]
    ended, counts = run_tests([*tests, *left_out, *arguments], TAPEGRAD_DEVICE="cuda")
    if ended and not counts["failed"]:
        counts["failed"] = [f"pytest ended with {ended}"]
    return {"digest": before, **counts}


def run_libraries(names: list[str], arguments: list[str]) -> int:
    """Run the tests of some libraries again, on the engine that the report is about."""
    report = json.loads(REPORT.read_text())
    if report["digest"] != digest():
        print("The GPU report is about other sources: run the tests first.")
        return 1
    for name in names:
        report["libraries"][name] = run_library(name, arguments)
    write(report)
    return int(any(report["libraries"][name]["failed"] for name in names))


def write(report: dict[str, Any]) -> None:
    text = json.dumps(report, indent=2, sort_keys=True) + "\n"
    REPORT.write_text(text)
    print(text)


def add_benchmarks(options: list[str]) -> int:
    """Time all rows on the sources of the report and add the medians to it."""
    report = json.loads(REPORT.read_text())
    if report["digest"] != digest():
        print("The GPU report is about other sources: run the tests first.")
        return 1
    report["milliseconds"] = benchmark(options)
    write(report)
    return 0


def run_again() -> int:
    """Run the tests that failed once more, alone, and say in the report how that ended.

    A test that passes alone depends on what ran before it. That is a defect of the test, and stays
    in the report until a whole run passes.
    """
    report = json.loads(REPORT.read_text())
    if report["digest"] != digest():
        print("The GPU report is about other sources: run the tests first.")
        return 1
    failed = report["tests"]["failed"]
    names = [f"{name.partition('::')[0].replace('.', '/')}.py::{name.partition('::')[2]}"
             for name in failed]  # fmt: skip
    ended, counts = run_tests(names, TAPEGRAD_CHECK_REPLAYS="1") if names else (0, {"failed": []})
    still = set(counts["failed"])
    report["passed_only_alone"] = sorted(name for name in failed if name not in still)
    write(report)
    return ended


def run_tests(arguments: list[str], **environment: str) -> tuple[int, dict[str, Any]]:
    """Run pytest; return its exit code and what it counted."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ended = subprocess.run(
            [*command, f"--junitxml={results}", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
        )
        return ended.returncode, count(results)


def benchmark(options: list[str]) -> dict[str, dict[str, float | str]]:
    """Time all rows; keep the results file, and return the medians by row and library."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tapegrad", "bench", "--devices", "cuda"]
        subprocess.run([*command, *options, "--output", folder], cwd=ROOT)
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
    parts = [report["tests"], *report["libraries"].values()]
    failed = [name for part in parts for name in part["failed"]]
    total = sum(part["tests"] for part in parts)
    print(f"The GPU report matches this tree: {total} tests, {len(failed)} failed.")
    for name, (sources, _) in LIBRARIES.items():
        if report["libraries"][name]["digest"] != digest(sources):
            print(f"But {', '.join(sources)} changed since the tests of {name} ran there.")
    for name in report.get("passed_only_alone", []):
        print(f"It failed in the whole run and passed alone: {name}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the GPU tests and write the report")
    parser.add_argument("--check", action="store_true", help="compare the report with the tree")
    parser.add_argument(
        "--library", action="append", choices=LIBRARIES, help="run the tests of this one again"
    )
    parser.add_argument("--again", action="store_true", help="run what failed once more, alone")
    parser.add_argument("--bench", action="store_true", help="add benchmarks to the report")
    options, rest = parser.parse_known_args()
    if options.run:
        return run(rest)
    if options.library:
        return run_libraries(options.library, rest)
    if options.again:
        return run_again()
    if options.bench:
        return add_benchmarks(rest)
    return check()


if __name__ == "__main__":
    raise SystemExit(main())
