"""Compile many kernels at the same time: the compiler runs without the interpreter's lock."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

import cupy

from tapegrad_cupy.launch.launch import Kernel

_MOST_THREADS = 16
_PATIENCE = 10.0
"""The most seconds that the end of the process waits for the kernels that are being compiled."""


class _State:
    """How many threads compile a kernel now, and whether the process ends."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.compiling = 0
        self.is_ending = False

    def begin(self) -> bool:
        """Count one more compilation, unless the process ends; return whether it may begin."""
        with self.changed:
            self.compiling += not self.is_ending
            return not self.is_ending

    def end(self) -> None:
        """Count one compilation less."""
        with self.changed:
            self.compiling -= 1
            self.changed.notify_all()


_state = _State()


def compile_kernels(kernels: Sequence[Kernel]) -> None:
    """Compile kernels for the current device.

    A kernel that cannot be compiled raises its error when it is launched.
    """
    device = cupy.cuda.runtime.getDevice()
    missing = [kernel for kernel in dict.fromkeys(kernels) if not kernel.is_compiled(device)]
    if not missing:
        return
    waiting = iter(missing)
    # If several threads are the first ones to compile, NVRTC 13.0 does not find its headers.
    _compile(islice(waiting, 1), device)
    count = min(len(missing) - 1, os.cpu_count() or 1, _MOST_THREADS)
    # The threads of an executor would keep the interpreter from ending until they are done.
    threads = [
        threading.Thread(target=_compile, args=[waiting, device], daemon=True)
        for _ in range(count - 1)
    ]
    with suppress(RuntimeError):  # the process may have no more threads
        for thread in threads:
            thread.start()
    _compile(waiting, device)
    for thread in threads:
        if thread.ident is not None:
            thread.join()


def _compile(waiting: Iterator[Kernel], device: int) -> None:
    """Compile kernels until none is waiting; threads share the iterator of a list."""
    cupy.cuda.runtime.setDevice(device)
    for kernel in waiting:
        if not _state.begin():
            return
        try:
            with suppress(Exception):
                kernel.prepare(device)
        finally:
            _state.end()


def _end() -> None:
    """Wait for the compiler, whose library is unloaded when the process ends."""
    with _state.changed:
        _state.is_ending = True
        _state.changed.wait_for(lambda: not _state.compiling, _PATIENCE)


def _start_child() -> None:
    """Give a forked process, in which no thread compiles, a new state."""
    _state.__init__()  # type: ignore[misc]  # other functions refer to the object


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_child)
