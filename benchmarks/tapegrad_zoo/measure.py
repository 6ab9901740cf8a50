"""What a process of the zoo does: check programs, or time one in one library and mode."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from tapegrad_bench.counters import host_bytes
from tapegrad_bench.evidence import Evidence
from tapegrad_bench.timing import wait_for_programs
from tapegrad_zoo.check import check
from tapegrad_zoo.contenders import Timed, make
from tapegrad_zoo.program import Cost, Entry, entries

WARM_UP = 10
"""Steps before the first that counts: all batches have been seen then."""

TURNS = 25
"""How many turns of some steps each a contender has at most."""

QUANTUM = 0.004
"""A turn lasts at least so many seconds, so that clock and synchronisation do not show."""


@dataclass(frozen=True)
class Ready:
    """What was found about a program in one library and mode before its steps are timed."""

    first_seconds: float
    loss: float | None
    """The loss of the first step, if the program has one."""


@dataclass(frozen=True)
class Usage:
    """What was found about a program in one library and mode after its steps were timed."""

    peak_bytes: int | None
    """The most memory in use, on the host beyond that of the imported library."""
    needed: Cost | None
    """The least that the step needs, where a recorded program shows it."""


class Session:
    """Answers the requests of the runner in a process of its own."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._timed: Timed | None = None
        self._peak: Callable[[], int | None] = lambda: None
        self._count = 1
        """Steps of one turn."""

    def check(self, name: str, libraries: tuple[str, ...]) -> list[str]:
        """Return how the versions of a program differ."""
        return check(find(name), libraries)

    def prepare(
        self, name: str, library: str, mode: str, seconds: float, batches: str = "device"
    ) -> Ready:
        """Make the first call and warm up; all turns together shall take about `seconds`."""
        importlib.import_module(library)
        self._peak = peak_memory(library, self._device)
        timed = self._timed = make(library, mode, find(name).program, self._device, batches)
        start = time.perf_counter()
        result = timed.step()
        timed.synchronize(result)
        first, loss = time.perf_counter() - start, timed.loss(result)
        wait_for_programs()
        fastest = _warm_up(timed, time.perf_counter() + seconds)
        turn = max(QUANTUM, seconds / TURNS)
        self._count = max(1, min(1000, round(turn / max(fastest, 1e-9))))
        gc.disable()
        return Ready(first, loss)

    def turn(self) -> float:
        """Return the seconds per step after a pause in which others had their turn.

        A step that is not counted comes first, because caches go cold in the pause.
        """
        assert self._timed is not None
        _seconds(self._timed, 1)
        return _seconds(self._timed, self._count)

    def usage(self) -> Usage:
        """Return what else is known of the program."""
        assert self._timed is not None
        peak = self._peak()  # first: reading the recorded program needs memory, too
        return Usage(peak, self._timed.needed())

    def evidence(self) -> Evidence:
        """Run the first steps once more, by the step that was timed; return what they computed."""
        assert self._timed is not None
        return self._timed.evidence()


def find(name: str) -> Entry:
    """Return the entry of the zoo with this name."""
    return next(entry for entry in entries(name) if entry.name == name)


def _warm_up(timed: Timed, deadline: float) -> float:
    """Run steps until all batches have been seen or the time is up; return the fastest."""
    fastest = _seconds(timed, 1)
    wait_for_programs()  # the second step may be recorded again
    for place in range(1, WARM_UP):
        if place > 2 and time.perf_counter() > deadline:
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
