"""Writers of summaries: the current one, the current step, and whether summaries are written."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.io.paths import local_path
from tapegrad.keras.callbacks.event_files import EventFile


class SummaryWriter:
    """Writes summaries to an event file, which TensorBoard shows; `create_file_writer` makes one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = create_file_writer(folder)
    ...     with writer.as_default(step=0):
    ...         get_step()
    ...     writer.close()
    0
    """

    def __init__(self, logdir: Any, suffix: str | None) -> None:
        self._file = None if logdir is None else EventFile(logdir, suffix or ".v2")
        self._is_closed = False
        if self._file is not None:  # programs often leave writers open
            weakref.finalize(self, self._file.close)

    @property
    def is_active(self) -> bool:
        """Whether there is a file; a writer of `create_noop_writer` has none."""
        return self._file is not None

    def add(self, summary: bytes, step: int) -> None:
        """Write one summary."""
        if self._is_closed:
            raise ArgumentError("This summary writer is closed. Make another one.")
        if self._file is not None:
            self._file.add_summary(summary, step)

    @contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """Write the summaries of a block with this writer, and with this step if it is given."""
        writer = _writer.set(self)
        token = None if step is None else _step.set(step)
        try:
            yield self
        finally:
            if token is not None:
                _step.reset(token)
            _writer.reset(writer)
            self.flush()

    def set_as_default(self, step: Any = None) -> None:
        """Write all later summaries with this writer."""
        _writer.set(self)
        if step is not None:
            _step.set(step)

    def init(self) -> None:
        """Do nothing; the file exists since the writer was made."""

    def flush(self) -> None:
        """Write what is buffered."""
        if self._file is not None and not self._is_closed:
            self._file.flush()

    def close(self) -> None:
        """Write what is buffered and close the file."""
        if self._file is not None and not self._is_closed:
            self._file.close()
        self._is_closed = True


_writer: ContextVar[SummaryWriter | None] = ContextVar("tapegrad_summary_writer", default=None)
_step: ContextVar[Any] = ContextVar("tapegrad_summary_step", default=None)
_condition: ContextVar[Any] = ContextVar("tapegrad_summary_condition", default=True)


def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
    experimental_trackable: bool = False,
) -> SummaryWriter:
    """Return a writer to a new event file in a folder.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     create_file_writer(folder).close()
    ...     len(os.listdir(folder))
    1
    """
    return SummaryWriter(local_path(logdir, "create_file_writer"), filename_suffix)


def create_noop_writer() -> SummaryWriter:
    """Return a writer that writes nothing.

    >>> create_noop_writer().is_active
    False
    """
    return SummaryWriter(None, None)


def current_writer() -> SummaryWriter | None:
    """Return the writer of the innermost `as_default` block, None if summaries go nowhere.

    >>> current_writer() is None
    True
    """
    found = _writer.get()
    return found if found is not None and found.is_active and should_record_summaries() else None


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Write what a writer has buffered, by default the current one.

    >>> flush()
    """
    found = writer or _writer.get()
    if found is not None:
        found.flush()


def get_step() -> Any:
    """Return the current step, or None.

    >>> get_step() is None
    True
    """
    return _step.get()


def set_step(step: Any) -> None:
    """Set the step of summaries that get none.

    >>> set_step(3)
    >>> get_step()
    3
    >>> set_step(None)
    """
    _step.set(step)


@contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Write the summaries of a block if a condition, or what a function returns, is true.

    >>> with record_if(False):
    ...     should_record_summaries()
    False
    """
    token = _condition.set(condition)
    try:
        yield
    finally:
        _condition.reset(token)


def should_record_summaries() -> bool:
    """Return whether summaries are written.

    >>> should_record_summaries()
    True
    """
    condition = _condition.get()
    return bool(condition() if callable(condition) else condition)


def checked_step(step: Any) -> Any:
    """Return a step, or the current one if it is None.

    >>> checked_step(3)
    3
    """
    found = _step.get() if step is None else step
    if found is None:
        raise ArgumentError(
            "A summary needs a step: pass step=..., or call writer.as_default(step=...) or "
            "summary.experimental.set_step(...) first."
        )
    is_held = isinstance(found, Tensor | Variable) or hasattr(
        found, "__array__"
    )  # Keras' variables
    if not is_held and not hasattr(found, "__index__"):
        raise ArgumentTypeError(f"step must be an integer. Got {type(found).__name__}.")
    return found
