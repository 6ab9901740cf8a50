"""Mutation score: put small faults into the product and count those that the tests notice.

    python -m tests.mutation.run --seed 1 --count 500
    python -m tests.mutation.run --seed 1 --count 500 --seconds 3600    # and go on another time
    python -m tests.mutation.run --seed 1 --count 500 --again           # judge the survivors anew
    python -m tests.mutation.run --again --tests tests/api/test_new.py  # with a test file first

First all tests run once in a copy of the tree whose expressions report themselves; so it is known
which tests run which mutant. Then each mutant is put into another copy, and the tests that run it
judge it, the quickest first. `ci/mutants.json` has the verdicts. A mutant that is in it is not
judged again, so a run that was stopped goes on where it ended.

A tenth of Keras' own tests judges the mutants of its backend, if `--keras` names a Python that has
Keras (ci/keras.sh makes one); otherwise they are left out.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation import record
from tests.mutation.judge import Judge, Verdict
from tests.mutation.mutants import Mutant, chosen, packages
from tests.mutation.probes import Coverage, Probes
from tests.mutation.suites import Suite, judges, keras, project

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "ci" / "mutants.json"

PROBED = 1200
"""How many mutants of a seed the run that finds the tests looks at."""


def covered(work: Path, suite: Suite, seed: int, processes: int) -> tuple[Probes, Coverage]:
    """Return which tests run which mutants of a seed; `work` keeps it for another run."""
    tree, hits, done = work / "probed", work / "hits", work / "probes.json"
    if not done.exists():
        mutants = [mutant for _, mutant in chosen(ROOT, seed)[:PROBED]]
        files = [str(path.relative_to(ROOT)) for paths in packages(ROOT).values() for path in paths]
        probes = Probes.of(mutants, files, ROOT)
        probes.write(mutants, ROOT, tree)
        hits.mkdir(parents=True, exist_ok=True)
        parallel = ["-n", str(processes)] if processes > 1 else ["-p", "no:xdist"]
        subprocess.run(
            suite.command("-p", "sitecustomize", *parallel, *suite.tests),
            cwd=suite.place(tree),
            env={**suite.environment(tree, work / "cache", seed), "MUTATION_HITS": str(hits)},
            stdout=sys.stderr,
            check=False,
        )
        probes.save(done)
    return Probes.load(done), Coverage.read(hits)


def judged(
    mutants: Sequence[tuple[str, Mutant]], work: Path, suite: Suite, seed: int,
    processes: int, first: Sequence[str], is_quick: bool,
) -> Iterator[record.Row]:  # fmt: skip
    """Judge mutants of a seed, with the tests `first` before those that run a mutant."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "cache").mkdir(exist_ok=True)
    probes, coverage = covered(work, suite, seed, processes)
    seconds = {**dict.fromkeys(first, 0.0), **coverage.seconds}
    tests = {m.name: [*first, *probes.tests_of(m, coverage)] for _, m in mutants}
    packages_of = {mutant.name: package for package, mutant in mutants}

    def row(mutant: Mutant, found: Verdict) -> record.Row:
        return record.Row(
            name=mutant.name, package=packages_of[mutant.name], line=mutant.line, seed=seed,
            verdict=found.kind, by=found.by, tests=found.tests, seconds=found.seconds,
        )  # fmt: skip

    with tempfile.TemporaryDirectory(dir=work) as folder:
        judge = Judge(ROOT, Path(folder), work / "cache", suite, seed)
        caught = set()
        for mutant, found in judge.quick([(m, tests[m.name]) for _, m in mutants], coverage):
            caught.add(mutant.name)
            yield row(mutant, found)
        for mutant in [mutant for _, mutant in mutants if mutant.name not in caught]:
            if is_quick:
                yield row(mutant, Verdict("left", "", 0, 0.0))
            else:
                yield row(mutant, judge.judge(mutant, tests[mutant.name], seconds))


def main(arguments: list[str] | None = None) -> int:
    """Judge as the arguments say, and print the counts of the record."""
    parser = argparse.ArgumentParser(description="Count the small faults that the tests notice.")
    parser.add_argument("--seed", type=int, default=1, help="which mutants")
    parser.add_argument("--count", type=int, default=500, help="how many")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after these")
    parser.add_argument("--again", action="store_true", help="judge survivors anew")
    parser.add_argument("--quick", action="store_true", help="leave what forks do not catch")
    parser.add_argument("--tests", nargs="*", default=[], help="test files that judge first")
    parser.add_argument("--processes", type=int, default=1, help="of the run that finds the tests")
    parser.add_argument("--keras", default="", help="a Python with Keras, which judges its backend")
    parser.add_argument("--work", type=Path, default=ROOT / ".cache" / "mutation")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the copies are removed
    known = record.read(RECORD)
    open_ends = {"left", "survived"} if given.again else {"left"}
    done = {name for name, row in known.items() if row.standing not in open_ends}
    mutants = chosen(ROOT, given.seed)[: given.count]
    end = time.monotonic() + given.seconds
    suites = [project(), *([keras(given.keras, given.seed % 10)] if given.keras else [])]
    for suite in suites:
        wanted = [
            (package, mutant)
            for package, mutant in mutants
            if mutant.name not in done and judges(package, suites) is suite
        ]
        work = given.work / f"{suite.name}{given.seed}"
        first = given.tests if suite.name == "project" else []
        found = judged(wanted, work, suite, given.seed, given.processes, first, given.quick)
        for row in found if wanted else ():
            known[row.name] = row
            record.write(RECORD, known.values())
            name = " ".join(row.name.split())
            sys.stderr.write(f"{row.verdict} {row.seconds} s, {row.tests} tests: {name} {row.by}\n")
            sys.stderr.flush()
            if time.monotonic() > end:
                break
    counts = record.counts(known.values())
    notes = record.notes(known.values())
    sys.stdout.write(json.dumps({**counts, "faults": counts["survived"], "notes": notes}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
