"""Many tensors in one launch: their addresses and sizes travel by value with its arguments.

Every block works on one chunk of one tensor. A table tells it which: column by column the addresses
of the tensors' arrays, then their sizes, then the number of each one's first block.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import accumulate
from operator import or_
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.compiled import FULL, THREADS

Array = Any

_HERE = nullcontext()
_current_device = cupy.cuda.runtime.getDevice

_ROOM = 3900
"""Bytes for tables: the most that kernels take is 4096, and each has some numbers besides."""

SMALL = 16
"""Tensors in the smaller of the two tables that a kernel is compiled for."""


def capacities(columns: int, beside: int = 0) -> tuple[int, int]:
    """Return how many tensors of that many addresses the smaller and the larger table take.

    `beside` are the bytes of arguments besides a table and a few numbers. With too many addresses
    for one tensor both are 0.
    """
    # An even number keeps what comes after the last column at a multiple of 8 bytes.
    large = max(_ROOM - beside, 0) // (8 * columns + 12) // 2 * 2
    return min(SMALL, large), large


class Part(NamedTuple):
    """The tensors of one launch, by their positions in the whole list, none of them empty.

    `ending` is the end of their table: sizes and first blocks, which do not depend on addresses.
    """

    positions: list[int]
    blocks: int
    capacity: int
    ending: bytes

    def column(self, places: Sequence[int]) -> bytes:
        """Return a column of the table from addresses of all tensors of the whole list."""
        chosen = [places[at] for at in self.positions]
        return struct.pack(f"{len(chosen)}Q", *chosen).ljust(8 * self.capacity, b"\0")

    def table(self, *columns: Sequence[int]) -> bytes:
        """Return the table with these columns."""
        return b"".join([*map(self.column, columns), self.ending])


class Layout(NamedTuple):
    """The launches for tensors of given sizes; a block takes `chunk` elements."""

    chunk: int
    capacity: int
    parts: list[Part]


@functools.lru_cache(maxsize=256)
def layout(sizes: tuple[int, ...], width: int, columns: int, beside: int = 0) -> Layout:
    """Return how to launch on tensors of these sizes, read `width` elements at a time.

    `columns` is the number of addresses per tensor; `beside` is explained at `capacities`.
    """
    chunk = _chunk(sum(sizes), width)
    small, large = capacities(columns, beside)
    capacity = small if len(sizes) <= small else large
    filled = [at for at, size in enumerate(sizes) if size]
    parts = []
    for start in range(0, len(filled), capacity):
        positions = filled[start : start + capacity]
        lengths = [sizes[at] for at in positions]
        firsts = [0, *accumulate(-(-length // chunk) for length in lengths)]
        blocks = firsts.pop()
        ending = struct.pack(f"{len(lengths)}q", *lengths).ljust(8 * capacity, b"\0")
        ending += struct.pack(f"{len(firsts)}i", *firsts)
        parts.append(Part(positions, blocks, capacity, ending))
    return Layout(chunk, capacity, parts)


def _chunk(total: int, width: int) -> int:
    """Return how many elements a block takes, a multiple of what its threads read at once.

    Many elements get about four times the blocks that fill the device, so that none waits long
    for the last; few get short chunks, so that all multiprocessors have something to do.
    """
    step = THREADS * width
    return max(1, -(-total // (4 * FULL * step))) * step


def readable(arrays: Sequence[Array]) -> tuple[Sequence[Array], list[int]]:
    """Return contiguous arrays that start at 16 bytes, and where they start; keep the arrays."""
    places = [array.data.ptr for array in arrays if array._c_contiguous]
    if len(places) < len(arrays) or functools.reduce(or_, places, 0) & 15:
        arrays = [
            array if array._c_contiguous and not array.data.ptr & 15 else array.copy(order="C")
            for array in arrays
        ]
        places = [array.data.ptr for array in arrays]
    return arrays, places


def device_of(arrays: Sequence[Array]) -> int:
    """Return the device that holds all arrays, or -1 if they lie on several."""
    numbers = {array.data.device_id for array in arrays}
    return numbers.pop() if len(numbers) == 1 else -1


def on_device(number: int) -> Any:
    """Return a context in which that device is the current one."""
    return _HERE if _current_device() == number else cupy.cuda.Device(number)
