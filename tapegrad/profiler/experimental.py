"""TensorFlow's `tf.profiler.experimental`: the functions that take time, found by cProfile.

A profile is a file for Python's `pstats` under `logdir/plugins/profile`. It covers the thread that
has called `start`. Kernels on a GPU are not in it: `explain()` of a recorded function describes its
program.
"""

from __future__ import annotations

import cProfile
import os
from contextlib import AbstractContextManager
from pathlib import Path
from time import strftime
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import AlreadyExistsError, UnavailableError

__all__ = ["Profile", "ProfilerOptions", "Trace", "start", "stop"]

_running: list[tuple[cProfile.Profile, Path]] = []


class ProfilerOptions(NamedTuple):
    """Options of a profile; they are kept and change nothing.

    >>> ProfilerOptions().host_tracer_level
    2
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


def start(logdir: Any, options: Any = None) -> None:
    """Begin a profile, which `stop` writes to a folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     start(folder)
    ...     stop()
    """
    if _running:
        raise AlreadyExistsError("A profile is running. Call tapegrad.profiler.experimental.stop.")
    profile = cProfile.Profile()
    profile.enable()
    _running.append((profile, Path(os.fspath(logdir))))


def stop(save: bool = True) -> None:
    """End the profile, and write it unless `save` is False."""
    if not _running:
        raise UnavailableError("No profile runs. Call tapegrad.profiler.experimental.start first.")
    profile, logdir = _running.pop()
    profile.disable()
    if save:
        folder = logdir / "plugins" / "profile" / strftime("%Y_%m_%d_%H_%M_%S")
        folder.mkdir(parents=True, exist_ok=True)
        profile.dump_stats(folder / "host.pstats")


class Profile:
    """Profile the code of a `with` block.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Profile(folder):
    ...     pass
    """

    def __init__(self, logdir: Any, options: Any = None) -> None:
        self._logdir, self._options = logdir, options

    def __enter__(self) -> None:
        start(self._logdir, self._options)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        stop()


class Trace(AbstractContextManager["Trace"]):
    """Name the code of a `with` block, such as one training step; profiles have functions only.

    >>> with Trace("train", step_num=1, _r=1) as trace:
    ...     trace.set_metadata(loss=0.5)
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name, self.metadata = name, dict(kwargs)

    def set_metadata(self, **kwargs: Any) -> None:
        """Add facts about the block."""
        self.metadata.update(kwargs)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        return None


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("profiler.experimental", name)


_check_calls(globals(), __all__)
