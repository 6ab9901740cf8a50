"""How the work of a loop is divided among threads and blocks."""

from __future__ import annotations

from typing import NamedTuple

from tapegrad_cupy.compiled import FULL, THREADS
from tapegrad_cupy.loops.geometry import Geometry

MOST_PARTS = 2048
"""Blocks that share one result of combination at most: one block has to take up their parts."""


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


def schedule(geometry: Geometry) -> Schedule:
    """Return the division for a way to walk."""
    if not any(geometry.is_combined):
        vectors = geometry.count(combined=False) // geometry.width
        return Schedule("flat", THREADS, THREADS, 1, -(-vectors // THREADS))
    if geometry.by_columns:
        return _columns(geometry)
    return _rows(geometry)


def _rows(geometry: Geometry) -> Schedule:
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
    parts = min(MOST_PARTS, -(-2 * FULL // rows), max(1, vectors // (THREADS * 4)))
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
