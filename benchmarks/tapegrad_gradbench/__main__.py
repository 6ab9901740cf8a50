"""Run evaluations of a checkout of GradBench with several tools, one process at a time."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tapegrad_bench.machine import describe_machine
from tapegrad_bench.provenance import current_commit
from tapegrad_gradbench.evaluations import NAMES
from tapegrad_gradbench.record import Record, add, empty, load, save
from tapegrad_gradbench.session import OURS, Run, Suite


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 if an output of tapegrad was wrong or missing."""
    given = parser().parse_args(arguments)
    suite = Suite(given.suite.resolve(), dict(given.python), given.cpu, given.limit)
    record = load(given.record) if given.record.exists() else empty()
    record |= facts(given.suite, given.tools, suite, given.remark)
    given_arguments: Mapping[str, list[str]] = {
        name: shlex.split(words) for name, words in given.arguments
    }
    failures = 0
    for name in given.evaluations:
        failures += compare(suite, record, name, given, given_arguments.get(name, []))
        save(record, given.record)
    return 1 if failures else 0


def compare(
    suite: Suite, record: Record, name: str, given: argparse.Namespace, more: Sequence[str]
) -> int:
    """Run one evaluation with all tools in turn, several times; return 1 if ours failed."""
    timed = ["--min-seconds", str(given.seconds), "--min-runs", str(given.runs)]
    words = [*([] if name == "hello" else timed), *more]
    if not given.add:
        record["evaluations"].pop(name, None)
    ours = Run()
    left_out: set[str] = set()
    for _ in range(given.rounds):
        for tool in given.tools:
            if tool in left_out:
                continue
            run = suite.run(name, tool, words)
            add(record, name, tool, run)
            if run.problem:
                left_out.add(tool)
            print(f"{name} with {tool}: {run.problem or 'done'}", flush=True)
            ours = run if tool == OURS else ours
    record["evaluations"][name]["arguments"] = list(more)
    return 1 if ours.problem else 0


def facts(path: Path, tools: Sequence[str], suite: Suite, remark: str) -> Record:
    """Return what a reader of the times has to know."""
    revision = ["git", "-C", str(path), "rev-parse", "--short=12", "HEAD"]
    suite_revision = subprocess.run(revision, capture_output=True, text=True, check=False).stdout
    versions = {OURS: current_commit()}
    for tool in tools:
        library = {"pytorch": "torch"}.get(tool, tool)
        program = f"from importlib.metadata import version; print(version({library!r}))"
        command = [suite.python(tool), "-c", program]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        if found and tool != OURS:
            versions[tool] = found
    return {
        "suite": suite_revision.strip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {k: v for k, v in asdict(describe_machine(1, None)).items() if v is not None},
        "versions": versions,
        "remark": remark,
    }


def named(text: str) -> tuple[str, str]:
    """Return both sides of NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m tapegrad_gradbench", description=__doc__)
    found.add_argument("--suite", type=Path, required=True, help="a checkout of GradBench")
    found.add_argument("--tools", nargs="+", default=[OURS])
    found.add_argument("--evaluations", nargs="+", choices=NAMES, default=list(NAMES))
    found.add_argument("--record", type=Path, default=Path("gradbench.json"))
    found.add_argument("--add", action="store_true", help="keep the times of earlier commands")
    found.add_argument("--rounds", type=int, default=2, help="how often each tool has its turn")
    found.add_argument("--seconds", type=float, default=1.0, help="for each workload and function")
    found.add_argument("--runs", type=int, default=5, help="at least so many runs of each function")
    found.add_argument("--limit", type=float, default=120.0, help="seconds for one answer")
    found.add_argument("--cpu", type=int, default=0, help="the core that tools run on")
    found.add_argument("--remark", default="", help="what a reader of the record has to know")
    found.add_argument(
        "--python", type=named, action="append", default=[], metavar="TOOL=PATH",
        help="the interpreter of a tool, or of the evaluations (eval=PATH)",
    )  # fmt: skip
    found.add_argument(
        "--arguments", type=named, action="append", default=[], metavar="EVALUATION=WORDS",
        help="arguments of an evaluation, such as 'ht=--max 5'",
    )  # fmt: skip
    return found


if __name__ == "__main__":
    sys.exit(main())
