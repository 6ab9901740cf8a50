"""Links between the pages: each leads to a file, and to a heading if it names one.

python ci/pages/links.py    print the links that lead nowhere
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that people read: those of the documentation and those at the top."""
    return [*sorted(root.glob("*.md")), root / "benchmarks" / "README.md",
            *sorted((root / "docs").rglob("*.md"))]  # fmt: skip


def without_code(text: str) -> str:
    """Return the text of a page without its code, in which brackets are no links.

    >>> without_code("a `[b](c)` d")
    'a  d'
    """
    text = re.sub(r"^(```+|:::+)[^\n]*\n.*?^\1[ ]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`(?:[^`\n]|\n(?!\n))*`", "", text)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as on GitHub and on the site.

    >>> anchor("`fit`: what it runs")
    'fit-what-it-runs'
    """
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)}


def broken(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for target, heading in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        file = (page.parent / target).resolve() if target else page
        if not file.exists():
            yield f"{target} does not exist"
        elif heading and file.suffix == ".md" and heading not in anchors(file):
            yield f"{target}#{heading}: {file.name} has no such heading"


def main() -> int:
    """Print all links that lead nowhere; return 1 if there are any."""
    found = [f"{page.relative_to(ROOT)}: {fault}" for page in pages() for fault in broken(page)]
    print("\n".join(found) or f"All links of {len(pages())} pages lead somewhere.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
