"""The walk through the code quotes the code that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.sources import ROOT

WALK = ROOT / "docs" / "walk.md"
FEWEST_QUOTATIONS = 12


def quotations(text: str) -> list[tuple[str, str]]:
    """The blocks that quote a file: its path, and the quoted lines."""
    blocks = re.finditer(r"^```\w+ quote=(\S+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(block[1], block[2]) for block in blocks]


def is_quoted(quotation: str, source: str) -> bool:
    """Whether the parts of a quotation, between lines of `...`, stand in the source in order.

    A quotation may be indented less than the source.
    """
    lines = source.splitlines()
    start = 0
    for part in re.split(r"^\s*\.\.\.\n", quotation, flags=re.MULTILINE):
        wanted = part.rstrip().splitlines()
        found = _find(wanted, lines, start)
        if wanted and found is None:
            return False
        start = (found or start) + len(wanted)
    return True


def _find(wanted: list[str], lines: list[str], start: int) -> int | None:
    for at in range(start, len(lines) - len(wanted) + 1):
        first = next((line for line in wanted if line.strip()), "")
        there = lines[at + wanted.index(first)] if first else ""
        shift = len(there) - len(there.lstrip()) - (len(first) - len(first.lstrip()))
        if shift < 0:
            continue
        indented = [" " * shift + line if line.strip() else "" for line in wanted]
        if indented == [line.rstrip() for line in lines[at : at + len(wanted)]]:
            return at
    return None


@pytest.mark.parametrize(
    ("path", "text"), quotations(WALK.read_text(encoding="utf-8")), ids=lambda value: value[:40]
)
def test_a_quotation_matches_the_source(path: str, text: str) -> None:
    assert is_quoted(text, (ROOT / path).read_text(encoding="utf-8")), f"{path} has changed"


def test_the_walk_quotes_enough_code() -> None:
    found = quotations(WALK.read_text(encoding="utf-8"))

    assert len(found) >= FEWEST_QUOTATIONS
    assert len({path for path, _ in found}) >= FEWEST_QUOTATIONS // 2


def test_every_page_is_in_the_index_and_every_link_leads_to_a_file() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", index))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}

    assert linked == pages


SOURCE = "class A:\n    def f(self):\n        x = 1\n        y = 2\n        return x + y\n"


@pytest.mark.parametrize(
    ("quotation", "expected"),
    [
        ("def f(self):\n    x = 1\n", True),
        ("def f(self):\n    ...\n    return x + y\n", True),
        ("x = 1\ny = 2\n", True),
        ("x = 1\nreturn x + y\n", False),
        ("def f(self):\n    x = 2\n", False),
        ("return x + y\n...\nx = 1\n", False),
    ],
)
def test_a_changed_line_is_noticed(quotation: str, expected: bool, tmp_path: Path) -> None:
    assert is_quoted(quotation, SOURCE) is expected
