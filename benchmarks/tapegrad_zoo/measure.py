"""Time one program in one library, in a process of its own: python -m tapegrad_zoo.measure ...

Prints one line of JSON. A library that fails says so in `reason`, and has no times.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tapegrad_zoo.contenders import Timed, make
from tapegrad_zoo.program import entries

WARM_UP = 10
"""Steps before the first that counts: all batches have been seen then."""

LEAST, MOST = 5, 200
"""Repeats of some steps each."""

QUANTUM = 0.004
"""A repeat lasts at least so many seconds, so that clock and synchronisation do not show."""


def measure(timed: Timed, seconds: float) -> dict[str, Any]:
    """Return the seconds of the first call and of later steps, and the first loss."""
    start = time.perf_counter()
    result = timed.step()
    timed.synchronize(result)
    first = time.perf_counter() - start
    loss = timed.loss(result)
    fastest = min(_seconds(timed, 1) for _ in range(WARM_UP))
    count = max(1, min(1000, round(QUANTUM / max(fastest, 1e-9))))
    deadline = time.perf_counter() + seconds
    times: list[float] = []
    gc.disable()
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() < deadline):
        times.append(_seconds(timed, count))
    return {"first_seconds": first, "times": sorted(times), "loss": loss}


def _seconds(timed: Timed, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        result = timed.step()
    timed.synchronize(result)
    return (time.perf_counter() - start) / count


def peak_memory(library: str, device: str) -> Callable[[], int | None]:
    """Return what tells the most bytes in use, on the GPU if the program runs there."""
    if device == "cpu":
        import resource

        return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if library == "torch":
        import torch

        return lambda: int(torch.cuda.max_memory_allocated())
    if library == "jax":
        import jax

        return lambda: int(jax.devices()[0].memory_stats()["peak_bytes_in_use"])
    import cupy

    return lambda: int(cupy.get_default_memory_pool().total_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("name", "library", "mode", "device"):
        parser.add_argument(name)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    found = {"library": options.library, "mode": options.mode, "reason": ""}
    program = next(entry.program for entry in entries() if entry.name == options.name)
    try:
        timed = make(options.library, options.mode, program, options.device)
        found |= measure(timed, options.seconds)
        found["peak_bytes"] = peak_memory(options.library, options.device)()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        found["reason"] = f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
