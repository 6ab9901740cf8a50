"""Links between the pages lead somewhere, and every page is reached from the index."""

import re

import pytest

from tests.house.sources import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def linked(page):
    # Code may hold brackets that look like links.
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [(page.parent / target).resolve() for target in LINK.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page):
    assert [str(target) for target in linked(page) if not target.exists()] == []


def test_the_index_names_every_page():
    index = ROOT / "docs" / "index.md"

    missing = set((ROOT / "docs").rglob("*.md")) - {index, *linked(index)}

    assert {str(page.relative_to(ROOT)) for page in missing} == set()
