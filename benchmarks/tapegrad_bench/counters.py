"""What a step does besides taking time: memory of the host, kernels and copies on the device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = 3
_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def host_bytes(field: str) -> int | None:
    """Return a line of /proc/self/status in bytes ("VmRSS", "VmHWM"); None where there is none."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * 1024 if values else None


def host_peak_of(run: Callable[[], Any]) -> int | None:
    """Return the most memory this process had while `run` ran, if the system counts it."""
    try:
        _RESET.write_text("5")  # Linux: forget the peak so far
    except OSError:
        run()
        return None
    run()
    return host_bytes("VmHWM")


def count_kernels(
    step: Callable[[], Any], synchronize: Callable[[Any], None]
) -> tuple[float, float] | None:
    """Return kernels and copies between host and device per step.

    PyTorch's profiler sees every kernel of the process, whichever library launched it. Without
    PyTorch nobody counts. It slows later launches down, so the process should not time after it.
    """
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    profiler = importlib.import_module("torch.profiler")
    torch.cuda.init()
    for _ in range(2):  # the first time it misses what it is too busy starting for
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(STEPS):
                result = step()
            synchronize(result)
            torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    names = [event.name for event in profile.events() if event.device_type == cuda]
    copies = sum("Memcpy" in name and ("HtoD" in name or "DtoH" in name) for name in names)
    kernels = sum(not name.startswith(("Memcpy", "Memset")) for name in names)
    return kernels / STEPS, copies / STEPS
