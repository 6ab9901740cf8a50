"""Device memory: usage counters, cached blocks and copies from the host."""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.runtime.device_to_host import (
    PendingRead,
    check_not_capturing,
    release_finished_copies,
)
from tapegrad_cupy.runtime.graph_pools import bytes_in_graphs

PIECE = 2 * 2**20
"""Bytes of one staging buffer."""

MOST_AT_ONCE = 2 * PIECE
"""Bytes of an array up to which CuPy's copy in one piece is as fast as a copy in pieces."""

PIECES = 32
"""Number of staging buffers. When all are in use, the host waits for the oldest copy."""

WORKERS = min(4, os.cpu_count() or 1)
"""Threads that fill staging buffers: one thread fills them more slowly than a device reads them."""


# Counters


class PeakHook(cupy.cuda.MemoryHook):  # type: ignore[misc]  # CuPy has no types
    """Records the peak of the bytes in use per device, sampled after each allocation.

    CuPy calls a hook only in the thread that installed it.
    """

    name = "tapegrad peak memory"

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}

    def malloc_postprocess(self, *, device_id: int, **_: Any) -> None:
        used = cupy.get_default_memory_pool().used_bytes()
        if used > self.peaks.get(device_id, 0):
            self.peaks[device_id] = used

    def install(self) -> None:
        """Start recording in this thread. Repeated calls have no effect."""
        cupy.cuda.memory_hook.get_memory_hooks().setdefault(self.name, self)


_hook = PeakHook()


class CudaMemory:
    """The memory of one device, as CuPy's default pool counts it.

    The peak is recorded only after the first `reset_peak`, because its hook slows down every
    allocation. `libraries` returns the name and state of each optional library.
    """

    def __init__(self, number: int, libraries: Callable[[], list[tuple[str, str]]]) -> None:
        self._number = number
        self._libraries = libraries

    @property
    def description(self) -> str:
        name = cupy.cuda.runtime.getDeviceProperties(self._number)["name"].decode()
        with cupy.cuda.Device(self._number):
            free, total = cupy.cuda.runtime.memGetInfo()
        return (
            f"{name}, {total / 2**30:.1f} GiB of which {free / 2**30:.1f} are free, "
            f"CuPy {cupy.__version__}"
        )

    def libraries(self) -> list[tuple[str, str]]:
        return self._libraries()

    def read_later(self, array: Any) -> PendingRead:
        with cupy.cuda.Device(self._number):
            return PendingRead(array)

    def used(self) -> tuple[int | None, int | None]:
        with cupy.cuda.Device(self._number):
            current: int = cupy.get_default_memory_pool().used_bytes()
            kept = bytes_in_graphs(self._number)
        peak = _hook.peaks.get(self._number)
        return current + kept, None if peak is None else max(peak, current) + kept

    def reset_peak(self) -> None:
        _hook.install()
        with cupy.cuda.Device(self._number):
            _hook.peaks[self._number] = cupy.get_default_memory_pool().used_bytes()

    def release(self) -> None:
        _stage.clear()
        release_finished_copies()
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        with cupy.cuda.Device(self._number):
            cupy.get_default_memory_pool().free_all_blocks()

    def set_limit(self, most: int | None) -> bool:
        with cupy.cuda.Device(self._number):
            cupy.get_default_memory_pool().set_limit(size=most or 0)  # CuPy: 0 for no limit
        return True


# From the host


class Stage:
    """A ring of page-locked buffers through which large arrays are copied to a device.

    Threads fill buffers while the device copies from those that are full, on the current stream. An
    event per buffer tells when it can be filled again. The page-locked memory is bounded for arrays
    of any size.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, Any]] = deque()
        self._lock = threading.Lock()

    def copy(self, value: np.ndarray) -> Any:
        """Return a copy of `value` on the current device."""
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
        target = cupy.empty(value.shape, value.dtype)
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        filling: deque[tuple[Any, Any, int, Future[None]]] = deque()
        with self._lock:
            for start in range(0, data.size, PIECE):
                piece = data[start : start + PIECE]
                buffer = self._next_buffer()
                filled = _workers().submit(_fill, buffer, piece)
                filling.append((target.data + start, buffer, piece.size, filled))
                if len(filling) >= WORKERS:
                    self._send(*filling.popleft())
            while filling:
                self._send(*filling.popleft())
        return target

    def _send(self, target: Any, buffer: Any, size: int, filled: Future[None]) -> None:
        filled.result()
        stream = cupy.cuda.get_current_stream()
        target.copy_from_host_async(buffer.ptr, size, stream)
        # An event belongs to one device, so it cannot be kept with the buffer.
        event = stream.record(cupy.cuda.Event(disable_timing=True))
        self._waiting.append((buffer, event))

    def _next_buffer(self) -> Any:
        if len(self._waiting) < PIECES:
            try:
                return cupy.cuda.alloc_pinned_memory(PIECE)
            except cupy.cuda.runtime.CUDARuntimeError:
                if not self._waiting:
                    raise
        buffer, event = self._waiting.popleft()
        event.synchronize()
        return buffer

    def clear(self) -> None:
        """Wait for the pending copies and free the buffers."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft()[1].synchronize()


_stage = Stage()


@functools.cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "tapegrad-staging")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _fill(buffer: Any, piece: np.ndarray) -> None:
    np.frombuffer(buffer, np.uint8, piece.size)[...] = piece


def copy_to_device(value: np.ndarray) -> Any:
    """Copy a host array to the current device asynchronously, on the current stream.

    The values are first copied to page-locked memory, so `value` may change after the call.
    """
    check_not_capturing("Placing", value)
    if value.nbytes > MOST_AT_ONCE:
        return _stage.copy(value)
    if value.ndim and cupy.cuda.pinned_memory.is_memory_pinned(value.ctypes.data):
        value = value.copy()  # CuPy would read the original when the copy runs
    if not value.ndim and value == 0:
        # CuPy clears the memory for a 0-d zero, which would lose the sign of -0.0.
        return cupy.array(value.reshape(1)).reshape(())
    return cupy.array(value)
