"""Compare all samples with JAX and PyTorch, in float64 and complex128.

    python -m tests.oracles.run --part 1       # all; --part 2 asks JAX about every second sample

PyTorch is always asked about all samples. JAX compiles each program, which takes most of the time.

The last line has the counts, and the details of all that does not agree. `reasons.py` has the
reason of each; `ci/oracles_page.py` writes the page. A library that is not installed is not asked,
which a line says.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from typing import Any

from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.oracles.comparison import Outcome, compare, forms
from tests.oracles.peers import PACKAGES, installed, version
from tests.seeds import SEED, is_chosen


def not_installed() -> str:
    """Return a sentence about the libraries that cannot be asked, or ""."""
    missing = [name for name in PACKAGES if name not in installed()]
    if not missing:
        return ""
    return f"Not compared with {' and '.join(missing)}: not installed here."


def outcomes(samples: Sequence[Sample], libraries: Sequence[str]) -> list[Outcome]:
    """Return what each library says about each form of each sample."""
    return [
        compare(form, dtype, library)
        for sample in samples
        for dtype, form in forms(sample).items()
        for library in libraries
    ]


def outcomes_of(library: str, names: Sequence[str]) -> list[Outcome]:
    """Return what a library says about samples with these names."""
    return outcomes([sample for sample in all_samples() if sample.name in names], [library])


def in_processes(names: dict[str, list[str]], jobs: int) -> list[Outcome]:
    """Return what libraries say about samples, by their names, from several processes."""
    parts = [
        (library, found[start : start + 20])
        for library, found in names.items()
        for start in range(0, len(found), 20)
    ]
    # A process ends after some parts: XLA keeps all that it has compiled.
    with get_context("spawn").Pool(jobs, maxtasksperchild=8) as pool:
        found = []
        for done in [pool.apply_async(outcomes_of, part) for part in parts]:
            found += done.get()
            sys.stderr.write(f"{len(found)} comparisons\n")
        return found


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def summary(found: Sequence[Outcome], libraries: Sequence[str]) -> dict[str, Any]:
    """Return counts, a note about the libraries, and details of what does not agree."""
    verdicts = Counter(outcome.verdict for outcome in found)
    versions = [version(library) for library in libraries]
    asked = f"Compared with {' and '.join(versions)}." if versions else ""
    each = [
        f"{len({one.sample for one in found if one.library == library}):,} samples in {library}"
        for library in libraries
    ]
    return {
        "samples": len({outcome.sample for outcome in found}),
        "comparisons": len(found),
        "arrays": sum(outcome.numbers for outcome in found),
        **{name: verdicts[name] for name in ("agrees", "differs", "not compared")},
        "notes": [note for note in (asked, f"{', '.join(each)}.", not_installed()) if note],
        "details": [outcome.row() for outcome in found if outcome.verdict != "agrees"],
    }


def main(arguments: list[str] | None = None) -> int:
    """Compare as the arguments say; return 0, whatever the libraries say."""
    parser = argparse.ArgumentParser(description="Compare samples with JAX and PyTorch.")
    parser.add_argument("--part", type=int, default=1, help="ask JAX about one sample in so many")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    given = parser.parse_args(arguments)
    if not_installed():
        say(not_installed())
    parts = {"jax": given.part}
    names = {
        library: [s.name for s in all_samples() if is_chosen(s.name, parts.get(library, 1), SEED)]
        for library in reversed(installed())
    }
    found = in_processes(names, given.jobs)
    say(json.dumps(summary(found, installed())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
