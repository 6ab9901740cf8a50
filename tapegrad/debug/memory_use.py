"""`memory_info`: the current and the peak memory use of a device."""

from __future__ import annotations

from tapegrad.core.backend.protocol import Memory
from tapegrad.core.values.device import backend_for, current_device, resolve_device


def memory_info(device: str | None = None) -> dict[str, int | None]:
    """Return the bytes in use now ("current") and the maximum so far ("peak") on a device.

    The default is the current device. On CUDA devices the numbers are those of CuPy's memory pool,
    with sizes rounded up to 512 bytes. On the CPU they come from Python's `tracemalloc`, which
    tracks NumPy arrays. A number that was not tracked is None: on the CPU both, until
    `tracemalloc.start()`; on CUDA the peak, until the first `reset_peak_memory()`, because
    tracking it slows down each allocation.

    >>> import tracemalloc
    >>> tracemalloc.start()
    >>> info = memory_info("cpu")
    >>> tracemalloc.stop()
    >>> info["current"] <= info["peak"]
    True
    """
    current, peak = _memory(device).used()
    return {"current": current, "peak": peak}


def reset_peak_memory(device: str | None = None) -> None:
    """Reset the peak of a device (by default the current one) and track it from now on.

    On CUDA devices only allocations of this thread raise the peak.

    >>> reset_peak_memory("cpu")
    """
    _memory(device).reset_peak()


def _memory(device: str | None) -> Memory:
    name = current_device() if device is None else resolve_device(device)
    return backend_for(name).memory(name)
