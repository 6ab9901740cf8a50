"""`report`: a block whose run is described in an HTML file."""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tapegrad.core.eager_hooks import switch_hook
from tapegrad.core.event_log import LOGS, EventLog
from tapegrad.core.files.atomic import replacing
from tapegrad.debug.reports.memory_curve import MemoryCurve
from tapegrad.debug.reports.page import page_of
from tapegrad.debug.reports.summary import summary_of
from tapegrad.debug.reports.trace import trace_of
from tapegrad.errors import AlreadyExistsError, ArgumentError

_SWITCHES = ("memory", "events")


class report:  # noqa: N801  # used like a function
    """Describe the run of a block in one HTML file, which needs no other file and no network.

    The page has a timeline of the operations by the user's lines, the time of each line, the memory
    over time, what tapes held, why functions were recorded, why gradients were None, waits for
    data, and losses. The file is also written if the block raises. `trace` is the path of a second
    file, for https://ui.perfetto.dev or chrome://tracing.

    Operations are slower meanwhile, since each is noted with its line; the page says by how much.
    On a GPU the times are those of the host, which queues the kernels.

    >>> import tapegrad
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with report(f"{folder}/run.html") as made:
    ...         x = tapegrad.ones([8]) * 2.0
    ...     page = made.path.read_text(encoding="utf-8")
    >>> page[:15], made.summary["counts"]["kernel"] > 0
    ('<!doctype html>', True)
    """

    summary: dict[str, Any]
    """What the page shows, as values that JSON can hold; set at the end of the block."""
    error: BaseException | None = None
    """What ended the program, if that is not the exception that leaves the block."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        trace: str | os.PathLike[str] | None = None,
        title: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.trace = None if trace is None else Path(trace)
        self._title = Path(sys.argv[0]).name or "tapegrad" if title is None else title
        for file in (self.path, self.trace):
            if file is not None and not file.parent.is_dir():
                raise ArgumentError(f"There is no folder {file.parent} for the report.")

    def __enter__(self) -> report:
        if LOGS:
            raise AlreadyExistsError(
                "A report is being made. End its block before another one begins; "
                "one report can hold several parts of a program."
            )
        self._curve = MemoryCurve()
        self._log = EventLog()
        self._log.on_arrays.append(self._curve.note)
        LOGS.append(self._log)
        for switch in _SWITCHES:
            switch_hook(switch, True)
        self._curve.sample_process()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        with _quiet_end(self._log):
            self._curve.sample_process()
            self.summary = summary_of(
                self._log, self._curve, self._title, _sentence(error or self.error)
            )
            trace = trace_of(self._log, self._curve)
        _write(self.path, page_of(self.summary))
        if self.trace is not None:
            _write(self.trace, json.dumps(trace))


@contextmanager
def _quiet_end(log: EventLog) -> Iterator[None]:
    """Stop noting at the end of the block, whatever happens in it, and without collections."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if log in LOGS:
            LOGS.remove(log)
        for switch in _SWITCHES:
            switch_hook(switch, False)
        if was_enabled:
            gc.enable()


def _sentence(error: BaseException | None) -> str:
    """Return the last line of a traceback, "" for the usual end of a program."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return ""
    return "".join(traceback.format_exception_only(error)).strip()


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
