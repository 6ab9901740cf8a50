"""docs/performance.md and docs/support.md, written from records.

python ci/pages/figures.py            write both pages
python ci/pages/figures.py --check    say whether they are up to date
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from tapegrad_bench.report_markdown import markdown_table  # noqa: E402
from tapegrad_bench.results import Run, load  # noqa: E402
from tapegrad_bench.rows import devices_of, standard_rows  # noqa: E402
from tapegrad_bench.tables import best_table, machine_table, time_table  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"

PERFORMANCE = """# Performance

`python ci/pages/figures.py` writes this page from `benchmarks/results`; the figures are not edited
by hand. A time is the median of one whole step. All contenders of a table ran on the same machine
in the same run, and their results were checked against each other first.
[Benchmarks](../benchmarks/README.md) says how, has all tables, and names what was absent or failed.
[Benchmarking](benchmarking.md) shows how to measure a program.
"""

SUPPORT = """# Support

`python ci/pages/figures.py` writes this page from `pyproject.toml` and records of test runs. It
says what an installation may consist of, and where the tests were seen to pass. What no record
shows may work, but is not verified.
"""


def performance(folder: Path = RESULTS) -> str:
    """Return the page on performance: the main tables of each recorded run."""
    parts = [_run_section(load(file)) for file in sorted(folder.glob("*.json"))]
    return "\n".join([PERFORMANCE, *parts])


def _run_section(run: Run) -> str:
    tables = [machine_table(run)]
    for device in devices_of(run):
        rows = standard_rows(run, device)
        tables += [time_table(rows, device), best_table(rows, device)]
    shown = "\n".join(markdown_table(table) for table in tables if table.rows)
    heading = f"## {run.machine.gpu or run.machine.cpu}\n"
    facts = f"Measured at revision {run.commit}, {run.started[:10]}, with {run.inputs}.\n"
    return "\n".join([heading, facts, re.sub(r"^#### ", "### ", shown, flags=re.MULTILINE)])


def support() -> str:
    """Return the page on support."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return "\n".join([SUPPORT, _required(project), _optional(project), _seen(), _systems()])


def _required(project: dict[str, Any]) -> str:
    versions = [name.rpartition(" ")[2] for name in project["classifiers"]
                if re.search(r"Python :: 3\.\d+", name)]  # fmt: skip
    rows = [("Python", f"`{project['requires-python']}`", ", ".join(versions))]
    rows += [(name, f"`{bound}`", "") for name, bound in map(_split, project["dependencies"])]
    return "## What is required\n\n" + _table(("", "versions", "declared"), rows)


def _optional(project: dict[str, Any]) -> str:
    rows = []
    for extra, wanted in project["optional-dependencies"].items():
        if extra not in ("dev", "docs"):
            packages = ", ".join(f"`{requirement}`" for requirement in wanted)
            rows.append((f"`{extra}`", packages, EXTRAS.get(extra, "")))
    return "## What is optional\n\n" + _table(("extra", "packages", "what for"), rows)


EXTRAS = {
    "cuda12": "GPUs with a driver for CUDA 12",
    "cuda13": "GPUs with a driver for CUDA 13",
    "keras": "real Keras with `KERAS_BACKEND=tapegrad`",
    "progress": "progress bars in a terminal",
}


def _seen() -> str:
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
    )
    text += (
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


def _systems() -> str:
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


def _split(requirement: str) -> tuple[str, str]:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return name[0], requirement[name.end() :]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, [":--"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


PAGES = {"performance.md": performance, "support.md": support}


def main(argv: Sequence[str], folder: Path = ROOT / "docs") -> int:
    """Write or check the pages; return 1 if the check finds one out of date."""
    stale = 0
    for name, make in PAGES.items():
        file = folder / name
        fresh = make()
        if list(argv) != ["--check"]:
            file.write_text(fresh, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != fresh:
            print(f"docs/{name} is out of date. Run: python ci/pages/figures.py")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
