"""Copies from the host to a CUDA device, which never wait for the device unless buffers are full.

All values are first copied to page-locked memory (staging.py), so an array may change as soon as
the call returns. The arrays of a small batch travel in one copy on the current stream. Larger
batches are copied on a stream of their own while the current stream still computes the previous
step, into memory that the step before it has released.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad.core.ownership import reference_counts
from tapegrad_cupy.runtime.array_references import watched, why_not_counted
from tapegrad_cupy.runtime.device_to_host import check_not_capturing
from tapegrad_cupy.runtime.staging import (
    PinnedRing,
    Stage,
    aligned,
    copy_async,
    pinned_memory,
    recorded_event,
)

Array = Any
HostArray = np.ndarray

MOST_AT_ONCE = 4 * 2**20
"""Bytes of an array up to which one thread copies it to page-locked memory."""

LEAST_OVERLAPPED = 256 * 1024
"""Bytes of a batch from which a stream of its own saves more than its events cost."""

MOST_PACKED = LEAST_OVERLAPPED - 1
"""The most bytes of a batch that is one block of memory: an array that is kept keeps the block."""

MOST_OVERLAPPED = 256 * 2**20
"""The most bytes of a batch whose memory is kept for later batches."""

MOST_KEPT = 16
"""The most buffers that are kept for later batches."""

MOST_WATCHED = 64
"""The most buffers in use that are watched; those that are held for longest are given up."""

SLOTS = (4, 16)
"""The least and the most page-locked copies of a small batch: the steps that the host may be ahead.

