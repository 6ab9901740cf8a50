"""The pages of the documentation site, as far as they can be checked without Sphinx."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import pytest

from tests.house.scripts import imported
from tests.house.sources import ROOT


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that arranges the pages, with its neighbours importable."""
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "pages"))
    return importlib.import_module("stage")


@pytest.mark.parametrize(
    "command",
    [
        ["ci/pages/picture.py", "--check"],
        ["ci/pages/figures.py", "--check"],
        ["benchmarks/readme_examples.py", "--check"],
        ["ci/pages/reference.py"],
    ],
    ids=lambda command: Path(command[0]).stem,
)
def test_what_is_generated_is_up_to_date(command):
    ended = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_words_of_the_pages_are_in_a_dictionary(monkeypatch, capsys):
    pytest.importorskip("spellchecker", reason="pip install pyspellchecker, or the extra dev")
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "pages"))
    spelling = importlib.import_module("spelling")

    assert spelling.unknown("A grdient of `sgemv` in wrds") == ["grdient", "wrds"]
    assert spelling.main() == 0, capsys.readouterr().out


def test_links_lead_to_pages_of_the_site(pages):
    files: set[str] = set()
    text = "[a](../SECURITY.md) [b](tape.md#dtypes) [c](../examples/gan.py) [d](../examples)"

    changed = pages.with_links(text, "docs/keras.md", "keras.md", files)

    assert changed == "[a](project/security.md) [b](tape.md#dtypes) [c](files/examples/gan.py) d"
    assert files == {"examples/gan.py"}


def test_each_page_of_the_index_is_in_one_section(pages):
    found = [
        target for text in pages.sections().values() for target in re.findall(r"\((.*?\.md)", text)
    ]

    assert len(found) == len(set(found))
    assert {f"docs/{name}" for name in found} | {"docs/index.md"} == {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")
    }


def test_docstrings_become_markdown(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "pages"))
    reference = importlib.import_module("reference")

    text = reference.markdown("Return a * b, `a_b`.\n\n    >>> 1 * 2\n    2\n\nMore <words>.")

    assert text == (
        "Return a \\* b, `a_b`.\n\n\n```pycon\n>>> 1 * 2\n2\n```\n\nMore \\<words>."
    ).replace("\n\n\n", "\n\n")
    assert reference.signature(lambda a, /, b=1, *, c: None) == "(a, /, b=1, *, c)"
    assert reference.session(["x = 2", "x + 1"]).endswith(">>> x = 2\n>>> x + 1\n3")


@pytest.mark.parametrize(
    "script", sorted((ROOT / "docs" / "gallery").glob("*.py")), ids=lambda path: path.stem
)
def test_the_gallery_runs(script, monkeypatch):
    # Only the plots need matplotlib; the programs check their results themselves.
    plots = MagicMock()
    plots.subplots.return_value = MagicMock(), (MagicMock(), MagicMock())
    monkeypatch.setitem(sys.modules, "matplotlib", MagicMock(pyplot=plots))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", plots)

    imported(str(script.relative_to(ROOT)))

    assert plots.show.called
