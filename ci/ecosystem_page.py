"""Write docs/ecosystem.md: what was recorded about other libraries on tapegrad.

    python ci/ecosystem_page.py            # write the page
    python ci/ecosystem_page.py --check    # fail if it differs from the records

The records are `ci/programs.json` (its counts are entered by hand after a run, because the programs
are not in the tree), `ci/keras-suite.json` and `ci/keras-exclusions.json` (`ci/keras_suite.py`),
`ci/keras-applications.json` (`ci/keras_applications.py`) and those that `ci/ecosystem_suites.py`,
`ci/ecosystem_many.py` and `ci/ecosystem_gradbench.py` name.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "ci"))

from ecosystem_gradbench import gradbench_section  # noqa: E402  # found by the line above
from ecosystem_many import many_section  # noqa: E402  # found by the line above
from ecosystem_suites import array_api_section  # noqa: E402  # found by the line above

PAGE = ROOT / "docs" / "ecosystem.md"

HEAD = """# Other libraries on tapegrad

`ci/ecosystem_page.py` writes this page from recorded runs; the figures are not edited by hand.
"""


def table(titles: list[str], rows: list[list[Any]]) -> str:
    """Return a table; columns of numbers are aligned to the right.

    >>> print(table(["name", "count"], [["a", 1200]]))
    | name | count |
    | --- | --: |
    | a | 1,200 |
    """
    are_numbers = [all(isinstance(row[k], int) for row in rows) for k in range(len(titles))]
    lines = [
        "| " + " | ".join(titles) + " |",
        "| " + " | ".join("--:" if is_number else "---" for is_number in are_numbers) + " |",
    ]
    for row in rows:
        cells = [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def suite_section(record: dict[str, Any], groups: dict[str, list[str]]) -> str:
    """Return the section about Keras' own tests."""
    outcomes = ("passed", "skipped", "missing", "failed")
    folders = record.get("folders", {})
    rows = [[f"`{name}`", *[counts[one] for one in outcomes]] for name, counts in folders.items()]
    rows.append(["all", *[record.get(one, 0) for one in outcomes]])
    named = {*record["failures"], *record.get("missing_tests", ())}
    reasons = [
        [reason, len(tests), len(named.intersection(tests))] for reason, tests in groups.items()
    ]
    libraries = ", ".join(f"{name} {found}" for name, found in record.get("libraries", {}).items())
    return f"""## Keras' own tests

The wheel of Keras {record["keras"]} ships its tests. They run on the CPU with Keras on tapegrad.
{record.get("how", f"Installed beside it: {libraries}.")}
"Skipped" tests are skipped by Keras itself for this backend. "Missing" tests need a library that
was not installed.

{table(["folder of `keras/src`", "passed", "skipped", "missing", "failed"], rows)}

`ci/keras-exclusions.json` names every test that is known to fail. Some of them fail only where
TensorFlow is not installed; it was, in this run.

{table(["reason", "tests named", "failed in this run"], reasons)}

`bash ci/keras.sh` installs Keras and runs a tenth of the tests, the next commit the next tenth. A
failure that is not in the file fails the run."""


def applications_section(record: dict[str, Any]) -> str:
    """Return the section about the models of `keras.applications`."""
    models = record["models"]
    rows = [
        [
            name,
            entry["weights"],
            entry["dtype"],
            entry["peer"],
            f"{entry['loss_error']:.0e}",
            f"{entry['weight_error']:.0e}",
            "yes" if entry["compiled"] else "no",
            "yes" if entry["agrees"] else "no",
        ]
        for name, entry in sorted(models.items())
        if "loss" in entry
    ]
    rest = [name for name in record["names"] if "loss" not in models.get(name, {})]
    missing = "" if not rest else f"\n\nNot recorded yet: {', '.join(rest)}."
    titles = ["model", "weights", "dtype", "beside", "error of loss", "error of weights"]
    titles += ["compiled", "agrees"]
    return f"""## `keras.applications`

One training step of {len(rows)} of the {len(record["names"])} models, with random weights, small
images and ten classes, beside Keras on another backend with the same weights and the same batch.
The error of the weights is relative to their change in the step; `ci/keras_applications.py` says
how. The step of tapegrad is recorded; the column "compiled" says whether its loops were compiled.

{table(titles, rows)}{missing}"""


def programs_section(record: dict[str, Any]) -> str:
    """Return the section about public programs."""
    kinds = record["kinds"]
    rows = [
        [name, *[counts.get(kind, 0) for kind in kinds]] for name, counts in record["of"].items()
    ]
    total = [sum(row[k + 1] for row in rows) for k in range(len(kinds))]
    count = sum(total)
    rows.append(["all", *total])
    faults = [[reason, number] for reason, number in record["faults"].items()]
    return f"""## Public programs

{count} published programs of other authors, run on {record["date"]} on one core of a CPU.
{record["how"]}

{table(["programs", *kinds.values()], rows)}

{record.get("faults_of", "What stopped the programs with a fault:")}

{table(["reason", "programs"], faults)}

{record["time"]}"""


def page() -> str:
    """Return the text of the page."""
    suite, groups, applications = (
        json.loads((ROOT / "ci" / f"keras-{name}.json").read_text(encoding="utf-8"))
        for name in ("suite", "exclusions", "applications")
    )
    programs = json.loads((ROOT / "ci" / "programs.json").read_text(encoding="utf-8"))
    parts = [HEAD.rstrip(), programs_section(programs), suite_section(suite, groups)]
    parts.append(applications_section(applications))
    parts.append(array_api_section(ROOT, table))
    parts.append(many_section(ROOT, table))
    parts.append(gradbench_section(ROOT, table))
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str], path: Path = PAGE) -> int:
    """Write the page, or compare it with the records."""
    parser = argparse.ArgumentParser(description="Write docs/ecosystem.md.")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    text = page()
    if not given.check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path} differs from the records. Run: python ci/ecosystem_page.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
