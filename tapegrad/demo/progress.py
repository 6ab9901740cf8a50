"""A progress bar around a loop: rich's if it is installed, else one line of text."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO, TypeVar

Item = TypeVar("Item")


def track(items: Sequence[Item], title: str, stream: TextIO | None = None) -> Iterator[Item]:
    """Yield the items and show on the terminal how far the loop is.

    Where the output is no terminal (a file, a pipe), nothing is shown.

    >>> list(track("abc", "Spelling"))
    ['a', 'b', 'c']
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        yield from items
    elif importlib.util.find_spec("rich") is not None:
        yield from _rich_track(items, title, stream)
    else:
        yield from _text_track(items, title, stream)


def _rich_track(items: Sequence[Item], title: str, stream: TextIO) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import track as rich_track

    yield from rich_track(items, description=title, console=Console(file=stream))


def _text_track(items: Sequence[Item], title: str, stream: TextIO) -> Iterator[Item]:
    for done, item in enumerate(items):
        _draw(done, len(items), title, stream)
        yield item
    _draw(len(items), len(items), title, stream)
    stream.write("\n")


def _draw(done: int, total: int, title: str, stream: TextIO, width: int = 40) -> None:
    filled = width * done // max(total, 1)
    bar = "#" * filled + "." * (width - filled)
    stream.write(f"\r{title} [{bar}] {done}/{total}")
    stream.flush()
