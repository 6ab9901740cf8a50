"""Write docs/support.md: which systems, versions and GPUs tapegrad supports, and what was run.

    python ci/support_page.py            # write the page
    python ci/support_page.py --check    # fail if it differs from the records

The records are `ci/support.json` (see `ci/matrix.py` and `ci/kernel_architectures.py`),
`ci/gpu-report.json` and those of `ci/support_machines.py`; versions come from `pyproject.toml`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "ci"))

from support_machines import machines, where_tests_ran  # noqa: E402  # found by the line above

PAGE = ROOT / "docs" / "support.md"

GENERATIONS = {
    75: "Turing (T4, RTX 20)",
    80: "Ampere (A100)",
    86: "Ampere (A10, RTX 30)",
    89: "Ada (L4, RTX 40)",
    90: "Hopper (H100, H200)",
    100: "Blackwell (B100, B200)",
    120: "Blackwell (RTX 50)",
}

OPTIONAL = (
    ("a C compiler", "fused loops of `function` on the CPU", "calls run one by one, more slowly"),
    ("`cupy-cuda12x` or `cupy-cuda13x`", "GPUs", "everything runs on the CPU"),
    ("`ml_dtypes`", "bfloat16 on the CPU, and files with it", "there is no bfloat16"),
    ("`h5py`", "files of Keras in HDF5", "models are saved and loaded as `.keras` files"),
    ("`pillow`", "image files but PNG", "PNG files are read and written"),
    ("`rich`", "progress bars with colours", "bars of plain text"),
    ("`scipy`", "sparse direct solvers; functions without a gradient in `compat.autograd.scipy`",
     "these raise an error that names it"),
    ("`mpi4py`", "programs that `mpiexec` starts", "`tapegrad run` starts them"),
    ("`keras`", "real Keras on tapegrad", "`tapegrad.keras` is built in"),
)  # fmt: skip

SYSTEMS = (
    ("Linux, x86-64", "all tests in continuous integration", "see above"),
    ("Linux, arm64", "all tests, at earlier revisions; see below", "not run"),
    ("macOS, arm64", "not run; the workflow `matrix.yml` is for it", "no"),
    (
        "Windows, x86-64",
        "not run; compiled loops need a compiler that takes the options of GCC",
        "not run",
    ),
    ("browsers, with Pyodide", "not run; no package index has NumPy built for it", "no"),
)

HEAD = """# Support

`ci/support_page.py` writes this page from recorded runs; the figures are not edited by hand. A cell
that says "not run" is unknown: nothing is called supported because it ought to work.
"""

FALLBACKS = """Paths for one generation (asynchronous copies, clusters, reductions of Hopper) have a
fallback that is chosen when a kernel is compiled. Where it is missing, the kernel does
not compile."""

WITHOUT = """## Without optional parts

NumPy is the only package that must be there. Cells of the first table had no other one."""

NOT_VERIFIED = """## Not verified

The workflows in `.github` call the scripts in `ci` and nothing else. A test checks their form; they
have not run on GitHub."""


def page(record: dict[str, Any], project: dict[str, Any], gpu: str) -> str:
    """Return the text of the page."""
    extras = project["optional-dependencies"]
    python = (
        f"## Python and NumPy\n\nPython {project['requires-python']}, "
        f"{project['dependencies'][0]}. In each cell the wheel was built from the sdist and "
        "installed in a fresh environment, and a program, `tapegrad doctor` and the demo ran "
        "outside of the source tree (`bash ci/matrix.sh`)."
    )
    cupy = extras["cuda13"][0].partition(">=")[2]
    gpus = (
        f"## GPUs\n\nCuPy {cupy} or newer needs CUDA 12 or 13, and a driver of that CUDA version "
        "or newer. Kernels are compiled by NVRTC without a GPU "
        "(`python ci/kernel_architectures.py`); a share of the sources stands for all, except that "
        "`tests/house/compiled_kernels.json` records every source for 9.0. "
        f"Tests of the API, of models and of all functions ran on: {gpu}. No other GPU was used."
    )
    columns = ("compute capability", "generation", "compiled", "spilling registers", "failed")
    found = record.get("kernels", {})
    parts = [
        HEAD.rstrip(),
        python,
        table(("Python", "oldest NumPy", "newest NumPy"), matrix(record.get("matrix", {}))),
        gpus,
        table(columns, kernels(found)),
        FALLBACKS,
        failures(found),
        "## Systems",
        table(("system", "CPU", "CUDA"), SYSTEMS),
        WITHOUT,
        table(("part", "what it is for", "without it"), OPTIONAL),
        NOT_VERIFIED,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def matrix(cells: dict[str, Any]) -> list[list[str]]:
    """Return one row per version of Python."""
    versions = sorted({name.split()[0] for name in cells}, key=lambda v: int(v.split(".")[1]))
    return [
        [version, *(cell(cells.get(f"{version} {numpy}")) for numpy in ("oldest", "newest"))]
        for version in versions
    ]


def cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not run: there was no such Python"
    failed = [name for name, passed in found["results"].items() if not passed]
    how = f"failed: {', '.join(failed)}" if failed else "passed"
    return f"{how} (Python {found['python']}, NumPy {found['numpy']}, {found['date']})"


def kernels(found: dict[str, Any]) -> list[list[str]]:
    """Return one row per GPU generation."""
    rows = []
    for number, name in GENERATIONS.items():
        run = found.get(str(number))
        figures = ["not run", "", ""]
        if run is not None:
            share = f"one in {run['share']} of" if run["share"] > 1 else "all"
            figures = [
                f"{run['compiled']} ({share} {run['sources']:,} sources)",
                f"{run['spilling']}",
                f"{len(run['failed'])}",
            ]
        rows.append([f"{number // 10}.{number % 10}", name, *figures])
    return rows


def failures(found: dict[str, Any]) -> str:
    lines = [
        f"- {int(number) // 10}.{int(number) % 10}: {line}"
        for number, run in sorted(found.items(), key=lambda item: int(item[0]))
        for line in run["failed"]
    ]
    return "\n".join(["Kernels that do not compile:", "", *lines]) if lines else ""


def gpu_of(report: dict[str, Any]) -> str:
    """Return the GPUs on which tests ran, in words."""
    found = [
        f"{versions['device']} (driver for CUDA {cuda(versions['cuda_driver'])}, runtime of CUDA "
        f"{cuda(versions['cuda_runtime'])}, CuPy {versions['cupy']})"
        for versions in (run["versions"] for run in report["runs"])
    ]
    return ", ".join(dict.fromkeys(found)) or "no GPU"


def cuda(number: str) -> str:
    """Return a version of CUDA as people write it.

    >>> cuda("13020")
    '13.2'
    """
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def main(argv: list[str], path: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    options = parser.parse_args(argv)
    record = json.loads((ROOT / "ci" / "support.json").read_text("utf-8"))
    report = json.loads((ROOT / "ci" / "gpu-report.json").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = "\n".join([page(record, project, gpu_of(report)), where_tests_ran(), machines()])
    if options.check:
        if path.exists() and path.read_text("utf-8") == text:
            return 0
        print("docs/support.md is out of date. Run: python ci/support_page.py")
        return 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
