"""Write docs/oracles.md: where JAX and PyTorch do not agree with tapegrad, and why.

    python ci/oracles_page.py            # write the page
    python ci/oracles_page.py --check    # fail if it differs from the record, or lacks a reason

`python ci/reliability_page.py --record oracles` makes the comparison and records it, where JAX or
PyTorch is installed. The comparison is in `tests/oracles`, the reasons are in its `reasons.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from tests.oracles.comparison import Outcome  # noqa: E402
from tests.oracles.reasons import reason_of  # noqa: E402

PAGE = ROOT / "docs" / "oracles.md"
RECORD = ROOT / "ci" / "reliability.json"

HEAD = """# Oracles

`ci/oracles_page.py` writes this page from a recorded run. Each sample of the table of samples is
recorded as a program, which JAX and PyTorch run and differentiate by their own rules. Values and
gradients are compared in float64 and in complex128; real samples are also given complex arguments.
Gradients of complex arguments are conjugated where the convention of a library asks for it.

Two results agree if they differ by less than 1e-8 of the largest number. Where they do not, the
column "right" names the side that is supported: for values by NumPy or SciPy, for gradients by
differences of the function's values.
"""


def page(run: dict[str, Any] | None) -> str:
    """Return the text of the page."""
    if run is None:
        return f"{HEAD}\nNo run is recorded.\n"
    found = [Outcome.from_row(row) for row in run["details"]]
    counts = run["counts"]
    where = f"Recorded on {run['date']}, {run['machine']}, sources `{run['digest']}`."
    asked = f"{counts['samples']:,} samples, {counts['comparisons']:,} comparisons"
    asked += f" of {counts['arrays']:,} arrays"
    verdicts = f"{counts['agrees']:,} agree, {counts['differs']:,} differ"
    others = f"{counts['not compared']:,} could not be made"
    lines = [
        HEAD,
        " ".join([where, *run.get("notes", [])]),
        "",
        f"{asked}: {verdicts}, {others}.",
        "",
        "## Results that differ",
        "",
        *_differing([one for one in found if one.verdict == "differs"]),
        "",
        "## Comparisons that could not be made",
        "",
        *_not_compared([one for one in found if one.verdict == "not compared"]),
    ]
    return "\n".join(lines) + "\n"


def _differing(outcomes: Sequence[Outcome]) -> list[str]:
    lines = ["| sample | dtype | library | what | right | reason |", "|---|---|---|---|---|---|"]
    for one in sorted(outcomes, key=lambda one: (one.sample, one.dtype, one.library)):
        cells = [f"`{one.sample}`", one.dtype, one.library, one.text, one.right, reason_of(one)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _not_compared(outcomes: Sequence[Outcome]) -> list[str]:
    groups: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in outcomes:
        groups[reason_of(one)][one.sample].add(one.library)
    lines = []
    for reason, samples in groups.items():
        libraries = Counter(library for found in samples.values() for library in found)
        told = ", ".join(f"{library} {count}" for library, count in sorted(libraries.items()))
        names = ", ".join(f"`{name}`" for name in sorted(samples))
        lines += [f"**{reason}** ({told})", "", names + ".", ""]
    return lines[:-1]


def main(arguments: list[str], path: Path = PAGE, record_path: Path = RECORD) -> int:
    """Write the page, or compare it with the record."""
    parser = argparse.ArgumentParser(description="Write docs/oracles.md.")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    run = json.loads(record_path.read_text(encoding="utf-8")).get("oracles")
    unexplained = [
        row for row in (run or {}).get("details", []) if not reason_of(Outcome.from_row(row))
    ]
    for row in unexplained:
        print(f"No reason is given for: {' '.join(map(str, row))}")
    text = page(run)
    if not given.check:
        path.write_text(text, encoding="utf-8")
        return int(bool(unexplained))
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return int(bool(unexplained))
    print(f"{path} differs from the record. Run: python ci/oracles_page.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
