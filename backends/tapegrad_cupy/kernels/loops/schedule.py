"""Schedules: how the work of a loop is divided among threads and blocks."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from tapegrad_cupy.kernels.loops.geometry import Geometry
from tapegrad_cupy.launch.cuda_source import FULL_GRID, THREADS

MOST_PARTS = 2048
"""The most blocks that share one result of a reduction, since one block combines their parts."""

MOST_PARTS_OF_WRITERS = 16384
"""The same for loops that also write whole arrays. Short blocks use the memory better there (4 % on
an H200), and combining the parts is a small fraction of the work."""


ENOUGH_THREADS = 1 << 18
"""Threads that fill an H200; more of them may do several pieces of work each."""

MOST_RUN_BITS = 3
"""The binary logarithm of the most rows that a thread adds up before it changes memory."""


class Schedule(NamedTuple):
    """The form of the loop (flat, rows, columns or stages) and the numbers of threads and blocks.

    `lanes` threads work side by side on a row of vectors. `parts` blocks share each result, out of
    `blocks` in total. In a loop with stages a thread holds `held` vectors of an input in registers;
    with 0 each pass loads them again. Registers must suffice for `at_once` blocks of such a loop
    on a multiprocessor. Passes share `shared` values of each element. In a flat loop that adds rows
    a thread processes `run` neighbouring rows.
    """

    form: str
    threads: int
    lanes: int
    parts: int
    blocks: int
    unroll: int = 1
    held: int = 0
    at_once: int = 1
    shared: int = 0
    run: int = 1

    @property
    def counters(self) -> int:
        """The number of groups of blocks that share results."""
        return self.blocks // self.parts if self.parts > 1 else 0


def schedule(geometry: Geometry, writes: bool) -> Schedule:
    """Return the schedule of a loop; `writes` tells whether it has elementwise results."""
    if not any(geometry.is_combined):
        run = run_length(geometry)
        vectors = prod(sizes_of_runs(geometry, run)) // geometry.width
        return Schedule("flat", THREADS, THREADS, 1, -(-vectors // THREADS), run=run)
    if geometry.by_columns:
        return _columns(geometry)
    return _rows(geometry, writes)


def run_axis(geometry: Geometry) -> int | None:
    """Return the axis along which the rows of all outputs that add rows follow each other.

    None if there is no such output, or if a vector of elements goes to different rows.
    """
    axes = set()
    for one in geometry.added.values():
        moved = [d for i in one.inputs for d, step in enumerate(geometry.reads[i]) if step]
        if one.varies or any(i in geometry.gathers for i in one.inputs) or not moved:
            return None
        axes.add(max(moved))
    return axes.pop() if len(axes) == 1 else None


def run_length(geometry: Geometry) -> int:
    """Return how many rows a thread adds up if neighbouring ones have equal indices."""
    if run_axis(geometry) is None:
        return 1
    vectors = geometry.count(combined=False) // geometry.width
    return 1 << min(MOST_RUN_BITS, max(0, (vectors // ENOUGH_THREADS).bit_length() - 1))


def sizes_of_runs(geometry: Geometry, run: int) -> tuple[int, ...]:
    """Return the sizes of the axes if a thread processes `run` rows."""
    axis = run_axis(geometry) if run > 1 else None
    return tuple(-(-n // run) if d == axis else n for d, n in enumerate(geometry.sizes))


def _rows(geometry: Geometry, writes: bool) -> Schedule:
    rows = geometry.count(combined=False)
    vectors = geometry.count(combined=True) // geometry.width
    lanes = 32
    while lanes < THREADS and lanes * 2 <= vectors:
        lanes *= 2
    if lanes <= 32:
        while lanes > 1 and lanes >= 2 * vectors:
            lanes //= 2
    if not writes and not geometry.reads_whole:
        # Nothing waits for memory. Fewer threads per row leave fewer partial results to combine.
        while lanes > 32 and rows * (lanes // 2) >= FULL_GRID * THREADS // 2:
            lanes //= 2
    per_block = THREADS // lanes
    if per_block > 1:
        unroll = 2 if vectors > lanes else 1
        return Schedule("rows", THREADS, lanes, 1, -(-rows // per_block), unroll)
    # A block pays off from four vectors per thread on.
    short = max(1, vectors // (THREADS * 4))
    if writes:
        parts = min(short, max(1, MOST_PARTS_OF_WRITERS // rows))
        return Schedule("rows", THREADS, lanes, parts, rows * parts, unroll=4)
    parts = min(short, MOST_PARTS, -(-2 * FULL_GRID // rows))
    return Schedule("rows", THREADS, lanes, parts, rows * parts, unroll=2)


def _columns(geometry: Geometry) -> Schedule:
    vectors = geometry.count(combined=False) // geometry.width
    rows = geometry.count(combined=True)
    lanes = 32
    while lanes > 1 and lanes >= 2 * vectors:
        lanes //= 2
    down = THREADS // lanes
    tiles = -(-vectors // lanes)
    parts = min(MOST_PARTS, -(-FULL_GRID // tiles), max(1, rows // (down * 4)))
    return Schedule("columns", THREADS, lanes, parts, tiles * parts, unroll=4)
