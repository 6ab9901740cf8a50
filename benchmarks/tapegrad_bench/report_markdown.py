"""Tables as Markdown, and generated parts of a page between two markers."""

from __future__ import annotations

from collections.abc import Sequence

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
