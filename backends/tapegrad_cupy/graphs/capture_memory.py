"""The memory of a CUDA graph: a pool, or one block with planned offsets.

Two captures of a program allocate and free in the same order. A first capture allocates from a pool
and records sizes and lifetimes. If the pool takes much more memory than is in use at once, a second
capture allocates at planned offsets of one block.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import cupy

from tapegrad.core.arena import Request, plan
from tapegrad_cupy.launch.multi_tensors import on_device
from tapegrad_cupy.runtime.graph_pools import track_pool

WORTH = 32 << 20
"""The bytes saved from which a program is captured a second time."""

CUDA_ERRORS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
_OUT_OF_MEMORY = 2

_retired: list[tuple[int, Any]] = []
STATE = {"capturing": False}


class ChangedError(Exception):
    """A capture allocated other memory than the capture before it."""


class GraphMemory:
    """All memory that one graph allocates, kept as long as the graph, since its kernels use it."""

    def __init__(self, device: int, plan: BlockPlan | None = None) -> None:
        self.pool = cupy.cuda.MemoryPool(_allocate)
        self.pool.set_limit(size=0)  # at a limit it would free memory that captured kernels use
        self.made: set[int] = set()
        self._device = device
        self._lifetimes = _Lifetimes()
        self._given: list[tuple[int, int]] = []
        self._plan = plan
        self._block: Any = self.pool.malloc(plan.size) if plan is not None else None
        track_pool(self, device, self.pool)
        weakref.finalize(self, _retired.append, (device, self.pool)).atexit = False

    def malloc(self, size: int) -> Any:
        number = self._lifetimes.begin(size)
        if self._plan is None:
            pointer = self._tracked(number, self.pool.malloc(size), size)
        else:
            offset = self._plan.offset(number, size)
            if offset is None:  # a result: it may outlive the graph, and must not keep the block
                pointer = self.pool.malloc(size)
            else:
                self._lifetimes.check_free(number, offset, size)
                pointer = self._tracked(number, self._block + offset, size)
        self.made.add(pointer.mem.ptr)
        self._given.append((pointer.ptr, size))
        return pointer

    def same_again(self) -> Callable[[int], Any]:
        """Return an allocator that gives the same addresses again, for a capture that never runs.

        It raises ChangedError if other sizes are asked for.
        """
        given = iter(self._given)

        def malloc(size: int) -> Any:
            address, known = next(given, (0, -1))
            if size != known:
                raise ChangedError
            memory = cupy.cuda.UnownedMemory(address, size, self, self._device)
            return cupy.cuda.MemoryPointer(memory, 0)

        return malloc

    def _tracked(self, number: int, pointer: Any, size: int) -> Any:
        """Return a pointer to the same memory, whose destruction ends the lifetime."""
        lifetime = _Lifetime(self._lifetimes, number, pointer)
        memory = cupy.cuda.UnownedMemory(pointer.ptr, size, lifetime, self._device)
        return cupy.cuda.MemoryPointer(memory, 0)

    def better_plan(self) -> BlockPlan | None:
        """Return a plan for one block if it saves much of the pool's memory."""
        found = BlockPlan(self._lifetimes)
        saved = int(self.pool.total_bytes()) - found.size - found.results
        return found if saved > WORTH else None


class _Lifetimes:
    """The sizes of allocations in their order, and the last allocation during each lifetime."""

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

    def check_free(self, number: int, offset: int, size: int) -> None:
        """Raise ChangedError if memory is in use: an allocation outlived that of the first run."""
        end = offset + size
        if any(begin < end and offset < other for begin, other in self._in_use.values()):
            raise ChangedError
        self._in_use[number] = (offset, end)


class _Lifetime:
    """Keeps the memory of an allocation, and records the end of its lifetime when it is deleted."""

    __slots__ = ("_lifetimes", "_number", "_pointer")

    def __init__(self, lifetimes: _Lifetimes, number: int, pointer: Any) -> None:
        self._lifetimes, self._number, self._pointer = lifetimes, number, pointer

    def __del__(self) -> None:
        self._lifetimes.end(self._number)


class BlockPlan:
    """The offsets of allocations in one block; those whose lifetime never ended have none."""

    def __init__(self, lifetimes: _Lifetimes) -> None:
        self._sizes = list(lifetimes.sizes)
        ended = sorted(lifetimes.ends)
        requests = [Request(lifetimes.sizes[k], k, lifetimes.ends[k]) for k in ended]
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
        # CuPy's own error would make the pool free its blocks and try again.
        raise MemoryError(f"the device has no room for {size} bytes") from error


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that the device ran out of memory."""
    if isinstance(error, CUDA_ERRORS):
        return bool(error.status == _OUT_OF_MEMORY)
    return isinstance(error, MemoryError)


def free_retired() -> None:
    """Free the memory of deleted graphs, except for results that are still in use."""
    if STATE["capturing"]:  # freeing waits for the device, which is not allowed during a capture
        return
    for device, pool in [_retired.pop() for _ in range(len(_retired))]:
        with on_device(device):
            pool.free_all_blocks()
            # A pool that is deleted while its memory is in use never frees it.
            if pool.total_bytes():
                _retired.append((device, pool))
