"""The record of runs on a GPU: what ran, on which sources, and how it ended.

python ci/gpu_report.py --run [files]     run all GPU tests, or these files, whatever is recorded
python ci/gpu_report.py --rest [files]    run what is not proven on this tree
python ci/gpu_report.py --check           print what is not proven on this tree
python ci/gpu_report.py --bench [tapegrad bench arguments]    time all rows; keep the results file

A file is proven if all of its tests passed on the sources that it reads now. The report is written
after every file. `--budget SECONDS` stops starting files after that time, and `--rest` continues.
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
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import evidence
from evidence import ROOT, Entry, Run, current_commit
from gpu_parts import ON_THE_HOST, PARTS, files_of, jobs, other_files
from run_tests import Job, Runner, refusal, workers_for

REPORT = ROOT / "ci" / "gpu-report.json"
RESULTS = ROOT / "benchmarks" / "results"
LOGS = ROOT / ".cache" / "gpu-logs"
COMPARED = ("python", "numpy", "cupy", "device", "cuda_runtime", "cuda_driver")
"""Versions that make a file run again where another one is installed."""

SHOWN = 12
"""How many lines about files that are not proven a summary prints."""


def unproven(
    entries: Mapping[str, Entry], wanted: Mapping[str, Job], here: Mapping[str, str]
) -> dict[str, str]:
    """Return the files that have to run, each with the reason.

    `here` holds the versions on this machine, or nothing where there is no GPU to run on.
    """
    tree, reasons = evidence.read_tree(ROOT), {}
    for file, job in wanted.items():
        entry = entries.get(file)
        if entry is None:
            reasons[file] = "did not run"
            continue
        reason = entry.problem() or entry.stale(tree, job.environment) or _versions(entry, here)
        if reason is not None:
            reasons[file] = reason
    return reasons


def _versions(entry: Entry, here: Mapping[str, str]) -> str | None:
    there = entry.run.versions
    names = [name for name in COMPARED if name in here and there.get(name) != here[name]]
    other = [f"{name} {there.get(name)} became {here[name]}" for name in names]
    return ", ".join(other) or None


def run(files: Sequence[str], entries: dict[str, Entry], options: argparse.Namespace) -> int:
    """Run test files, the longest first, and write the report after each of them."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    stamp = Run(options.commit or current_commit(ROOT), date, versions())
    wanted, started = jobs(ROOT), time.monotonic()
    # Files that are started last should be short: the run ends when the last of them does.
    order = sorted(files, key=lambda file: -_expected_seconds(entries.get(file)))
    todo = [
        wanted[f]._replace(workers=workers_for(_expected_seconds(entries.get(f)))) for f in order
    ]
    runner = Runner(ROOT, stamp, options.logs, options.pytest, options.jobs)

    def done(file: str, entry: Entry) -> None:
        entries[file] = entry
        write(entries)
        print(f"{entry.problem() or 'passed'}: {file}, {entry.executed} tests", flush=True)

    not_started = runner.run_all(todo, done, started + options.budget)
    print(f"{len(files) - len(not_started)} files in {time.monotonic() - started:.0f} s")
    for file in not_started:
        entries.setdefault(file, Entry(stamp, {}))
    return check(entries, versions())


def _expected_seconds(entry: Entry | None) -> float:
    if entry is None:
        return 30.0
    return entry.seconds or 0.05 * entry.collected


def write(entries: Mapping[str, Entry]) -> None:
    left_out = {"tests": list(ON_THE_HOST), "files": other_files(ROOT)}
    evidence.save(REPORT, entries, {"left_out": left_out})


def load() -> dict[str, Entry]:
    """Return the report, without files that are no longer part of it."""
    known = jobs(ROOT)
    return {file: entry for file, entry in evidence.load(REPORT).items() if file in known}


def check(entries: Mapping[str, Entry], here: Mapping[str, str], everything: bool = False) -> int:
    """Print what is proven on this tree and what is not; return 1 if something is not."""
    wanted = jobs(ROOT)
    reasons = unproven(entries, wanted, here)
    for name, part in PARTS.items():
        files = files_of(part, ROOT)
        proven = [file for file in files if file not in reasons]
        tests = sum(entries[file].executed for file in proven)
        skipped = sum(entries[file].skipped for file in proven)
        note = f", {skipped} skipped" if skipped else ""
        print(
            f"{name}: {len(proven)} of {len(files)} files are proven on a GPU, {tests} tests{note}"
        )
    print(f"Not run on a GPU: {len(other_files(ROOT))} files and {len(ON_THE_HOST)} single tests.")
    if reasons:
        _explain(reasons, entries, everything)
    return int(bool(reasons))


