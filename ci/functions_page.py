"""docs/functions.md: what each function can do, written from the table of samples.

python ci/functions_page.py            write the page
python ci/functions_page.py --record   first run the sample tests on NumPy and record how they end
python ci/functions_page.py --check    fail if the page says anything that the records do not

The columns NumPy and CUDA come from recorded runs: ci/cpu-samples.json and ci/gpu-report.json.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import evidence
from evidence import ROOT, Entry, Run, Tree, current_commit
from run_tests import Job, Runner

from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples

PAGE = ROOT / "docs" / "functions.md"
CPU_RECORD = ROOT / "ci" / "cpu-samples.json"
GPU_RECORD = ROOT / "ci" / "gpu-report.json"
ON_THE_CPU = ("tests/rules/test_samples.py", "tests/program/test_programs_equal_eager.py")
ON_A_GPU = ("tests/gpu/test_samples_on_cuda.py", "tests/gpu/test_programs_on_cuda.py")
"""The first of each runs all samples, the second those that can be recorded."""

PLACES = ("", "math", "nn", "linalg", "signal", "image", "special", "random", "numpy",
          "numpy.linalg", "numpy.fft", "bitwise", "losses", "scipy.special", "scipy.linalg",
          "scipy.signal")  # fmt: skip
"""Where users find functions; the first that has a name is the one that is shown."""

HEAD = """# Functions

`python ci/functions_page.py` writes this page from the table of samples
(`tapegrad/testing/samples/`). Each row of that table is one call of a function. The tests compare
the values of each row with those of NumPy or SciPy, both derivatives and the second order with
finite differences in double precision, batches with a loop, and the recorded program with eager
mode.

- **rows**: calls in the table.
- **VJP**, **JVP**: whether the function is differentiable, in reverse and forward mode; functions
  of integers, of order or of chance are not. **order**: the highest order that the rows check.
- **batched**: whether `vmap` takes it, with the values and derivatives of a loop over the batch.
- **NumPy**, **CUDA**: "yes" if all tests of its rows passed in the recorded run named below, "no"
  if one failed. "Not seen since revision X" means that they passed at X and that the sources
  changed afterwards. "Not seen" means that no recorded run has all of its rows.
- **recorded**: whether it can be part of a `function`; "reads values" if the shape of its result
  depends on values, so that the `function` runs eagerly.
