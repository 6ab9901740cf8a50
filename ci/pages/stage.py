"""The source of the documentation site: the pages of the repository, arranged for Sphinx.

python ci/pages/stage.py FOLDER    write it to a folder, which is emptied first

The pages stay as they are on GitHub: this script finds the sections in docs/index.md, makes a page
with a table of contents for each, and changes links so that they lead to pages of the site.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import reference
from links import LINK

ROOT = Path(__file__).resolve().parents[2]
PROJECT = {
    "CHANGELOG.md": "Changelog",
    "CONTRIBUTING.md": "Contributing",
    "SECURITY.md": "Security",
    "benchmarks/README.md": "Benchmarks",
}
"""Pages outside of docs/ that the site has in its section on the project."""

GALLERY = "gallery/index"
WHOLE_LINK = re.compile(r"\[((?:`[^`]*`|[^\[\]`])*)" + LINK.pattern)


def staged_name(path: str) -> str | None:
    """Return the place on the site of a page, by its path in the repository, or None.

    >>> staged_name("docs/coming-from/jax.md"), staged_name("CHANGELOG.md")
    ('coming-from/jax.md', 'project/changelog.md')
    """
    if path == "README.md":
        return "index.md"
    if path == "docs/index.md":
        return "index.md"
    if path in PROJECT:
        return f"project/{PROJECT[path].lower()}.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def with_links(text: str, page: str, place: str, files: set[str]) -> str:
    """Return the text of a page with links as the site needs them.

    `page` is the path in the repository, `place` the one on the site. Files that are no pages are
    added to `files` and become downloads; links to folders become text.
    """
    up = "../" * place.count("/")

    def change(link: re.Match[str]) -> str:
        words, target, heading = link.groups()
        if not target:
            return link[0]
        absolute = ((ROOT / page).parent / target).resolve()
        inside = absolute.relative_to(ROOT).as_posix()
        name = staged_name(inside)
        if name is None and not absolute.is_file():
            return words
        if name is None:
            files.add(inside)
            name = f"files/{inside}"
        return f"[{words}]({up}{name}{'#' + heading if heading else ''})"

    # Blocks of code may hold brackets that look like links.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    changed = [part if n % 2 else WHOLE_LINK.sub(change, part) for n, part in enumerate(parts)]
    return "".join(changed)


def sections() -> dict[str, str]:
    """Return the sections of docs/index.md by their headings."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def slug(heading: str) -> str:
    """Return the file name of a section.

    >>> slug("How it works")
    'how-it-works'
    """
    return heading.lower().replace(" ", "-")


def contents(names: list[str]) -> str:
    """Return a hidden table of contents, from which the theme makes its navigation."""
    return "\n".join(["```{toctree}", ":hidden:", "", *names, "```", ""])


def section_page(heading: str, text: str) -> str:
    """Return the page of a section: its list of pages, and the same as navigation."""
    names = [target.removesuffix(".md") for target, _ in LINK.findall(text)]
    return f"# {heading}\n\n{text.strip()}\n\n{contents(names)}"


def home(files: set[str]) -> str:
    """Return the first page: the first screen of the README and the sections."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = with_links(readme.split("\n## ")[0], "README.md", "index.md", files)
    lists = [f"## [{heading}]({slug(heading)}.md)\n\n{text.strip()}\n"
             for heading, text in sections().items()]  # fmt: skip
    more = "## [Gallery](gallery/index.rst)\n\nPrograms with plots, run while the site was built.\n"
    names = [*map(slug, sections()), GALLERY, "api/index", "project/index"]
    return "\n".join([first, "", *lists, more, contents(names)])


def write(folder: Path) -> None:
    """Write the source of the site to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    files: set[str] = set()
    pages = [*PROJECT, *(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]
    for page in pages:
        place = staged_name(page)
        if place is not None and page != "docs/index.md":
            text = (ROOT / page).read_text(encoding="utf-8")
            _put(folder / place, with_links(text, page, place, files))
    for heading, text in sections().items():
        _put(folder / f"{slug(heading)}.md", section_page(heading, text))
    _put(folder / "index.md", home(files))
    project = [title.lower() for title in PROJECT.values()]
    listed = "".join(f"- [{title}]({title.lower()}.md)\n" for title in PROJECT.values())
    _put(folder / "project" / "index.md", f"# Project\n\n{listed}\n{contents(project)}")
    _write_reference(folder / "api")
    for file in files:
        _put(folder / "files" / file, (ROOT / file).read_text(encoding="utf-8"))
    shutil.copytree(ROOT / "docs" / "images", folder / "images", dirs_exist_ok=True)


def _write_reference(folder: Path) -> None:
    names = reference.write(folder)
    listed = "".join(f"- [{name}]({name}.md)\n" for name in names)
    short = [f"{name.removeprefix('tapegrad.')} <{name}>" for name in names]
    text = (
        "Every public name, with an example. Modules with the names of TensorFlow, Keras, NumPy\n"
    )
    text += "and SciPy take the same arguments as there.\n"
    _put(folder / "index.md", f"# API reference\n\n{text}\n{listed}\n{contents(short)}")


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python ci/pages/stage.py FOLDER")
    write(Path(sys.argv[1]))
