"""The seconds of steps that get sets of inputs in turn."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from tapegrad_bench.scripts.watching import SETS
from tapegrad_bench.timing import steps_per_repeat

WARM_UP = SETS + 2
"""Steps before the first that counts: all sets have been seen then."""

LEAST, MOST = 5, 200
"""Repeats of some steps each."""


def time_steps(
    step: Callable[[], Any], synchronize: Callable[[Any], None], seconds: float, device: str
) -> list[float]:
    """Return the seconds per step of repeats that take about so many seconds together."""
    fastest = min(_repeat(step, synchronize, 1) for _ in range(WARM_UP))
    count = steps_per_repeat(fastest, device)
    deadline = time.perf_counter() + seconds
    times: list[float] = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        while len(times) < LEAST or (len(times) < MOST and time.perf_counter() < deadline):
            times.append(_repeat(step, synchronize, count))
    finally:
        if was_enabled:
            gc.enable()
    return times


def _repeat(step: Callable[[], Any], synchronize: Callable[[Any], None], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        result = step()
    synchronize(result)
    return (time.perf_counter() - start) / count


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, with the name of its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no message'}"
