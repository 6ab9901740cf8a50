"""HTML for notebooks: small tables, and arrays with their first and last entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

_EDGE = 5
"""How many entries of a long axis are shown at either end."""
_CELL = "padding:2px 8px;text-align:right;font-family:monospace"


def table(rows: Iterable[Sequence[Any]], header: Sequence[Any] = ()) -> str:
    """Return a table of texts and numbers.

    >>> "<td" in table([["a", 1]]), "&lt;b&gt;" in table([], header=["<b>"])
    (True, True)
    """
    lines = [_row(header, "th")] if header else []
    lines += [_row(row, "td") for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _row(cells: Sequence[Any], tag: str) -> str:
    texts = [f'<{tag} style="{_CELL}">{escape(str(cell))}</{tag}>' for cell in cells]
    return f"<tr>{''.join(texts)}</tr>"


def preformatted(text: str) -> str:
    """Return text with its spaces and line breaks.

    >>> preformatted("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


def array_page(title: str, value: np.ndarray) -> str:
    """Return a title and the entries of an array: a vector or a matrix as a table.

    >>> array_page("x", np.eye(2)).count("<td")
    4
    """
    head = f"<div><code>{escape(title)}</code></div>"
    if value.ndim not in (1, 2) or not value.size:
        return head + preformatted(str(value))
    matrix = value.reshape(1, -1) if value.ndim == 1 else value
    rows = [_marked([_number(x) for x in _ends(row)], len(row), "…") for row in _ends(matrix)]
    return head + table(_marked(rows, len(matrix), ["…"] * len(rows[0])))


def _ends(axis: Any) -> list[Any]:
    """Return the entries of an axis, of a long one the first and the last."""
    return [*axis] if len(axis) <= 2 * _EDGE else [*axis[:_EDGE], *axis[-_EDGE:]]


def _marked(entries: list[Any], length: int, mark: Any) -> list[Any]:
    """Put a mark where entries are left out."""
    return entries if len(entries) == length else [*entries[:_EDGE], mark, *entries[_EDGE:]]


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
