"""Events and memory of CUDA through CuPy, for the libraries that compute on CuPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy


class CupyStopwatch:
    """Two events on the current stream."""

    def __init__(self) -> None:
        self._first, self._last = cupy.cuda.Event(), cupy.cuda.Event()

    def start(self) -> None:
        self._first.record()

    def stop(self) -> float:
        self._last.record()
        self._last.synchronize()
        return float(cupy.cuda.get_elapsed_time(self._first, self._last)) / 1000


class _Peak(cupy.cuda.MemoryHook):  # type: ignore[misc]  # CuPy has no types
    """Listens only inside a `with`, because it makes every allocation slower."""

    name = "tapegrad bench peak"

    def __init__(self) -> None:
        self.bytes = 0

    def malloc_postprocess(self, **_: Any) -> None:
        self.bytes = max(self.bytes, allocated())


def allocated() -> int:
    """Bytes in use in CuPy's pool."""
    return int(cupy.get_default_memory_pool().used_bytes())


def peak_of(run: Callable[[], Any]) -> int:
    """The most bytes in use while `run` runs."""
    before = allocated()
    with _Peak() as peak:
        run()
        synchronize()
    return max(int(peak.bytes), before)


def synchronize() -> None:
    """Wait for the current device."""
    cupy.cuda.Device().synchronize()
