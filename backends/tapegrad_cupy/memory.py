"""Memory of the CUDA devices: counters, cached blocks, and copies from the host."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.graph_pools import bytes_in_graphs
from tapegrad_cupy.libraries import libraries
from tapegrad_cupy.reading import CudaReading, forget_arrived, refuse_capture

PIECE = 32 * 2**20
"""Arrays up to this size are staged whole, larger ones piece by piece."""

PIECES = 4
"""Buffers of that size; with more of an array to copy, the host waits for the first of them."""


# Counters


class PeakHook(cupy.cuda.MemoryHook):  # type: ignore[misc]  # CuPy has no types
    """Keeps the most bytes in use per device, as seen after each allocation.

    CuPy calls hooks in the thread that installed them only.
    """

    name = "tapegrad peak memory"

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}

    def malloc_postprocess(self, *, device_id: int, **_: Any) -> None:
        used = cupy.get_default_memory_pool().used_bytes()
        if used > self.peaks.get(device_id, 0):
            self.peaks[device_id] = used

    def install(self) -> None:
        """Listen in this thread from now on; a second time changes nothing."""
        cupy.cuda.memory_hook.get_memory_hooks().setdefault(self.name, self)


_hook = PeakHook()


class CudaMemory:
    """The memory of one device, as CuPy's default pool counts it.

    The peak is counted from the first `reset_peak` on, because the hook that it takes costs about
    a microsecond per allocation.
    """

    def __init__(self, number: int) -> None:
        self._number = number

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
        return libraries()

    def read_later(self, array: Any) -> CudaReading:
        with cupy.cuda.Device(self._number):
            return CudaReading(array)

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
        forget_arrived()
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        with cupy.cuda.Device(self._number):
            cupy.get_default_memory_pool().free_all_blocks()


# From the host


class Stage:
    """Page-locked buffers through which large arrays go to a device, used in turn.

    The copy of a piece runs on the current stream while the host fills the next buffer; an event
    per buffer says when it may be filled again. So the host seldom waits, and an array of any
    size takes no more page-locked memory than these few buffers.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, Any]] = deque()
        self._lock = threading.Lock()

    def copy(self, value: np.ndarray) -> Any:
        """Return a copy of `value` on the current device."""
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
        target = cupy.empty(value.shape, value.dtype)
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        stream = cupy.cuda.get_current_stream()
        with self._lock:
            for start in range(0, data.size, PIECE):
                piece = data[start : start + PIECE]
                buffer = self._next_buffer()
                np.frombuffer(buffer, np.uint8, piece.size)[...] = piece
                (target.data + start).copy_from_host_async(buffer.ptr, piece.size, stream)
                # Events belong to the current device, so each copy records one of its own.
                event = stream.record(cupy.cuda.Event(disable_timing=True))
                self._waiting.append((buffer, event))
        return target

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
        """Wait for the copies under way and give the buffers back."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft()[1].synchronize()


_stage = Stage()


def copy_to_device(value: np.ndarray) -> Any:
    """Return a copy of a host array on the current device; the host does not wait for it.

    The copy takes its turn on the current stream. Until then the values are kept in page-locked
    memory, so that later changes of `value` do not show.
    """
    refuse_capture("Placing", value)
    if value.nbytes > PIECE:
        return _stage.copy(value)
    if value.ndim and cupy.cuda.pinned_memory.is_memory_pinned(value.ctypes.data):
        value = value.copy()  # CuPy would read the original whenever the copy gets its turn
    if not value.ndim and value == 0:
        # CuPy sets the memory of a lone zero to zeros, and the sign would be lost.
        return cupy.array(value.reshape(1)).reshape(())
    return cupy.array(value)
