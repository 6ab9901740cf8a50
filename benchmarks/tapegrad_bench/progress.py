"""How far a run is: rich's bar on a terminal if it is installed, else lines of text."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """Somebody who is told how a run gets on."""

    def __enter__(self) -> Progress:
        """Begin to show."""

    def __exit__(self, *_: object) -> None:
        """Stop showing."""

    def say(self, text: str) -> None:
        """Show what is being done."""

    def detail(self, text: str) -> None:
        """Show what is not worth a line of its own."""

    def advance(self) -> None:
        """One more part is done."""


def progress_on(stream: TextIO | None, total: int) -> Progress:
    """Return the progress that fits the stream; without one nothing is shown.

    >>> import io
    >>> with progress_on(io.StringIO(), 2) as progress:
    ...     progress.advance()
    """
    if stream is None:
        return Lines(None, total)
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        return RichBar(stream, total)
    return Lines(stream, total)


class Lines:
    """One line of text per thing that is done."""

    def __init__(self, stream: TextIO | None, total: int) -> None:
        self._stream, self._total, self._done = stream, total, 0
        self._start = time.perf_counter()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.flush()

    def say(self, text: str) -> None:
        if self._stream is None:
            return
        seconds = time.perf_counter() - self._start
        self._stream.write(f"[{seconds:5.0f} s, {self._done}/{self._total}] {text}\n")
        self._stream.flush()

    def detail(self, text: str) -> None:
        """Lines cannot be taken back."""

    def advance(self) -> None:
        self._done += 1


class RichBar:
    """rich's progress bar."""

    def __init__(self, stream: TextIO, total: int) -> None:
        rich = importlib.import_module("rich.progress")
        console = importlib.import_module("rich.console").Console(file=stream)
        self._bar: Any = rich.Progress(
            rich.SpinnerColumn(),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=total)

    def __enter__(self) -> RichBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        # rich reads square brackets as styles.
        self._bar.update(self._task, description=text.replace("[", r"\["))

    detail = say

    def advance(self) -> None:
        self._bar.advance(self._task)


def terminal() -> TextIO:
    """Where progress goes: standard output is for results."""
    return sys.stderr
