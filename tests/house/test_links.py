"""Links between the pages lead somewhere, and every page is reached from the index."""

from __future__ import annotations

import pytest

from tests.house.scripts import imported
from tests.house.sources import ROOT

links = imported("ci/pages/links.py")


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files_and_headings(page):
    assert list(links.broken(page)) == []


def test_the_index_names_every_page():
    index = ROOT / "docs" / "index.md"
    found = links.LINK.findall(links.without_code(index.read_text(encoding="utf-8")))
    linked = {(index.parent / target).resolve() for target, _ in found}

    missing = set((ROOT / "docs").rglob("*.md")) - {index, *linked}

    assert {str(page.relative_to(ROOT)) for page in missing} == set()


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Here we are\n[a](b.md) `[c](d.md)` [e](#here-we-are) [f](#gone)\n")

    assert list(links.broken(page)) == [
        "b.md does not exist",
        "#gone: page.md has no such heading",
    ]
