"""Sections of docs/support.md: where tests and benchmarks ran, from their records."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def where_tests_ran() -> str:
    """The runs of tests that are recorded, by device."""
    rows = []
    cpu = json.loads((ROOT / "ci" / "cpu-samples.json").read_text(encoding="utf-8"))
    gpu = json.loads((ROOT / "ci" / "gpu-report.json").read_text(encoding="utf-8"))
    for report, device in ((cpu, "CPU"), (gpu, None)):
        for found, files in _environments(report).items():
            versions = dict(found)
            shown = [f"{name} {versions[name]}" for name in NAMES if name in versions]
            counts = [report["files"][file].get("executed", 0) for file in files]
            failed = sum(len(report["files"][file].get("failed", ())) for file in files)
            place = device or versions.get("device", "GPU")
            rows.append((place, ", ".join(shown), str(len(files)), f"{sum(counts):,}", str(failed)))
    head = ("device", "versions", "test files", "tests run", "failed")
    text = (
        "## Where tests ran\n\nEach test file is counted where it ran last; the sources may have "
        "changed since. [Every function](functions.md) says what holds for the present ones.\n\n"
    )
    return text + _table(head, rows)


NAMES = ("python", "numpy", "scipy", "cupy", "cuda_runtime", "cuda_driver")


def _environments(report: dict[str, Any]) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Group the files of a report by the versions with which they ran."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file, entry in report["files"].items():
        versions = report["runs"][entry["run"]]["versions"]
        kept = tuple((n, versions[n]) for n in ("device", *NAMES) if n in versions)
        found.setdefault(kept, []).append(file)
    return found


def machines() -> str:
    """The machines of all records: benchmarks and reliability."""
    found: Counter[str] = Counter()
    for file in sorted(RESULTS.glob("*.json")):
        machine = json.loads(file.read_text(encoding="utf-8"))["machine"]
        gpu = f", {machine['gpu']}" if machine["gpu"] else ""
        found[f"{machine['os'].split()[0]} {machine['os'].split()[-1]}, {machine['cpu']}{gpu}"] += 1
    rows = [(machine, "benchmarks") for machine in found]
    records = json.loads((ROOT / "ci" / "reliability.json").read_text(encoding="utf-8"))
    machines = sorted({record["machine"] for record in records.values() if "machine" in record})
    rows += [(machine, "[reliability](reliability.md)") for machine in machines]
    text = "## Machines\n\nAll records are from Linux. CUDA sources are compiled without a GPU for "
    text += f"the compute capabilities {_capabilities()}; macOS and Windows have no record.\n\n"
    return text + _table(("machine", "record"), rows)


def _capabilities() -> str:
    text = (ROOT / "tests" / "house" / "kernel_record.py").read_text(encoding="utf-8")
    found = re.search(r"ARCHITECTURES = \{([^}]*)\}", text)
    numbers = re.findall(r"(\d+)(\d):", found[1]) if found else []
    return ", ".join(f"{major}.{minor}" for major, minor in numbers)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, [":--"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
