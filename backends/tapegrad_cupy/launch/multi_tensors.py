"""Process many tensors in one launch: their addresses and sizes are passed as arguments by value.

Every block works on one chunk of one tensor. A table tells it which. Its columns are the addresses
of the arrays of all tensors, then their sizes, then the number of each tensor's first block.
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

from tapegrad_cupy.launch.cuda_source import FULL_GRID, THREADS

Array = Any

_NO_SWITCH = nullcontext()
_current_device = cupy.cuda.runtime.getDevice

_TABLE_BYTES = 3900
"""The largest table: all arguments of a kernel take at most 4096 bytes."""

SMALL = 16
"""The number of tensors in the smaller of the two tables that a kernel is compiled for."""


TENSOR_OF_BLOCK = r"""
// Find the tensor of this block by binary search in the first blocks of all tensors.
__device__ __forceinline__ int tensor_of_block(const int* first, int tensors) {
    int low = 0, high = tensors - 1;
    while (low < high) {
        int middle = (low + high + 1) >> 1;
        if (first[middle] <= (int)blockIdx.x) low = middle; else high = middle - 1;
    }
    return low;
}
"""


def capacities(columns: int, beside: int = 0) -> tuple[int, int]:
    """Return the number of tensors in the smaller and the larger table.

    `columns` is the number of addresses per tensor, and `beside` the bytes of the arguments other
    than the table and a few numbers. Both results are 0 if not even one tensor fits.
    """
    # An even number keeps the arguments after the last column aligned to 8 bytes.
    large = max(_TABLE_BYTES - beside, 0) // (8 * columns + 12) // 2 * 2
    return min(SMALL, large), large


class Part(NamedTuple):
    """The tensors of one launch, by their positions in the whole list. None of them is empty.

    `ending` is the end of the table: the sizes and first blocks, which do not depend on addresses.
    """

    positions: list[int]
    blocks: int
    capacity: int
    ending: bytes

    def column(self, addresses: Sequence[int]) -> bytes:
        """Return a column of the table, given the addresses of all tensors of the whole list."""
        chosen = [addresses[at] for at in self.positions]
        return struct.pack(f"{len(chosen)}Q", *chosen).ljust(8 * self.capacity, b"\0")

    def table(self, *columns: Sequence[int]) -> bytes:
        """Return the table with these columns."""
        return b"".join([*map(self.column, columns), self.ending])


class Layout(NamedTuple):
    """The launches for tensors of given sizes. A block processes `chunk` elements."""

    chunk: int
    capacity: int
    parts: list[Part]


@functools.lru_cache(maxsize=256)
def layout(sizes: tuple[int, ...], width: int, columns: int, beside: int = 0) -> Layout:
    """Return the launches for tensors of these sizes, which are read `width` elements at a time.

    `columns` and `beside` are as in `capacities`.
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
    """Return the elements per block, a multiple of what its threads read at once.

    Large lists get about four times the blocks that fill the device, so that the last blocks cause
    little waiting. Short lists get short chunks, so that all multiprocessors are used.
    """
    step = THREADS * width
    return max(1, -(-total // (4 * FULL_GRID * step))) * step


def aligned_inputs(arrays: Sequence[Array]) -> tuple[Sequence[Array], list[int]]:
    """Return the arrays contiguous and aligned to 16 bytes, copied if necessary, and addresses.

    The caller keeps the arrays alive until the launch.
    """
    addresses = [array.data.ptr for array in arrays if array._c_contiguous]
    if len(addresses) < len(arrays) or functools.reduce(or_, addresses, 0) & 15:
        arrays = [
            array if array._c_contiguous and not array.data.ptr & 15 else array.copy(order="C")
            for array in arrays
        ]
        addresses = [array.data.ptr for array in arrays]
    return arrays, addresses


def device_of(arrays: Sequence[Array]) -> int:
    """Return the number of the device that holds all arrays, or -1 if they are on several."""
    numbers = {array.data.device_id for array in arrays}
    return numbers.pop() if len(numbers) == 1 else -1


def on_device(number: int) -> Any:
    """Return a context manager that makes a device the current one."""
    return _NO_SWITCH if _current_device() == number else cupy.cuda.Device(number)
