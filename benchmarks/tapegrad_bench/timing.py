"""How a step is timed: batches of steps that end with a synchronisation."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad_bench.adapters.library import Library, Prepared

QUANTUM = {"cpu": 0.004, "cuda": 0.06}
"""A repeat lasts at least this many seconds, so that clock and synchronisation do not show."""

MOST_STEPS = 1000
"""In one repeat."""

WARM_UP = 5
"""Steps before the first one that counts; programs are captured at the second or third."""

LONG_WARM_UP = 2.0
"""Seconds after which fewer steps have to do."""


def first_step(library: Library, prepared: Prepared) -> tuple[float, Any]:
    """Run the first step: its seconds, in which libraries compile, and its result."""
    start = time.perf_counter()
    result = prepared.step()
    library.synchronize(result)
    seconds = time.perf_counter() - start
    wait_for_programs()
    return seconds, result


def wait_for_programs() -> None:
    """Wait until tapegrad has compiled its programs, if this process uses it.

    A long program runs unfused at first, which is not what is to be timed.
    """
    tapegrad = sys.modules.get("tapegrad")
    if tapegrad is not None:
        tapegrad.wait_for_programs()


def warm_up(library: Library, prepared: Prepared) -> tuple[int, float]:
    """Run further steps: how many, and the seconds of the fastest."""
    begin = time.perf_counter()
    fastest, steps = float("inf"), 0
    while steps < WARM_UP and (steps < 2 or time.perf_counter() - begin < LONG_WARM_UP):
        fastest = min(fastest, time_steps(library, prepared, 1)[0])
        wait_for_programs()  # the second step may be recorded again
        steps += 1
    return steps, fastest


def steps_per_repeat(seconds: float, device: str) -> int:
    """Return how many steps make a repeat that is long enough.

    >>> steps_per_repeat(0.001, "cpu"), steps_per_repeat(1.0, "cuda")
    (4, 1)
    """
    return min(MOST_STEPS, max(1, round(QUANTUM[device] / max(seconds, 1e-9))))


def time_turn(library: Library, prepared: Prepared, count: int) -> tuple[float, float | None]:
    """Return the seconds per step after a pause in which others had their turn.

    A step that is not counted comes first: caches and clocks go cold in the pause, which shows in
    steps that the host is busy with, and is not how a loop of training runs.
    """
    time_steps(library, prepared, 1)
    return time_steps(library, prepared, count)


def time_steps(library: Library, prepared: Prepared, count: int) -> tuple[float, float | None]:
    """Return the seconds per step from the first call to the end of all work.

    First by the host's clock, then between two events on the device, where there are events.
    """
    step, watch = prepared.step, library.stopwatch()
    on_device = None
    with _without_collector():
        start = time.perf_counter()
        if watch is not None:
            watch.start()
        for _ in range(count):
            result = step()
        if watch is not None:
            on_device = watch.stop() / count
        library.synchronize(result)
        return (time.perf_counter() - start) / count, on_device


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python's cycle collector out of the times, as timeit does."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def best_of(run: Callable[[], Any], tries: int = 5) -> float:
    """Return the fewest seconds that `run` takes.

    >>> best_of(lambda: None) < 1
    True
    """
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
