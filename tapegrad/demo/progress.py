"""A progress bar for a loop: by rich if it is installed, else one line of text."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO, TypeVar

Item = TypeVar("Item")
Note = Callable[[], str]

WIDTH = 40


def track(
    items: Sequence[Item], title: str, stream: TextIO | None = None, note: Note = str
) -> Iterator[Item]:
    """Yield the items and show the progress on the terminal, with the text that `note` returns.

    If the output is not a terminal (a file, a pipe), nothing is shown.

    >>> list(track("abc", "Spelling"))
    ['a', 'b', 'c']
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        yield from items
    elif importlib.util.find_spec("rich") is not None:
        yield from _rich_track(items, title, stream, note)
    else:
        yield from _text_track(items, title, stream, note)


def _rich_track(items: Sequence[Item], title: str, stream: TextIO, note: Note) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=stream)) as progress:
        task = progress.add_task(title, total=len(items))
        for item in items:
            yield item
            progress.update(task, advance=1, description=f"{title} {note()}".rstrip())


def _text_track(items: Sequence[Item], title: str, stream: TextIO, note: Note) -> Iterator[Item]:
    for done, item in enumerate(items):
        _draw(done, len(items), title, stream, note)
        yield item
    _draw(len(items), len(items), title, stream, note)
    stream.write("\n")


def _draw(done: int, total: int, title: str, stream: TextIO, note: Note) -> None:
    filled = WIDTH * done // max(total, 1)
    bar = "#" * filled + "." * (WIDTH - filled)
    stream.write(f"\r{title} [{bar}] {done}/{total} {note()}".rstrip(" "))
    stream.flush()
