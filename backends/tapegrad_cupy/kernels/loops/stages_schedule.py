"""Schedules of loops with stages: how many threads share a row, and whether registers hold it."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.loops.combinations import dtype_of
from tapegrad_cupy.kernels.loops.geometry import Geometry
from tapegrad_cupy.kernels.loops.schedule import Schedule
from tapegrad_cupy.kernels.loops.sharing import share
from tapegrad_cupy.launch.cuda_source import FULL_GRID, THREADS

WARP = 32
MOST_LANES = 1024
_FEW_THREADS = 64
"""The threads of a block with a row each, if there are too few rows for larger blocks."""

_VALUES = 32
"""The most values of an input that a thread of a warp per row holds in registers."""

_VECTORS = 8
"""The most vectors of an input that a thread holds; 4 if several warps share a row."""

MOST_SHARED = 4
"""The most values of each element that threads keep for later passes, such as an exponential."""

_FEW_REGISTERS, _REGISTERS = 48, 96
"""The most registers for a row, beside what formulas need.

The first number is for 1024 threads at a time on a multiprocessor, in one block or two.
"""


def stages_schedule(loop: Loop, geometry: Geometry) -> Schedule:
    """Return the schedule of a loop with stages.

    Up to a warp shares a row, and a block has several rows, or a block has one long row. If the row
    fits into registers, `held` is the number of vectors of each input that a thread holds.
    """
    if geometry.by_columns:
        return _schedule_of_columns(loop, geometry)
    rows = geometry.count(combined=False)
    vectors = geometry.count(combined=True) // geometry.width
    shared = len(share(loop, constant_inputs(geometry), MOST_SHARED).values)
    sizes = _sizes(loop, geometry, shared)
    lanes = _lanes_of_held_rows(sizes, geometry.width, rows, vectors)
    while not lanes and shared:  # less is kept, so that the row fits
        shared -= 1
        sizes = _sizes(loop, geometry, shared)
        lanes = _lanes_of_held_rows(sizes, geometry.width, rows, vectors)
    if lanes:
        held, unroll = -(-vectors // lanes), 1
    else:
        most = MOST_LANES if rows < FULL_GRID else MOST_LANES // 2
        lanes, held = min(most, _power_of_two_from(vectors)), 0
        unroll = 4 if len(sizes) < 5 else 2
    threads = THREADS if lanes <= WARP else lanes
    blocks = -(-rows // (threads // lanes))
    is_small = _registers(sizes, held, geometry.width) <= _FEW_REGISTERS
    at_once = 2 if threads == MOST_LANES // 2 and is_small else 1
    return Schedule("stages", threads, lanes, 1, blocks, unroll, held, at_once, shared)


def _schedule_of_columns(loop: Loop, geometry: Geometry) -> Schedule:
    """Return the schedule of rows whose neighbouring elements belong to other rows.

    A thread has a row, so that neighbouring threads read neighbouring elements.
    """
    rows, length = geometry.count(combined=False), geometry.count(combined=True)
    shared = len(share(loop, constant_inputs(geometry), MOST_SHARED).values)
    held = length if _fits(_sizes(loop, geometry, shared), 1, length, 1) else 0
    threads = THREADS if rows >= FULL_GRID * THREADS else _FEW_THREADS
    blocks = -(-rows // threads)
    return Schedule("stages", threads, 1, 1, blocks, 4, held, 1, shared if held else 0)


def held_inputs(geometry: Geometry) -> list[int]:
    """Return the inputs that a row reads from memory: they vary along it and from row to row."""
    alone = geometry.count(combined=False) == 1
    kept = [d for d, flag in enumerate(geometry.is_combined) if not flag]
    return [
        i
        for i, steps in enumerate(geometry.reads)
        if i not in geometry.windows
        and not is_constant_along_rows(geometry, i)
        and steps[-1]
        and (
            has_one_index_per_row(geometry, i)
            if i in geometry.gathers
            else alone or any(steps[d] for d in kept)
        )
    ]


def has_one_index_per_row(geometry: Geometry, i: int) -> bool:
    """Return whether the indices by which an input is read are constant along rows."""
    gathered = geometry.gathers.get(i)
    inputs = () if gathered is None else gathered.inputs
    return all(is_constant_along_rows(geometry, k) for k in inputs)


def is_constant_along_rows(geometry: Geometry, i: int) -> bool:
    """Return whether an input has one value per row. The values of windows are not looked at."""
    steps = geometry.reads[i]
    along = [step for step, flag in zip(steps, geometry.is_combined) if flag]
    return i not in geometry.windows and not any(along) and has_one_index_per_row(geometry, i)


def constant_inputs(geometry: Geometry) -> list[int]:
    """Return the inputs that have one value per row."""
    return [i for i in range(len(geometry.reads)) if is_constant_along_rows(geometry, i)]


def _sizes(loop: Loop, geometry: Geometry, shared: int) -> list[int]:
    """Return the bytes that a thread holds of each element."""
    results = [*loop.stages, *loop.outputs]
    wide = 8 if any(dtype_of(result).itemsize == 8 for result in results) else 4
    held = [loop.inputs[i].dtype.itemsize for i in held_inputs(geometry)]
    return [*held, *[wide] * max(shared, 1)]  # formulas need some, too


def _lanes_of_held_rows(sizes: Sequence[int], width: int, rows: int, vectors: int) -> int:
    """Return how many threads hold a row in their registers, 0 if it does not fit."""
    lanes = min(WARP, _power_of_two_from(vectors))
    while not _fits(sizes, lanes, -(-vectors // lanes), width):
        if lanes < WARP or lanes == MOST_LANES:
            return 0
        lanes *= 2
    # With few rows, more threads per row use more of the device.
    while WARP <= lanes <= vectors // 4 and lanes < MOST_LANES and rows * lanes < FULL_GRID * WARP:
        lanes *= 2
    return lanes


def _fits(sizes: Sequence[int], lanes: int, held: int, width: int) -> bool:
    most = _VECTORS if lanes == WARP or width == 1 else _VECTORS // 2
    registers = _FEW_REGISTERS if lanes == MOST_LANES else _REGISTERS
    is_short = held <= most and held * width <= _VALUES
    return is_short and _registers(sizes, held, width) <= registers


def _registers(sizes: Sequence[int], held: int, width: int) -> float:
    return held * width * sum(sizes) / 4


def _power_of_two_from(count: int) -> int:
    return 1 << (count - 1).bit_length()
