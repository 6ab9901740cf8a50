"""Workflows, the page of support, the citation and the licences agree with the tree."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import tapegrad
from tests.house.scripts import imported
from tests.house.sources import ROOT


@pytest.fixture
def workflows() -> ModuleType:
    return imported("ci/workflows.py")


@pytest.fixture
def support() -> ModuleType:
    return imported("ci/support_page.py")


def test_workflows_have_the_form_of_the_schema_and_only_call_scripts(workflows):
    assert workflows.main() == 0


STEP = """name: x
on:
  push:
permissions:
  contents: read
jobs:
  one:
    runs-on: ubuntu-latest
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@v4
      - run: {run}
"""


@pytest.mark.parametrize("run", ["pip install x", "bash ci/none.sh", "bash ci/test.sh; rm x"])
def test_a_step_that_does_something_else_is_noticed(workflows, run):
    (sentence,) = workflows.problems_of_steps(workflows.parse(STEP.format(run=run)))

    assert "does not call a script in ci" in sentence


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("timeout-minutes", "timeout", "unknown key 'timeout'"),
        ("permissions:\n  contents: read\n", "", "lacks the key 'permissions'"),
        ("runs-on: ubuntu-latest", "runs-on: [a]", "not of the expected kind"),
    ],
)
def test_another_form_is_noticed(workflows, old, new, sentence):
    text = STEP.format(run="bash ci/test.sh").replace(old, new)

    assert sentence in " ".join(workflows.problems(workflows.parse(text)))


def test_the_page_of_support_is_up_to_date(support):
    assert support.main(["--check"]) == 0


def test_a_failed_cell_and_a_failed_kernel_are_shown(support):
    run = {"python": "3.12.1", "numpy": "2.4.2", "date": "d", "results": {"doctor": False}}
    kernel = {"sources": 9, "compiled": 8, "spilling": 0, "failed": ["x: error"], "share": 1}

    assert "failed: doctor (Python 3.12.1" in support.matrix({"3.12 oldest": run})[0][1]
    assert support.matrix({"3.12 oldest": run})[0][2].startswith("not run")
    assert support.kernels({"75": kernel})[0][2:] == ["8 (all 9 sources)", "0", "1"]
    assert "- 7.5: x: error" in support.failures({"75": kernel})


def test_the_matrix_starts_with_the_oldest_numpy_of_the_package():
    matrix = imported("ci/matrix.py")

    assert f"numpy>={matrix.oldest_numpy()}" in Path(ROOT, "pyproject.toml").read_text("utf-8")
    assert matrix.find_python("2.1") is None


def test_the_citation_has_the_version():
    text = Path(ROOT, "CITATION.cff").read_text("utf-8")

    assert re.search(r"^version: (.+)$", text, re.MULTILINE)[1] == tapegrad.__version__


def test_third_party_data_in_the_package_are_listed():
    listed = Path(ROOT, "THIRD_PARTY.md").read_text("utf-8")
    data = list((ROOT / "tapegrad").rglob("*.np[yz]"))

    assert data
    assert all(str(path.relative_to(ROOT)) in listed for path in data)