There are fewer of larger batches, so that all copies stay in a cache of the host.
"""

CACHED = 2**20
"""Bytes of all page-locked copies of a small batch, if there are more than the least."""

MOST_PACKS = 32
"""The most kinds of small batches that have page-locked memory."""

MOST_STREAMS = 8
"""The most streams that have staging memory."""


class Pack:
    """Small arrays of certain shapes and dtypes, which are parts of one block and one copy.

    The arrays are the same objects at each call as long as nothing else holds them, so that a graph
    that reads them need not be changed. The host fills page-locked copies of the block in turn.
    """

    def __init__(self, kinds: Sequence[tuple[tuple[int, ...], Any]], stream: Any) -> None:
        sizes = [aligned(_nbytes(shape, dtype)) for shape, dtype in kinds]
        self._kinds, self._stream, self._total = kinds, stream, sum(sizes)
        self._offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        least, most = SLOTS
        count = max(least, min(most, CACHED // self._total)) // 2 * 2
        pinned = pinned_memory(count * self._total)
        starts = [slot * self._total for slot in range(count)]
        self._sources = [pinned.ctypes.data + start for start in starts]
        self._slots = [
            [
                np.ndarray(shape, dtype, pinned, start + at)
                for (shape, dtype), at in zip(kinds, self._offsets, strict=True)
            ]
            for start in starts
        ]
        self._turn = 0
        self._events: list[Any] = [None, None]
        self._make_arrays()

    def _make_arrays(self) -> None:
        memory = cupy.cuda.alloc(self._total)
        self._target: int = memory.ptr
        self._arrays = [
            cupy.ndarray(shape, dtype, memory + at)
            for (shape, dtype), at in zip(self._kinds, self._offsets, strict=True)
        ]
        del memory
        self._watched = watched(self._arrays)
        self._alone = reference_counts(self._watched)

    def send(self, values: Sequence[HostArray]) -> list[Array]:
        """Return a copy of the arrays on the device."""
        count = len(self._slots)
        slot, self._turn = self._turn, (self._turn + 1) % count
        half, place = divmod(slot, count // 2)
        if place == 0 and self._events[half] is not None:
            self._events[half].synchronize()
        for view, value in zip(self._slots[slot], values, strict=True):
            view[...] = value
        if why_not_counted() or reference_counts(self._watched) != self._alone:
            self._make_arrays()
        copy_async(self._target, self._sources[slot], self._total, self._stream)
        if place == count // 2 - 1:
            self._events[half] = recorded_event(self._stream)
        return [*self._arrays]

    def wait(self) -> None:
        """Wait for the copies from page-locked memory, which is freed afterwards."""
        recorded_event(self._stream).synchronize()


class Buffer:
    """Memory of a device for one array of a batch, and when the last step has read it."""

    __slots__ = ("_alone", "_counted", "pointer", "released", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.pointer = cupy.cuda.alloc(size)
        self.released: Any = None
        self._counted = (self.pointer, self.pointer.mem)
        self._alone = reference_counts(self._counted)

    def is_unused(self) -> bool:
        """Return whether no array has this memory any more."""
        return not why_not_counted() and reference_counts(self._counted) == self._alone


class StepBuffers:
    """Memory for batches that are copied while the previous step computes.

    A buffer is used again once no array has it. The copy into it waits for the work that the home
    stream had at that moment, which is the step that read the buffer, but not for later steps.
    Arrays that are held for long keep their memory, and the buffer is given up.
    """

    def __init__(self, home: Any) -> None:
        self._home = home
        self._used: list[Buffer] = []
        self._free: deque[Buffer] = deque()
        self._now: Any = None

    def begin(self) -> None:
        """Collect the buffers that were released since the last batch."""
        self._now = None
        used = []
        for buffer in self._used:
            if buffer.is_unused():
                buffer.released = self._reached()
                self._free.append(buffer)
            else:
                used.append(buffer)
        self._used = used[-MOST_WATCHED:]
        while len(self._free) > MOST_KEPT or self._bytes() > 2 * MOST_OVERLAPPED:
            self._free.popleft()

    def take(self, nbytes: int, copying: Any) -> Any:
        """Return a pointer to memory that the stream `copying` may write to."""
        size = aligned(nbytes)
        buffer = self._released_before(size)
        if buffer is None:
            buffer = Buffer(size)
            # The home stream may still use the memory for the array that had it before.
            buffer.released = self._reached()
        copying.wait_event(buffer.released)
        self._used.append(buffer)
        return buffer.pointer

    def clear(self) -> None:
        """Free all memory that no array has."""
        self._used.clear()
        self._free.clear()

    def _released_before(self, size: int) -> Buffer | None:
        """Return a buffer that the last step does not read; the copy would have to wait for it."""
        for k, buffer in enumerate(self._free):
            if buffer.size == size and buffer.released is not self._now:
                del self._free[k]
                return buffer
        return None

    def _reached(self) -> Any:
        """Return an event that all work of the home stream up to `begin` precedes."""
        if self._now is None:
            self._now = recorded_event(self._home)
        return self._now

    def _bytes(self) -> int:
        return sum(buffer.size for buffer in self._free)


class Uploads:
    """The copies to one device for the work of one stream of it, the home stream."""

    def __init__(self, home: Any) -> None:
        self.lock = threading.RLock()  # a finalizer may place an array in the middle of a copy
        self._home = home
        self._ring = PinnedRing(home)
        self._packs: dict[Any, Pack] = {}
        self._buffers = StepBuffers(home)
        self._copying: Any = None
        self._copying_ring: Any = None

    def packed(self, values: Sequence[HostArray]) -> list[Array]:
        """Copy arrays in one piece, on the home stream."""
        kinds = tuple([(value.shape, value.dtype) for value in values])
        pack = self._packs.get(kinds)
        if pack is None:
            if len(self._packs) >= MOST_PACKS:
                self._forget_packs()
            native = [(value.shape, _native(value)) for value in values]
            pack = self._packs[kinds] = Pack(native, self._home)
        return pack.send(values)

    def _forget_packs(self) -> None:
        for pack in self._packs.values():
            pack.wait()
        self._packs.clear()

    def in_order(self, values: Sequence[HostArray]) -> list[Array]:
        """Copy arrays one after another, on the home stream."""
        arrays = []
        for value in values:
            array = cupy.ndarray(value.shape, _native(value))
            self._send(value, array.data, self._home, self._ring)
            arrays.append(array)
        return arrays

    def overlapped(self, values: Sequence[HostArray]) -> list[Array]:
        """Copy arrays while the home stream computes; its later work waits for the copies."""

        def send(value: HostArray, pointer: Any) -> None:
            self._send(value, pointer, self._copying, self._copying_ring)

        return self._beside([(value.shape, _native(value)) for value in values], values, send)

    def gathered(self, arrays: Sequence[HostArray], rows: HostArray) -> list[Array]:
        """Copy rows of arrays while the home stream computes; they are gathered where they go."""

        def send(value: HostArray, pointer: Any) -> None:
            ring, shape = self._copying_ring, (len(rows), *value.shape[1:])
            nbytes = len(rows) * (value.nbytes // max(len(value), 1))
            start = ring.reserve(nbytes)
            # With mode="raise" NumPy would gather into a temporary buffer first.
            np.take(value, rows, 0, ring.view(start, shape, value.dtype), mode="clip")
            ring.copy(start, pointer.ptr, nbytes)

        kinds = [((len(rows), *value.shape[1:]), value.dtype) for value in arrays]
        return self._beside(kinds, arrays, send)

    def _beside(
        self,
        kinds: Sequence[tuple[tuple[int, ...], Any]],
        values: Sequence[HostArray],
        send: Callable[[HostArray, Any], None],
    ) -> list[Array]:
        if self._copying is None:
            self._copying = cupy.cuda.Stream(non_blocking=True)
            self._copying_ring = PinnedRing(self._copying)
        copying, buffers = self._copying, self._buffers
        buffers.begin()
        arrays = []
        try:
            for (shape, dtype), value in zip(kinds, values, strict=True):
                nbytes = _nbytes(shape, dtype)
                if not nbytes:
                    arrays.append(cupy.ndarray(shape, dtype))
                    continue
                pointer = buffers.take(nbytes, copying)
                send(value, pointer)
                arrays.append(cupy.ndarray(shape, dtype, pointer))
        finally:  # what was copied must arrive before the home stream gets the memory again
            self._home.wait_event(recorded_event(copying))
        return arrays

    def _send(self, value: HostArray, pointer: Any, stream: Any, ring: PinnedRing) -> None:
        if value.nbytes > MOST_AT_ONCE:
            _stage.send(value, pointer, stream)
        elif value.nbytes:
            ring.send(value, pointer.ptr)

    def clear(self) -> None:
        """Wait for the pending copies, and free all memory that no array has."""
        with self.lock:
            self._forget_packs()
            self._ring.clear()
            if self._copying_ring is not None:
                self._copying_ring.clear()
            self._buffers.clear()


def _nbytes(shape: Sequence[int], dtype: Any) -> int:
    size: int = math.prod(shape) * dtype.itemsize
    return size


def _native(value: HostArray) -> Any:
    dtype = value.dtype
    return dtype if dtype.isnative else dtype.newbyteorder("=")


_stage = Stage()
_uploads: OrderedDict[tuple[int, ...], Uploads] = OrderedDict()
_lock = threading.Lock()
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream
_PER_THREAD = 2
"""The address of CUDA's default stream per thread, which is another stream in each thread."""


