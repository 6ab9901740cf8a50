"""docs/functions.md: what each function can do, written from the table of samples.

python ci/functions_page.py            write the page
python ci/functions_page.py --check    is the page in the tree the one that would be written?
"""

from __future__ import annotations

import importlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "functions.md"
PLACES = ("", "math", "nn", "linalg", "signal", "special", "random", "numpy", "numpy.linalg",
          "numpy.fft", "bitwise", "losses", "scipy.special", "scipy.linalg",
          "scipy.signal")  # fmt: skip
"""Where users find functions; the first that has a name is the one that is shown."""

HEAD = """# Functions

Written by `python ci/functions_page.py` from the table of samples (`tapegrad/testing/samples/`), in
which every row of a function is one call. The tests run each row: the values against NumPy's or
SciPy's, both derivatives and the second order against differences in double precision, batches
against a loop, dtypes, the recorded program against eager mode; on NumPy (`tests/rules`,
`tests/program`) and on CUDA (`tests/gpu`, see `ci/gpu-report.json`). So a cell is what a test has
seen, not what somebody has written down.

- **rows**: calls in the table.
- **VJP**, **JVP**: whether it can be differentiated, in reverse and forward; functions of integers,
  of order or of chance cannot. **order**: how often, as far as the rows go.
- **batched**: whether `vmap` takes it, with the values and derivatives of a loop over the batch.
- **NumPy**, **CUDA**: whether all checks of its rows pass there; the latter as the report says.
- **recorded**: whether it can be part of a `function`; "reads values" if its result depends on the
  values of its arguments in a way that a recording cannot keep.
"""


def page() -> str:
    """Return the text of the page."""
    rows: dict[str, list[Sample]] = defaultdict(list)
    for sample in all_samples():
        rows[sample.name.partition("-")[0]].append(sample)
    shown = {name: _spelling(name) for name in rows}
    public = sorted((place, name) for name, place in shown.items() if place)
    inner = sorted(name for name, place in shown.items() if not place)
    differentiable = sum(any(s.differentiable for s in rows[name]) for _, name in public)
    lines = [HEAD, f"{len(public)} functions, {differentiable} of them differentiable.\n"]
    lines += _table([(f"`{place}`", rows[name]) for place, name in public])
    lines += [
        "\n## What functions are made of\n",
        "Not called by users, in the table all the same.\n",
    ]
    lines += _table([(f"`{name}`", rows[name]) for name in inner])
    return "\n".join(lines) + "\n"


def _table(entries: Sequence[tuple[str, list[Sample]]]) -> Iterator[str]:
    yield "| function | rows | VJP | JVP | order | batched | NumPy | CUDA | recorded |"
    yield "|---|---|---|---|---|---|---|---|---|"
    failed = _failed_on_cuda()
    for name, samples in entries:
        orders = [s.order for s in samples if s.differentiable]
        is_differentiable = _yes(bool(orders))
        cells = [name, str(len(samples)), is_differentiable, is_differentiable]
        cells += [str(max(orders, default=0)), _yes(all(s.batches for s in samples)), "yes"]
        cells += [_yes(not any(f"[{s.name}]" in failed for s in samples)), _recorded(samples)]
        yield f"| {' | '.join(cells)} |"


def _failed_on_cuda() -> str:
    """The names of GPU tests that failed when they ran last."""
    report = json.loads((ROOT / "ci" / "gpu-report.json").read_text(encoding="utf-8"))
    files = report["parts"]["engine"]["files"].values()
    return " ".join(test for found in files for test in found["failed"])


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


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" in arguments:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("The page is up to date." if same else "Run: python ci/functions_page.py")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
