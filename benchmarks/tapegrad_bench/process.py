"""The runner's end of a worker process."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tapegrad_bench.adapters import Contender
from tapegrad_bench.worker import Session, serve

THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)

ON_CPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "TAPEGRAD_DEVICE": "cpu"}

ON_CUDA = {
    # Or the first process would take most of the memory for itself.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}

ALWAYS = {"TF_CPP_MIN_LOG_LEVEL": "3"}


_starting = threading.Lock()
"""Held while the environment is a worker's."""


class WorkerError(Exception):
    """A request was not answered with a result; the message says why."""


class NotSupportedError(WorkerError):
    """The library says that it cannot do this."""


class MemoryExhaustedError(WorkerError):
    """The memory of the host or the device was not enough."""


class TooSlowError(WorkerError):
    """No answer came in time; the process has been ended."""


class Worker:
    """A process that runs one library; it is started at the first request, or before.

    It answers requests by the methods of `session(device)`. `settings` are variables of its
    environment.
    """

    def __init__(
        self,
        device: str,
        threads: int | None,
        preload: Sequence[Contender] = (),
        session: Callable[[str], Any] = Session,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._device, self._threads, self._preload = device, threads, tuple(preload)
        self._session, self._more_settings = session, dict(settings or {})
        self.generation = 0
        """How many processes there have been; a new one knows nothing of the one before."""
        self._process: Any = None
        self._connection: Any = None
        self._log = Path()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, without waiting for it."""
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        descriptor, name = tempfile.mkstemp(prefix="tapegrad-bench-", suffix=".log")
        os.close(descriptor)
        self._log = Path(name)
        cores = _cores(self._device, self._threads)
        arguments = (theirs, name, self._device, cores, self._preload, self._session)
        self.generation += 1
        self._process = context.Process(target=serve, args=arguments)
        with _starting, _environment(self._settings()):
            self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def _settings(self) -> dict[str, str]:
        settings = {**ALWAYS, **(ON_CPU if self._device == "cpu" else ON_CUDA)}
        if self._threads is not None and self._device == "cpu":
            settings.update(dict.fromkeys(THREAD_SETTINGS, str(self._threads)))
        return {**settings, **self._more_settings}

    def request(self, name: str, *arguments: Any, timeout: float | None = None) -> Any:
        """Ask for something and wait for the answer; after `timeout` seconds end the process."""
        with self._lock:
            self.start()
            connection = self._connection
            try:
                connection.send((name, arguments))
                if not connection.poll(timeout):
                    self.stop()
                    raise TooSlowError(f"no answer within {timeout:.0f} seconds")
                status, value = connection.recv()
            except (EOFError, OSError) as error:
                raise WorkerError(self._last_words()) from error
        if status == "unsupported":
            raise NotSupportedError(value)
        if status == "exhausted":
            raise MemoryExhaustedError(value)
        if status == "failed":
            raise WorkerError(value)
        return value

    def _last_words(self) -> str:
        """Why the process ended: its exit status and the last line it wrote."""
        code = None
        if self._process is not None:
            self._process.join(5)
            code = self._process.exitcode
        lines = self._log.read_text(errors="replace").split("\n") if self._log.is_file() else []
        written = [line.strip() for line in lines if line.strip()]
        self.stop()
        last = f" Its last words: {written[-1][:300]}" if written else ""
        return f"Its process ended with exit status {code}.{last}"

    def stop(self) -> None:
        """End the process, if there is one; the next request starts a new one."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            self._connection.close()
        process.join(0.5)
        if process.is_alive():
            process.kill()
            process.join()
        self._log.unlink(missing_ok=True)


def _cores(device: str, threads: int | None) -> tuple[int, ...]:
    """The cores that a process on the CPU may use; not all libraries obey settings of threads."""
    if device != "cpu" or threads is None or not hasattr(os, "sched_getaffinity"):
        return ()
    here = sorted(os.sched_getaffinity(0))
    return tuple(here[-threads:])


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """A new process inherits the environment that is there when it starts."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