"""


@dataclass(frozen=True)
class Evidence:
    """What recorded runs say about samples on one device."""

    entries: tuple[Entry, ...]
    """Of the test files, the one that runs all samples first; none if it was not recorded."""
    tree: Tree | None
    """The present sources, or None to take the records as if nothing had changed since."""

    def cell(self, names: Sequence[str]) -> str:
        """Return what is known about the samples of one function."""
        found = [(entry, entry.samples[n]) for entry in self.entries for n in names
                 if n in entry.samples]  # fmt: skip
        if not all(passed for _, passed in found):
            return "no"
        if not self.entries or any(name not in self.entries[0].samples for name in names):
            return "not seen"
        stale = sorted({entry.run.commit for entry, _ in found if self._is_stale(entry)})
        return f"not seen since revision {', '.join(stale)}" if stale else "yes"

    def _is_stale(self, entry: Entry) -> bool:
        return not entry.sources or (self.tree is not None and entry.stale(self.tree) is not None)

    def sentence(self, device: str) -> str:
        """Return when and where the runs took place."""
        if not self.entries:
            return f"- {device}: no run is recorded."
        runs = {(e.run.commit, e.run.date[:10], _versions_line(e.run)): None for e in self.entries}
        told = [f"revision {commit} on {date} ({what})" for commit, date, what in runs]
        return f"- {device}: {'; '.join(told)}."


def _versions_line(run: Run) -> str:
    names = ("device", "python", "numpy", "cupy")
    return ", ".join(f"{n} {run.versions[n]}" for n in names if n in run.versions)


def read_evidence(record: Path, files: Sequence[str], tree: Tree | None) -> Evidence:
    """Return what a record holds about test files."""
    entries = evidence.load(record)
    known = [entries[file] for file in files if file in entries]
    return Evidence(tuple(known) if files[0] in entries else (), tree)


def page(tree: Tree | None) -> str:
    """Return the text of the page; see `Evidence` for `tree`."""
    numpy = read_evidence(CPU_RECORD, ON_THE_CPU, tree)
    cuda = read_evidence(GPU_RECORD, ON_A_GPU, tree)
    rows: dict[str, list[Sample]] = defaultdict(list)
    for sample in all_samples():
        rows[sample.name.partition("-")[0]].append(sample)
    shown = {name: _spelling(name) for name in rows}
    public = sorted((place, name) for name, place in shown.items() if place)
    inner = sorted(name for name, place in shown.items() if not place)
    differentiable = sum(any(s.differentiable for s in rows[name]) for _, name in public)
    lines = [HEAD, "Recorded runs:\n", numpy.sentence("NumPy"), cuda.sentence("CUDA")]
    lines += [f"\n{len(public)} functions, {differentiable} of them differentiable.\n"]
    lines += _table([(f"`{place}`", rows[name]) for place, name in public], numpy, cuda)
    lines += ["\n## Primitives that users do not call\n", "Functions above are made of these.\n"]
    lines += _table([(f"`{name}`", rows[name]) for name in inner], numpy, cuda)
    return "\n".join(lines) + "\n"


def _table(
    entries: Sequence[tuple[str, list[Sample]]], numpy: Evidence, cuda: Evidence
) -> Iterator[str]:
    yield "| function | rows | VJP | JVP | order | batched | NumPy | CUDA | recorded |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, samples in entries:
        orders = [s.order for s in samples if s.differentiable]
        names = [s.name for s in samples]
        is_differentiable = _yes(bool(orders))
        cells = [name, str(len(samples)), is_differentiable, is_differentiable]
        cells += [str(max(orders, default=0)), _yes(all(s.batches for s in samples))]
        cells += [numpy.cell(names), cuda.cell(names), _recorded(samples)]
        yield f"| {' | '.join(cells)} |"


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"


def _spelling(name: str) -> str | None:
    """Where users find a function; None for those that they do not call."""
    for place in PLACES:
        module = importlib.import_module(f"tapegrad.{place}" if place else "tapegrad")
        if callable(getattr(module, name, None)):
            return f"tapegrad.{place}.{name}" if place else f"tapegrad.{name}"
    return None


def _recorded(samples: list[Sample]) -> str:
    return "yes" if all(s.records for s in samples) else "reads values"


def record(jobs: int) -> int:
    """Run the sample tests on NumPy, `jobs` processes at once, and write how they ended."""
    libraries = {name: version(name) for name in ("numpy", "scipy", "ml_dtypes")}
    versions = {"python": platform.python_version(), **libraries}
    date = datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(current_commit(ROOT), date, versions)
    runner = Runner(ROOT, run, ROOT / ".cache" / "cpu-logs", slots=jobs)
    found: dict[str, Entry] = {}
    on_cpu = {"TAPEGRAD_DEVICE": "cpu", "TAPEGRAD_LONG": "1"}
    runner.run_all([Job(file, on_cpu, workers=jobs) for file in ON_THE_CPU], found.__setitem__)
    evidence.save(CPU_RECORD, found)
    problems = {file: entry.problem() for file, entry in found.items()}
    for file, entry in found.items():
        print(f"{file}: {problems[file] or f'{entry.executed} tests passed'}")
        print("".join(f"  failed: {test}\n" for test in entry.failed), end="")
    return int(any(problems.values()))


def check() -> int:
    """Compare the page with the records, as of their runs or as of now; both are true."""
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    now = page(evidence.read_tree(ROOT))
    if written not in (now, page(None)):
        print("docs/functions.md is out of date. Run: python ci/functions_page.py")
        return 1
    stale = sum("not seen" in line for line in now.splitlines() if line.startswith("| `"))
    print(f"docs/functions.md agrees with the records, which lack {stale} rows on these sources.")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the page with the records")
    parser.add_argument("--record", action="store_true", help="run the sample tests on NumPy first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
                        help="test processes at once (default: %(default)s)")  # fmt: skip
    options = parser.parse_args(argv)
    if options.check:
        return check()
    failed = record(options.jobs) if options.record else 0
    PAGE.write_text(page(evidence.read_tree(ROOT)), encoding="utf-8")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
