"""`memory_info`: how much memory a device has in use, and had at most."""

from __future__ import annotations

from tapegrad.core.backend import Memory
from tapegrad.core.device import backend_for, current_device, resolve_device


def memory_info(device: str | None = None) -> dict[str, int | None]:
    """Return the bytes in use now ("current") and at most ("peak") on a device.

    Without a name it is the current device. On CUDA devices the numbers are those of CuPy's
    memory pool, with sizes rounded up to 512 bytes; on the CPU those of Python's `tracemalloc`,
    which sees NumPy's arrays. What nobody counted is None: on the CPU both, until
    `tracemalloc.start()`; on CUDA the peak, until the first `reset_peak_memory()`, because
    counting it makes every allocation a little slower.

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
    """Count the peak of a device (by default the current one) anew from now on.

    On CUDA devices only what this thread allocates can raise the peak.

    >>> reset_peak_memory("cpu")
    """
    _memory(device).reset_peak()


def _memory(device: str | None) -> Memory:
    name = current_device() if device is None else resolve_device(device)
    return backend_for(name).memory(name)
