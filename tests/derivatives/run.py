"""Check every sample and every variant of it in every mode.

    python -m tests.derivatives.run --part 1       # all; --part 20 takes one variant in twenty

The variants are made in `tapegrad.testing.variants`; the modes are in `modes.py`. The mode "plain"
is a second process with TAPEGRAD_PLAIN=1. A variant that the function refuses in words, such as
arguments of shapes that it does not broadcast, is counted apart. The last line has the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tapegrad.testing.variants import LAYOUTS, SHAPES, VARIANTS, variant_of
from tests.derivatives.categories import CATEGORIES, categories_of
from tests.derivatives.modes import DERIVATIVES, MODES, applies
from tests.derivatives.reasons import NOT_CHECKED
from tests.seeds import SEED, is_chosen

ROWS = ("as it is", *CATEGORIES, *LAYOUTS, *SHAPES)
"""The samples, the parts of them with some kind of arguments, and the variants."""


def cases(samples: Iterable[Sample], one_in: int, seed: int = SEED) -> list[Sample]:
    """Return about one variant in so many, chosen by name and seed."""
    # Chosen first, because it takes long to find out what all samples allow.
    chosen = [
        (s, name)
        for s in samples
        for name in VARIANTS
        if is_chosen(f"{s.name}@{name}", one_in, seed)
    ]
    found = [variant_of(sample, name) for sample, name in chosen]
    return [variant for variant in found if variant is not None]


def check(sample: Sample, mode: str, counts: Counter[str]) -> str:
    """Check a sample in a mode; return what is wrong, or "", and count it."""
    if not applies(sample, mode) or (sample.name, mode) in NOT_CHECKED:
        return ""
    category = sample.name.partition("@")[2] or "as it is"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            MODES[mode](sample)
        except (ArgumentError, ShapeError) as error:
            if category not in SHAPES:
                return f"{type(error).__name__}: {_line(error)}"
            counts["refused"] += 1
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {_line(error)}"
    counts["checks"] += 1
    counts["derivative checks"] += mode in DERIVATIVES
    counts[f"{category}, {mode}"] += 1
    if "@" not in sample.name:
        counts.update(f"{like}, {mode}" for like in categories_of(sample))
    return ""


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def check_all(samples: Sequence[Sample], modes: Iterable[str]) -> Counter[str]:
    """Check samples in modes and print what is wrong."""
    counts: Counter[str] = Counter()
    chosen = list(modes)
    for sample in samples:
        counts["variants" if "@" in sample.name else "samples"] += 1
        for mode in chosen:
            wrong = check(sample, mode, counts)
            if wrong:
                counts["faults"] += 1
                sys.stdout.write(f"--- {sample.name}, {mode}: {wrong}\n")
        if sum(counts[name] for name in ("samples", "variants")) % 100 == 0:
            sys.stderr.write(f"{counts['checks']} checks, {counts['faults']} faults\n")
    return counts


def table(counts: Counter[str]) -> str:
    """Return the checks by category and mode as a table."""
    modes = [*MODES, "plain"]
    lines = [f"| arguments | {' | '.join(modes)} |", f"|---|{'---:|' * len(modes)}"]
    for category in ROWS:
        cells = [f"{counts[f'{category}, {mode}']:,}" for mode in modes]
        lines.append(f"| {category} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plain_counts(part: int) -> Counter[str]:
    """Return what a process with TAPEGRAD_PLAIN=1 counts; the engine is chosen at the start."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __spec__.name, "--part", str(part)],
        env={**os.environ, "TAPEGRAD_PLAIN": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    *faults, last = run.stdout.splitlines()
    sys.stdout.writelines(f"plain {fault}\n" for fault in faults)
    return Counter(json.loads(last))


def main(arguments: list[str] | None = None) -> int:
    """Check as the arguments say; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Check derivatives of all samples and variants.")
    parser.add_argument("--part", type=int, default=1, help="take one variant in so many")
    given = parser.parse_args(arguments)
    # Thousands of programs are compiled, and each runs twice.
    os.environ.setdefault("TAPEGRAD_CFLAGS", "-O0")
    samples = all_samples()
    chosen = [*[s for s in samples if is_chosen(s.name, given.part)], *cases(samples, given.part)]
    if os.environ.get("TAPEGRAD_PLAIN") == "1":
        counts = check_all(chosen, DERIVATIVES)
        sys.stdout.write(json.dumps(dict(counts)) + "\n")
        return 0
    counts = check_all(chosen, MODES)
    plain = plain_counts(given.part)
    for category in ROWS:
        counts[f"{category}, plain"] = sum(plain[f"{category}, {mode}"] for mode in DERIVATIVES)
    for name in ("checks", "derivative checks", "faults", "refused"):
        counts[name] += plain[name]
    head = "Checks by arguments and mode; `plain` is reverse, forward and second order without "
    unchecked = [f"Not checked: {name}, {mode}. {why}" for (name, mode), why in NOT_CHECKED.items()]
    notes = [f"{head}`tapegrad/engine`.", table(counts), *unchecked]
    names = ("samples", "variants", "checks", "derivative checks", "refused", "faults")
    sys.stdout.write(json.dumps({**{n: counts[n] for n in names}, "notes": notes}) + "\n")
    return 1 if counts["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
