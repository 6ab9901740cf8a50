"""What a process holds: memory, open files and threads, and whether they grew."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measures:
    """What the process held at one moment."""

    resident: int
    """Bytes of memory of the process."""
    blocks: int
    """Blocks of memory that Python allocated and holds."""
    files: int
    threads: int


def measured() -> Measures:
    """Return what this process holds now; 0 where the system does not say."""
    table = Path("/proc/self/statm")
    pages = int(table.read_text(encoding="ascii").split()[1]) if table.exists() else 0
    page = os.sysconf("SC_PAGE_SIZE") if pages else 0
    folder = Path("/proc/self/fd")
    files = len(list(folder.iterdir())) if folder.exists() else 0
    blocks = sys.getallocatedblocks()
    return Measures(pages * page, blocks, files, threading.active_count())


def wait_for_threads(least: int, seconds: float = 10.0) -> None:
    """Wait until no more threads run: one that reads ahead ends soon after its reader."""
    end = time.monotonic() + seconds
    while threading.active_count() > least and time.monotonic() < end:
        time.sleep(0.05)


def growth(measures: Sequence[Measures], most: float) -> list[str]:
    """Say what grew by more than a share between the second and the last third.

    The first third warms up: programs are recorded and caches fill.
    """
    third = len(measures) // 3
    if third == 0:
        return []
    before, after = measures[third : 2 * third], measures[-third:]
    found = []
    for name in ("resident", "blocks"):
        sizes = [statistics.median(getattr(m, name) for m in part) for part in (before, after)]
        if sizes[1] > sizes[0] * (1 + most):
            found.append(f"{name} grew from {sizes[0]:,.0f} to {sizes[1]:,.0f}")
    for name in ("files", "threads"):
        highest = [max(getattr(m, name) for m in part) for part in (before, after)]
        if highest[1] > highest[0]:
            found.append(f"the number of {name} grew from {highest[0]} to {highest[1]}")
    return found


def traced_growth(sizes: Sequence[int], most: int = 100_000) -> list[str]:
    """Say where the second of two traced segments left more bytes behind than the first.

    A trainer with its programs is left by each; `most` is for tables that fill slowly.
    """
    pairs = zip(sizes[::2], sizes[1::2], strict=False)
    return [
        f"traced memory grew from {one:,} to {other:,} bytes"
        for one, other in pairs
        if other > one + most
    ]
