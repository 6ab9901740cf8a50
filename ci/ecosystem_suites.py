"""The section of docs/ecosystem.md about the array API tests of SciPy and scikit-learn.

The records are `ci/scipy-suite.json`, `ci/sklearn-suite.json` and `ci/scipy-functions-suite.json`,
the reasons of failures `ci/scipy-exclusions.json` and so on; `ci/array_api_suite.py` writes and
reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUTCOMES = ("passed", "skipped", "xfailed", "failed")
HEAD = """## Array API tests of SciPy and scikit-learn

Both libraries ship tests that take their arrays from a namespace of the array API standard. They
run on the CPU with `tapegrad.numpy` as the namespace: `python ci/array_api_suite.py scipy`, and the
same with `sklearn`. Nothing in the packages is changed. "Skipped" tests are skipped by the library
for all namespaces that it does not know, or for other reasons; "xfailed" ones are expected to
fail."""

FUNCTIONS = """### SciPy's tests of functions that `tapegrad.scipy` has

The tests of SciPy, on NumPy arrays, with functions of `tapegrad.scipy` in place of SciPy's of the
same name: `python ci/array_api_suite.py scipy-functions`. Arrays become tensors at a call and its
result becomes arrays; samples are drawn by SciPy. Tests that call no function of tapegrad are not
counted, and the words of errors and warnings are not compared."""

Table = Callable[[list[str], list[list[Any]]], str]


def array_api_section(root: Path, table: Table) -> str:
    """Return the section, from the records in `ci`."""
    parts = [HEAD]
    for library in ("sklearn", "scipy", "scipy-functions"):
        record, groups = (
            json.loads((root / "ci" / f"{library}-{name}.json").read_text(encoding="utf-8"))
            for name in ("suite", "exclusions")
        )
        head = FUNCTIONS if library == "scipy-functions" else f"### {record['library']}"
        parts.append(library_section(head, record, groups, table))
    return "\n\n".join(parts)


def library_section(
    head: str, record: dict[str, Any], groups: dict[str, list[str]], table: Table
) -> str:
    """Return the counts of one library by module, and the reasons of its failures."""
    rows = [
        [f"`{name}`", *[counts[one] for one in OUTCOMES]]
        for name, counts in record["modules"].items()
    ]
    rows.append(["all", *[record[one] for one in OUTCOMES]])
    failed = {*record["failures"]}
    reasons = [[reason, len(failed.intersection(tests))] for reason, tests in groups.items()]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    how = f" {record['how']}" if record["how"] else ""
    text = f"{head}\n\n{record['tests']:,} tests with {versions}.{how}\n\n"
    text += table(["module", *OUTCOMES], rows)
    if reasons:
        text += "\n\nWhy tests fail:\n\n" + table(["reason", "tests"], reasons)
    return text
