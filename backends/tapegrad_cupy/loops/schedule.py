"""How the work of a loop is divided among threads and blocks."""

from __future__ import annotations

from typing import NamedTuple

from tapegrad_cupy.compiled import FULL, THREADS
from tapegrad_cupy.loops.geometry import Geometry

MOST_PARTS = 2048
"""Blocks that share one result of combination at most: one block has to take up their parts."""

MOST_PARTS_OF_WRITERS = 16384
"""The same where whole arrays are written beside it: short blocks keep the memory busier then, by
4 % on an H200, and what takes up their parts is little beside the rest."""


class Schedule(NamedTuple):
    """`form` is flat, rows or columns. `lanes` threads are side by side on a row of vectors.

    `parts` blocks share each result, and there are `blocks` in all.
    """

    form: str
    threads: int
    lanes: int
    parts: int
    blocks: int
    unroll: int = 1

    @property
    def counters(self) -> int:
        """How many groups of blocks share results."""
        return self.blocks // self.parts if self.parts > 1 else 0


def schedule(geometry: Geometry, writes: bool) -> Schedule:
    """Return the division for a way to walk; `writes`: there are results for every element."""
    if not any(geometry.is_combined):
        vectors = geometry.count(combined=False) // geometry.width
        return Schedule("flat", THREADS, THREADS, 1, -(-vectors // THREADS))
    if geometry.by_columns:
        return _columns(geometry)
    return _rows(geometry, writes)


def _rows(geometry: Geometry, writes: bool) -> Schedule:
    rows = geometry.count(combined=False)
    vectors = geometry.count(combined=True) // geometry.width
    lanes = 32
    while lanes < THREADS and lanes * 2 <= vectors:
        lanes *= 2
    if lanes <= 32:
        while lanes > 1 and lanes >= 2 * vectors:
            lanes //= 2
    per_block = THREADS // lanes
    if per_block > 1:
        return Schedule("rows", THREADS, lanes, 1, -(-rows // per_block))
    # Four vectors per thread are worth a block.
    short = max(1, vectors // (THREADS * 4))
    if writes:
        parts = min(short, max(1, MOST_PARTS_OF_WRITERS // rows))
        return Schedule("rows", THREADS, lanes, parts, rows * parts, unroll=4)
    parts = min(short, MOST_PARTS, -(-2 * FULL // rows))
    return Schedule("rows", THREADS, lanes, parts, rows * parts, unroll=2)


def _columns(geometry: Geometry) -> Schedule:
    vectors = geometry.count(combined=False) // geometry.width
    rows = geometry.count(combined=True)
    lanes = 32
    while lanes > 1 and lanes >= 2 * vectors:
        lanes //= 2
    down = THREADS // lanes
    tiles = -(-vectors // lanes)
    parts = min(MOST_PARTS, -(-FULL // tiles), max(1, rows // (down * 4)))
    return Schedule("columns", THREADS, lanes, parts, tiles * parts, unroll=4)
