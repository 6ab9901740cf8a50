"""The report for a terminal: rich's tables if it is there, else aligned text."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from tapegrad_bench.results import Run
from tapegrad_bench.tables import Table, machine_table, summary_tables

_STYLES = {"good": "green", "bad": "red", "muted": "dim", "strong": "bold"}

LONGEST_WORD = 24
"""A longer word in a column of names, such as a path, is broken."""


def write_report(run: Run, stream: TextIO) -> None:
    """Write the tables of `run` to `stream`."""
    write_tables([machine_table(run), *summary_tables(run)], stream)


def write_tables(tables: Sequence[Table], stream: TextIO) -> None:
    """Write `tables` with colours to a terminal with rich, as plain text anywhere else."""
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        _write_rich(tables, stream)
    else:
        stream.write("\n".join(plain_table(table) for table in tables))


def plain_table(table: Table) -> str:
    """Return `table` as lines of text in aligned columns.

    >>> from tapegrad_bench.tables import Entry
    >>> rows = ((Entry("chain"), Entry("1.0 ms")), (Entry("rnn"), Entry("22.5 ms")))
    >>> print(plain_table(Table("Time", "Median.", ("workload", "ours"), rows)), end="")
    Time
    Median.
    workload     ours
    chain      1.0 ms
    rnn       22.5 ms
    """
    texts = [[entry.text for entry in row] for row in table.rows]
    shown = [list(table.columns), *texts] if any(table.columns) else texts
    widths = [max(len(line[place]) for line in shown) for place in range(len(table.columns))]
    lines = [table.title, *([table.note] if table.note else [])]
    for line in shown:
        cells = [
            text.ljust(width) if place < table.names else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def split_columns(table: Table, width: int) -> list[Table]:
    """Return `table` in parts that fit into `width` letters; each part repeats the names.

    >>> from tapegrad_bench.tables import Entry
    >>> row = (Entry("chain"), Entry("1.0 ms"), Entry("2.0 ms"))
    >>> wide = Table("Time", "", ("workload", "ours", "theirs"), (row,))
    >>> [part.columns for part in split_columns(wide, 18)]
    [('workload', 'ours'), ('workload', 'theirs')]
    """
    widths = [_least_width(table, place) for place in range(len(table.columns))]
    names = list(range(table.names))
    used = sum(widths[: table.names])
    parts: list[list[int]] = []
    room = 0
    for place in range(table.names, len(widths)):
        if not parts or widths[place] > room:
            parts.append(names.copy())
            room = width - used
        parts[-1].append(place)
        room -= widths[place]
    return [_take(table, places) for places in parts or [names]]


def _least_width(table: Table, place: int) -> int:
    """Return how wide a column must be: names may be broken between words, figures may not."""
    texts = [row[place].text for row in table.rows]
    words = [word for text in (table.columns[place], *texts) for word in text.split()]
    if place < table.names:
        return min(max(map(len, words), default=0), LONGEST_WORD) + 2
    return max(map(len, [*words, *texts]), default=0) + 2


def _take(table: Table, places: list[int]) -> Table:
    columns = tuple(table.columns[place] for place in places)
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def _widths(table: Table, width: int) -> list[int]:
    """Return the width of each column: what is to spare goes to the names, from the left."""
    widths = [_least_width(table, place) for place in range(len(table.columns))]
    spare = max(0, width - sum(widths))
    for place in range(table.names):
        natural = max([len(row[place].text) for row in table.rows], default=0) + 2
        more = min(spare, max(0, natural - widths[place]))
        widths[place] += more
        spare -= more
    return widths


def _write_rich(tables: Sequence[Table], stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=stream)
    room = console.width - 2
    for table in tables:
        console.print(Text(table.title, "bold"))
        if table.note:
            console.print(Text(table.note, "dim"))
        for part in split_columns(table, room):
            drawn = RichTable(
                box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=any(part.columns)
            )
            for place, (column, width) in enumerate(zip(part.columns, _widths(part, room))):
                drawn.add_column(
                    column,
                    justify="left" if place < part.names else "right",
                    width=width - 2,
                    overflow="fold",
                )
            for row in part.rows:
                drawn.add_row(*[Text(entry.text, _STYLES.get(entry.tone, "")) for entry in row])
            console.print(drawn)
