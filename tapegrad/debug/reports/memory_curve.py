"""The memory over time, by the lines that made the arrays."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from tapegrad.core.memory_trace import owner_of

MOST_CHANGES = 500_000
"""How many allocations and frees are kept; the curve ends there."""

SAMPLES = 240
"""How many points the curve has in the report."""

MOST_BANDS = 8
"""How many lines have a separate band; the others share one."""

OTHERS = "other lines"
_SAMPLE_EVERY = 20_000_000
_STATM = "/proc/self/statm"


class MemoryCurve:
    """The allocations and frees of arrays that operations make."""

    def __init__(self) -> None:
        self._live: dict[int, tuple[Any, int, str]] = {}
        self.changes: list[tuple[int, str, int]] = []
        """Times, lines, and bytes that were allocated or, below zero, freed."""
        self.process: list[tuple[int, int]] = []
        """Times and the bytes of memory of the whole process, where the system says them."""
        self._next_sample = 0
        self.is_cut = False

    def note(self, operands: Sequence[Any], result: Any, site: str) -> None:
        """Note the arrays of a result that are new, and not views of operands."""
        now = perf_counter_ns()
        if now >= self._next_sample:
            self._next_sample = now + _SAMPLE_EVERY
            self.sample_process()
        if len(self.changes) >= MOST_CHANGES:
            self.is_cut = True
            return
        for array in result if isinstance(result, tuple | list) else (result,):
            owner = owner_of(array)
            target = owner if type(owner).__weakrefoffset__ else array
            number = id(owner)
            if number in self._live or not type(target).__weakrefoffset__:
                continue
            if any(owner is owner_of(operand) for operand in operands):
                continue
            size = int(getattr(owner, "nbytes", 0) or getattr(array, "nbytes", 0))
            if not size:
                continue
            reference = weakref.ref(target, partial(self._freed, number))
            self._live[number] = (reference, size, site)
            self.changes.append((now, site, size))

    def _freed(self, number: int, reference: Any) -> None:
        found = self._live.get(number)
        if found is not None and found[0] is reference:
            del self._live[number]
            self.changes.append((perf_counter_ns(), found[2], -found[1]))

    def sample_process(self) -> None:
        """Note the memory of the process."""
        try:
            with open(_STATM, encoding="ascii") as file:
                pages = int(file.read().split()[1])
        except OSError:
            return  # only Linux has this file
        self.process.append((perf_counter_ns(), pages * 4096))

    def peak(self) -> int:
        """The most bytes that were allocated at once."""
        total = most = 0
        for _, _, change in self.changes:
            total += change
            most = max(most, total)
        return most


def bands(
    changes: Sequence[tuple[int, str, int]], start: int, end: int
) -> tuple[list[int], dict[str, list[int]]]:
    """Return times, and the bytes of each line at them; each time is that of a local maximum.

    >>> bands([(0, "a", 8), (4, "b", 2), (6, "a", -8)], 0, 8)[1]["a"][-1]
    0
    """
    width = max(1, (end - start) // SAMPLES + 1)
    held: dict[str, int] = {}
    times: list[int] = []
    points: list[dict[str, int]] = []
    place, total = 0, 0
    for bucket in range(start, end, width):
        best, most, at = dict(held), total, bucket
        while place < len(changes) and changes[place][0] < bucket + width:
            time, site, size = changes[place]
            held[site] = held.get(site, 0) + size
            total += size
            if total > most:
                best, most, at = dict(held), total, time
            place += 1
        times.append(at)
        points.append(best)
    times.append(end)
    points.append(dict(held))
    return times, _largest(points)


def _largest(points: Sequence[dict[str, int]]) -> dict[str, list[int]]:
    """Return the bands of the lines with the most memory at any time, and one of the others."""
    most: dict[str, int] = {}
    for point in points:
        for site, size in point.items():
            most[site] = max(most.get(site, 0), size)
    own = sorted(most, key=lambda site: -most[site])[:MOST_BANDS]
    found = {site: [point.get(site, 0) for point in points] for site in own}
    if len(most) > len(own):
        rest = [sum(size for site, size in p.items() if site not in found) for p in points]
        found[OTHERS] = rest
    return found
