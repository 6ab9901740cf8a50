"""Page-locked memory through which arrays of the host are copied to a device."""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np

PIECE = 2 * 2**20
"""Bytes of one staging buffer of large arrays."""

PIECES = 32
"""Number of staging buffers. When all are in use, the host waits for the oldest copy."""

WORKERS = min(4, os.cpu_count() or 1)
"""Threads that fill staging buffers: one thread fills them more slowly than a device reads them."""

ALIGNMENT = 256
"""Arrays in one block of memory begin at multiples of this number, as kernels expect it."""

_FIRST_RING = 2**20
_LARGE_RING = 64 * 2**20
"""Rings hold four of the largest arrays up to this size, and two beyond it."""

_TO_DEVICE = 1
"""The value of cudaMemcpyHostToDevice."""

_PARTS = 8
"""How many events cover a ring: fewer are cheaper, more let the host wait for less."""


def aligned(nbytes: int) -> int:
    """Return a size rounded up to whole units of alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def copy_async(target: int, source: int, nbytes: int, stream: Any) -> None:
    """Start to copy memory of the host to the device, by addresses."""
    cupy.cuda.runtime.memcpyAsync(target, source, nbytes, _TO_DEVICE, stream.ptr)


def recorded_event(stream: Any) -> Any:
    """Return an event that is reached when a stream has done what was submitted so far."""
    event = cupy.cuda.Event(disable_timing=True)
    event.record(stream)
    return event


def pinned_memory(nbytes: int) -> np.ndarray:
    """Return page-locked memory as bytes, or ordinary memory if there is no more of it."""
    try:
        return np.frombuffer(cupy.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)
    except cupy.cuda.runtime.CUDARuntimeError:
        # CUDA copies from ordinary memory too, before the call returns, but more slowly.
        return np.empty(nbytes, np.uint8)


class PinnedRing:
    """Page-locked memory that copies on one stream use in turn.

    The host waits only if the ring is full, for the oldest copies. The ring grows to at least twice
    the size of the largest array. All positions count from the beginning of time; the place in
    memory is the remainder by the size.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._bytes = np.empty(0, np.uint8)
        self._base = 0
        self._head = self._tail = self._marked = 0
        self._marks: deque[tuple[int, Any]] = deque()

    @property
    def size(self) -> int:
        return self._bytes.size

    def send(self, value: np.ndarray, target: int) -> None:
        """Copy an array to an address of the device; it may change after the call."""
        start = self.reserve(value.nbytes)
        self.view(start, value.shape, value.dtype.newbyteorder("="))[...] = value
        self.copy(start, target, value.nbytes)

    def reserve(self, nbytes: int) -> int:
        """Return the position of free memory; `copy` must follow before the next reservation."""
        wanted = aligned(nbytes)
        if 2 * wanted > self.size:
            self._grow(wanted)
        start, room = self._head, self.size - self._head % self.size
        if wanted > room:
            start += room
        end = start + wanted
        while end - self._tail > self.size:
            if not self._marks:
                self._mark()
            self._tail, event = self._marks.popleft()
            event.synchronize()
        self._head = end
        return start

    def view(self, start: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return the memory at a position as an array."""
        return np.ndarray(shape, dtype, self._bytes, start % self.size)

    def copy(self, start: int, target: int, nbytes: int) -> None:
        """Start to copy the memory at a position to an address of the device."""
        copy_async(target, self._base + start % self.size, nbytes, self._stream)
        if self._head - self._marked >= self.size // _PARTS:
            self._mark()

    def clear(self) -> None:
        """Wait for the pending copies and free the memory."""
        if self._head > self._marked:
            self._mark()
        while self._marks:
            self._marks.popleft()[1].synchronize()
        self._head = self._tail = self._marked = 0
        self._bytes = np.empty(0, np.uint8)

    def _mark(self) -> None:
        self._marks.append((self._head, recorded_event(self._stream)))
        self._marked = self._head

    def _grow(self, wanted: int) -> None:
        self.clear()
        least = 4 * wanted if 4 * wanted <= _LARGE_RING else 2 * wanted
        size = max(_FIRST_RING, 1 << (least - 1).bit_length())
        self._bytes = pinned_memory(size)
        self._base = self._bytes.ctypes.data


class Stage:
    """A ring of page-locked buffers through which large arrays are copied to a device.

    Threads fill buffers while the device copies from those that are full. An event per buffer tells
    when it can be filled again. The page-locked memory is bounded for arrays of any size.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, Any]] = deque()
        self._lock = threading.Lock()

    def send(self, value: np.ndarray, target: Any, stream: Any) -> None:
        """Copy an array to the memory of a device on a stream; it may change after the call."""
        value = value.astype(value.dtype.newbyteorder("="), copy=False)
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        filling: deque[tuple[Any, Any, int, Future[None]]] = deque()
        with self._lock:
            for start in range(0, data.size, PIECE):
                piece = data[start : start + PIECE]
                buffer = self._next_buffer()
                filled = _workers().submit(_fill, buffer, piece)
                filling.append((target + start, buffer, piece.size, filled))
                if len(filling) >= WORKERS:
                    self._copy(stream, *filling.popleft())
            while filling:
                self._copy(stream, *filling.popleft())

    def _copy(self, stream: Any, target: Any, buffer: Any, size: int, filled: Future[None]) -> None:
        filled.result()
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


@functools.cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "tapegrad-staging")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _fill(buffer: Any, piece: np.ndarray) -> None:
    np.frombuffer(buffer, np.uint8, piece.size)[...] = piece
