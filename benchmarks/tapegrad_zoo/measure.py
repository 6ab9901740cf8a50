"""What a process of the zoo does: check one program, or time it in one library and mode."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from tapegrad_bench.counters import host_bytes
from tapegrad_zoo.check import check
from tapegrad_zoo.contenders import Timed, make
from tapegrad_zoo.program import Cost, Entry, entries

WARM_UP = 10
"""Steps before the first that counts: all batches have been seen then."""

LEAST, MOST = 5, 25
"""Repeats of some steps each."""

QUANTUM = 0.004
"""A repeat lasts at least so many seconds, so that clock and synchronisation do not show."""


@dataclass(frozen=True)
class Measured:
    """What was found about a program in one library and mode."""

    first_seconds: float
    times: tuple[float, ...]
    """Seconds per step, one value per repeat."""
    loss: float | None
    """The loss of the first step, if the program has one."""
    peak_bytes: int | None
    """The most memory in use, on the host beyond that of the imported library."""
    needed: Cost | None
    """The least that the step needs, where a recorded program shows it."""


class Session:
    """Answers the requests of the runner in a process of its own."""

    def __init__(self, device: str) -> None:
        self._device = device

    def check(self, name: str, libraries: tuple[str, ...]) -> list[str]:
        """Return how the versions of a program differ."""
        return check(find(name), libraries)

    def measure(self, name: str, library: str, mode: str, seconds: float) -> Measured:
        """Time a program for about so many seconds, after its first call and a warm-up."""
        importlib.import_module(library)
        peak = peak_memory(library, self._device)
        timed = make(library, mode, find(name).program, self._device)
        first, times, loss = time_steps(timed, seconds)
        # The peak comes first: reading the recorded program needs memory, too.
        return Measured(first, times, loss, peak(), timed.needed())


def find(name: str) -> Entry:
    """Return the entry of the zoo with this name."""
    return next(entry for entry in entries() if entry.name == name)


def time_steps(timed: Timed, seconds: float) -> tuple[float, tuple[float, ...], float | None]:
    """Return the seconds of the first call and of later steps, and the first loss."""
    start = time.perf_counter()
    result = timed.step()
    timed.synchronize(result)
    first = time.perf_counter() - start
    loss = timed.loss(result)
    deadline = time.perf_counter() + seconds
    fastest = _warm_up(timed, deadline)
    count = max(1, min(1000, round(max(QUANTUM, seconds / MOST) / max(fastest, 1e-9))))
    deadline = time.perf_counter() + seconds
    times: list[float] = []
    gc.disable()
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() < deadline):
        times.append(_seconds(timed, count))
    return first, tuple(sorted(times)), loss


def _warm_up(timed: Timed, deadline: float) -> float:
    """Run steps until all batches have been seen or the time is up; return the fastest."""
    fastest = _seconds(timed, 1)
    for turn in range(1, WARM_UP):
        if turn > 2 and time.perf_counter() > deadline:
            break
        fastest = min(fastest, _seconds(timed, 1))
    return fastest


def _seconds(timed: Timed, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        result = timed.step()
    timed.synchronize(result)
    return (time.perf_counter() - start) / count


def peak_memory(library: str, device: str) -> Callable[[], int | None]:
    """Return what tells the most bytes in use from now on, on the GPU if the program runs there."""
    if device == "cpu":
        before = host_bytes("VmRSS")

        def beyond() -> int | None:
            peak = host_bytes("VmHWM")
            return None if peak is None or before is None else max(0, peak - before)

        return beyond
    if library == "torch":
        import torch

        return lambda: int(torch.cuda.max_memory_allocated())
    if library == "jax":
        import jax

        return lambda: int(jax.devices()[0].memory_stats()["peak_bytes_in_use"])
    import cupy

    return lambda: int(cupy.get_default_memory_pool().total_bytes())