def _uploads_here() -> Uploads:
    stream = _current_stream()
    address: int = stream.ptr
    key = (_current_device(), address, threading.get_ident() if address == _PER_THREAD else 0)
    found = _uploads.get(key)
    if found is not None:
        return found
    with _lock:
        if len(_uploads) >= MOST_STREAMS:
            _uploads.popitem(last=False)[1].clear()
        return _uploads.setdefault(key, Uploads(stream))


def copy_to_device(value: HostArray) -> Array:
    """Copy a host array to the current device asynchronously, on the current stream.

    The values are first copied to page-locked memory, so `value` may change after the call.
    """
    check_not_capturing("Placing", value)
    here = _uploads_here()
    with here.lock:
        return here.in_order([value])[0]


def place_batch(values: Sequence[HostArray], as_one: bool) -> list[Array]:
    """Copy host arrays that are used together, in one piece or beside the work of the stream.

    With `as_one` they may be parts of one block of memory. The values are first copied to
    page-locked memory, so the arrays may change after the call.
    """
    total = sum([value.nbytes for value in values])
    check_not_capturing("Placing", values[0])
    here = _uploads_here()
    with here.lock:
        if 0 < total <= MOST_PACKED and (as_one or len(values) == 1):
            return here.packed(values)
        if not LEAST_OVERLAPPED <= total <= MOST_OVERLAPPED or why_not_counted():
            return here.in_order(values)
        return here.overlapped(values)


def place_gathered(arrays: Sequence[HostArray], rows: HostArray) -> list[Array]:
    """Copy rows of host arrays, which are gathered directly into page-locked memory."""
    check_not_capturing("Placing", arrays[0])
    here = _uploads_here()
    with here.lock:
        return here.gathered(arrays, rows)


def release_buffers() -> None:
    """Wait for the pending copies, and free the staging memory and unused memory of batches."""
    _stage.clear()
    with _lock:
        for uploads in _uploads.values():
            uploads.clear()
