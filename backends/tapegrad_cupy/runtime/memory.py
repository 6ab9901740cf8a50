"""Device memory: usage counters and cached blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

from tapegrad_cupy.runtime.device_to_host import PendingRead, release_finished_copies
from tapegrad_cupy.runtime.graph_pools import bytes_in_graphs
from tapegrad_cupy.runtime.host_to_device import release_buffers

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
        release_buffers()
        release_finished_copies()
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        with cupy.cuda.Device(self._number):
            cupy.get_default_memory_pool().free_all_blocks()

    def set_limit(self, most: int | None) -> bool:
        with cupy.cuda.Device(self._number):
            cupy.get_default_memory_pool().set_limit(size=most or 0)  # CuPy: 0 for no limit
        return True