def _explain(reasons: Mapping[str, str], entries: Mapping[str, Entry], everything: bool) -> None:
    print(f"{len(reasons)} files are not proven. On a GPU run: python ci/gpu_report.py --rest")
    alike = defaultdict(list)
    for file, reason in reasons.items():
        alike[(not _failures(entries.get(file)), reason)].append(file)
    lines = []
    for (_, reason), files in sorted(alike.items()):  # failures come first
        names = ", ".join(files) if everything else files[0]
        more = f" and {len(files) - 1} more" if len(files) > 1 and not everything else ""
        lines.append(f"  {names}{more}: {reason}")
        lines += [f"    failed: {test}" for file in files for test in _failures(entries.get(file))]
    most = len(lines) if everything else SHOWN
    print("\n".join(lines[:most]))
    if len(lines) > most:
        print(f"  and {len(lines) - most} lines more (--all prints them)")


def _failures(entry: Entry | None) -> tuple[str, ...]:
    return entry.failed if entry is not None else ()


def versions() -> dict[str, str]:
    """Return what a run stands on; nothing on a machine without a CUDA device."""
    try:
        cupy = importlib.import_module("cupy")
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except Exception:  # ImportError without CuPy, its own error without a driver or a device
        return {}
    numpy = importlib.import_module("numpy")
    runtime = cupy.cuda.runtime
    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "cupy": cupy.__version__,
        "device": name,
        "cuda_runtime": str(runtime.runtimeGetVersion()),
        "cuda_driver": str(runtime.driverGetVersion()),
        **_libraries(),
    }


def _libraries() -> dict[str, str]:
    """What `tapegrad info` says about libraries without which all runs too, but otherwise."""
    paths = [str(ROOT), str(ROOT / "backends"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    command = [sys.executable, "-m", "tapegrad", "info"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in ended.stdout.splitlines()]
    return {row[0]: row[1] for row in rows if row and row[0] in ("cuBLASLt", "cuDNN")}


def benchmark(options: list[str]) -> int:
    """Time all rows and keep the results file, named after the device."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tapegrad", "bench", "--devices", "cuda"]
        running = subprocess.Popen([*command, *options, "--output", folder], cwd=ROOT)
        try:
            ended = running.wait()
        except KeyboardInterrupt:
            ended = running.wait()  # it received the signal too, and writes what it has
        (written,) = Path(folder).glob("*.json")
        text = written.read_text(encoding="utf-8")
    name = json.loads(text)["machine"]["gpu"].lower().replace(" ", "-")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    return ended


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--bench"]:
        return benchmark(arguments[1:])
    options, rest = _parser().parse_known_args(arguments)
    files = [argument for argument in rest if not argument.startswith("-")]
    options.pytest = [argument for argument in rest if argument.startswith("-")]
    if not options.run and not options.rest:
        options.pytest, sentence = [], rest and f"--check takes no {rest[0]!r}."
    else:
        sentence = refusal(options.pytest) or _unknown(files)
    if sentence:
        print(f"gpu_report: {sentence}", file=sys.stderr)
        return 2
    entries = load()
    if not options.run and not options.rest:
        return check(entries, versions(), options.all)
    chosen = [file for file in jobs(ROOT) if not files or _is_chosen(file, files)]
    if options.rest:
        reasons = unproven(entries, jobs(ROOT), versions())
        return run([file for file in chosen if file in reasons], entries, options)
    for file in chosen:  # only its duration counts until it has run again
        if file in entries:
            entries[file] = replace(entries[file], sources={}, collected=0, executed=0)
    return run(chosen, entries, options)


def _unknown(files: Sequence[str]) -> str | None:
    for name in files:
        if "::" in name or not any(_is_chosen(file, [name]) for file in jobs(ROOT)):
            return f"{name!r} is not a file or folder of tests that run on a GPU (ci/gpu_parts.py)."
    return None


def _is_chosen(file: str, names: Sequence[str]) -> bool:
    return any(file == name or file.startswith(f"{name.rstrip('/')}/") for name in names)


def _parser() -> argparse.ArgumentParser:
    text = {"description": __doc__, "formatter_class": argparse.RawDescriptionHelpFormatter}
    # Abbreviations would let `--co` mean `--commit`, and hide from pytest's own.
    parser = argparse.ArgumentParser(usage="gpu_report.py", allow_abbrev=False, **text)
    action = parser.add_mutually_exclusive_group()
    for name in ("run", "rest", "check"):
        action.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--all", action="store_true", help="list every file that is not proven")
    parser.add_argument("--jobs", type=int, default=min(10, os.cpu_count() or 1), metavar="N",
                        help="test processes at once (default: %(default)s)")  # fmt: skip
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS",
                        help="start no file after this time")  # fmt: skip
    parser.add_argument("--commit", help="the revision, where there is no git history")
    parser.add_argument("--logs", type=Path, default=LOGS, help="folder for the logs")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
