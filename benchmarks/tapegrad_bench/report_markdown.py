"""Tables as Markdown, and generated parts of a page between two markers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tapegrad.errors import TapegradError
from tapegrad_bench.tables import Entry, Table


def markdown_table(table: Table) -> str:
    """Return `table` in Markdown under a heading."""
    heads = [name or " " for name in table.columns]
    rules = [":--" if place < table.names else "--:" for place in range(len(heads))]
    lines = [_line(heads), _line(rules)]
    lines += [_line([_text(entry) for entry in row]) for row in table.rows]
    note = f"{table.note}\n\n" if table.note else ""
    return f"#### {table.title}\n\n{note}" + "\n".join(lines) + "\n"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _text(entry: Entry) -> str:
    # A line of a Markdown table ends at the first newline, and a cell at the first bar.
    written = " ".join(entry.text.split()).replace("|", "\\|").replace("<", "&lt;")
    return f"**{written}**" if entry.tone == "strong" else written


def insert(page: str, begin: str, end: str, text: str) -> str:
    """Return `page` with `text` between the two markers instead of what was there.

    >>> insert("a <b> old <e> c", "<b>", "<e>", "new")
    'a <b>\\n\\nnew\\n<e> c'
    """
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise TapegradError(f"README.md must have the lines {begin!r} and {end!r}, in this order.")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def run_page_command(
    argv: Sequence[str], command: str, path: Path, make: Callable[[str], str]
) -> int:
    """Write a page, or check it if `argv` is `--check`; return the exit status.

    `make` returns the page as it should be from the page as it is. The status is 1 if the page was
    to be checked and is out of date, and 2 after an error.
    """
    if list(argv) not in ([], ["--check"]):
        print(f"Usage: {command} [--check]", file=sys.stderr)
        return 2
    page = path.read_text(encoding="utf-8")
    try:
        wanted = make(page)
    except TapegradError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    if page == wanted:
        return 0
    if argv:
        print(f"benchmarks/{path.name} is out of date. Run: {command}", file=sys.stderr)
        return 1
    path.write_text(wanted, encoding="utf-8")
    return 0
