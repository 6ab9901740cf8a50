"""The memory of a CUDA graph: a pool, or one block in which everything has its planned place.

What a capture allocates and frees comes out the same the next time. So a first capture, from a
pool, tells sizes and lifetimes; where the pool, which cannot move what it handed out, took much
more than is in use at once, a second capture gets places that were planned.
"""

from __future__ import annotations

import weakref
from typing import Any

import cupy

from tapegrad.core.arena import Request, plan
from tapegrad_cupy.graph_pools import note_pool
from tapegrad_cupy.updates.multi_tensors import on_device

WORTH = 32 << 20
"""Bytes saved for which a program is captured once more."""

CUDA_ERRORS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
_OUT_OF_MEMORY = 2

_retired: list[tuple[int, Any]] = []
STATE = {"capturing": False}


class ChangedError(Exception):
    """A capture asked for other memory than the one before."""


class Memory:
    """All that one graph allocates, kept for its life: captured kernels work on it."""

    def __init__(self, device: int, places: Places | None = None) -> None:
        self.pool = cupy.cuda.MemoryPool(_allocate)
        self.pool.set_limit(size=0)  # at a limit it would free what captured kernels work on
        self.made: set[int] = set()
        self._device = device
        self._lives = _Lives()
        self._places = places
        self._block: Any = self.pool.malloc(places.size) if places is not None else None
        note_pool(self, device, self.pool)
        weakref.finalize(self, _retired.append, (device, self.pool)).atexit = False

    def malloc(self, size: int) -> Any:
        number = self._lives.begin(size)
        if self._places is None:
            pointer = self._watched(number, self.pool.malloc(size), size)
        else:
            offset = self._places.offset(number, size)
            if offset is None:  # a result: it may outlive the graph, and must not keep the block
                pointer = self.pool.malloc(size)
            else:
                self._lives.check_alone(number, offset, size)
                pointer = self._watched(number, self._block + offset, size)
        self.made.add(pointer.mem.ptr)
        return pointer

    def _watched(self, number: int, place: Any, size: int) -> Any:
        """Return a pointer to the same memory that tells when nobody has it any more."""
        life = _Life(self._lives, number, place)
        memory = cupy.cuda.UnownedMemory(place.ptr, size, life, self._device)
        return cupy.cuda.MemoryPointer(memory, 0)

    def better_places(self) -> Places | None:
        """Return planned places if they save much of what the pool took."""
        places = Places(self._lives)
        saved = int(self.pool.total_bytes()) - places.size - places.results
        return places if saved > WORTH else None


class _Lives:
    """Sizes of allocations in their order, and between which of them each one lived."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.ends: dict[int, int] = {}
        self._in_use: dict[int, tuple[int, int]] = {}

    def begin(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def end(self, number: int) -> None:
        self.ends[number] = len(self.sizes) - 1
        self._in_use.pop(number, None)

    def check_alone(self, number: int, offset: int, size: int) -> None:
        """Raise if a place is still in use: then something lived longer than the time before."""
        end = offset + size
        if any(begin < end and offset < other for begin, other in self._in_use.values()):
            raise ChangedError
        self._in_use[number] = (offset, end)


class _Life:
    """Ends with what it stands for, and then with the memory below."""

    __slots__ = ("_lives", "_number", "_place")

    def __init__(self, lives: _Lives, number: int, place: Any) -> None:
        self._lives, self._number, self._place = lives, number, place

    def __del__(self) -> None:
        self._lives.end(self._number)


class Places:
    """Where allocations lie in one block, in their order; those that never ended have no place."""

    def __init__(self, lives: _Lives) -> None:
        self._sizes = list(lives.sizes)
        ended = sorted(lives.ends)
        requests = [Request(lives.sizes[k], k, lives.ends[k]) for k in ended]
        found = plan(requests)
        self._offsets = dict(zip(ended, found.offsets, strict=True))
        self.size = found.size
        self.results = sum(n for k, n in enumerate(self._sizes) if k not in self._offsets)

    def offset(self, number: int, size: int) -> int | None:
        if number >= len(self._sizes) or self._sizes[number] != size:
            raise ChangedError
        return self._offsets.get(number)


def _allocate(size: int) -> Any:
    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if not is_out_of_memory(error):
            raise
        # CuPy's own error would make the pool free what it can, and try again.
        raise MemoryError(f"the device has no room for {size} bytes") from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device had no room."""
    if isinstance(error, CUDA_ERRORS):
        return bool(error.status == _OUT_OF_MEMORY)
    return isinstance(error, MemoryError)


def free_retired() -> None:
    """Free the memory of graphs that are gone, but for results that somebody still holds."""
    if STATE["capturing"]:  # freeing waits for the device, which a capture must not
        return
    for device, pool in [_retired.pop() for _ in range(len(_retired))]:
        with on_device(device):
            pool.free_all_blocks()
            # A pool that goes away with memory in use never gives it back.
            if pool.total_bytes():
                _retired.append((device, pool))
