"""Products of small float32 matrices by a kernel of our own: which ones, with which tiles.

A library's kernels are made for much work and take long to begin. Where there is little, a product
costs what its reads cost, one after the other, and this kernel waits for memory once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.compiled import Source, compiled, complete
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.products.small_source import SOURCE
from tapegrad_cupy.rows.row_launch import processors

Array = Any

MOST_RESULTS = 1 << 17
MOST_WORK = 1 << 25
MOST_DEPTH = 2048
"""Elements of the result, multiplications and depth up to which a product is small."""

ACTIVATIONS = {None: 0, "relu": 1, "gelu_tanh": 2}
"""What can be done to the result, as the kernel numbers it."""

# How an operand is read: four neighbours along the depth, or across it, or element by element.
_DEPTHWISE, _CROSSWISE, _SINGLY = range(3)
_READINGS = {_DEPTHWISE: "depthwise", _CROSSWISE: "crosswise", _SINGLY: "singly"}


_BEYOND = 1024
"""Steps behind the last one that the kernel counts on, without reading there."""


class Tile(NamedTuple):
    """The part of the result that a block computes, and that of a thread.

    The depth is shared by `least` to `most` warps, and a multiprocessor has registers for as many
    such blocks as work `together`.
    """

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    least: int
    most: int
    together: int

    @property
    def slices(self) -> int:
        """Slices of the depth, of four steps each, that a warp works on at a time."""
        lanes = (self.rows // self.thread_rows) * (self.columns // self.thread_columns)
        return 32 // lanes


TILES = (
    Tile(8, 8, 8, 4, least=1, most=8, together=1),
    Tile(16, 16, 8, 4, least=2, most=4, together=3),
    Tile(32, 32, 8, 8, least=4, most=8, together=1),
)


class Form(NamedTuple):
    """What a product of two matrices is made of: sizes, and how operands are read.

    The strides are those of the first operand from row to row and along the depth, and of the
    second from column to column and along the depth, in elements.
    """

    rows: int
    columns: int
    depth: int
    readings: tuple[int, int]
    strides: tuple[int, int, int, int]


class SmallProduct:
    """A product with everything settled but the addresses."""

    __slots__ = ("_grid", "_kernel", "_numbers", "_threads", "_wide", "shape")

    def __init__(self, form: Form, tile: Tile, warps: int) -> None:
        self.shape = (form.rows, form.columns)
        self._kernel = _kernel(tile, form.readings)
        self._grid = (-(-form.columns // tile.columns), -(-form.rows // tile.rows))
        self._threads = 32 * warps
        self._numbers = (form.rows, form.columns, form.depth, *form.strides)
        self._wide = form.columns % 4 == 0

    def __call__(
        self, a: int, b: int, d: int, c: int = 0, bias: int = 0, activation: int = 0
    ) -> None:
        """Write act(a b + bias + c) to `d`, in the current stream's order, all given by address.

        What is 0 is left out; `c` may be `d`.
        """
        whole = self._wide and not (c | d | bias) & 15
        arguments = (a, b, d, c, bias, *self._numbers, whole, activation)
        self._kernel.launch(*self._grid, self._threads, 0, arguments)


def find_small(
    a: Array, b: Array, transpose_a: bool, transpose_b: bool, bits: int
) -> SmallProduct | None:
    """Return the kernel for a product of two arrays that fit, or None if it is not for them.

    The lowest bits that any address has are `bits`, of whichever operand: none is read four at a
    time unless all could be.
    """
    form = _form_of(a, b, transpose_a, transpose_b, bits)
    if form is None or not is_small(*form[:3]):
        return None
    tile = choose_tile(form.rows, form.columns, processors())
    return SmallProduct(form, tile, choose_warps(tile, form.depth))


def is_small(rows: int, columns: int, depth: int) -> bool:
    """Whether a product is small enough for this kernel to be the faster one, and not empty.

    It counts whole tiles: of a result with a single column, most of the work is for nothing.
    """
    results = -(-rows // 8) * -(-columns // 8) * 64
    return 0 < results <= MOST_RESULTS and 0 < depth <= MOST_DEPTH and results * depth <= MOST_WORK


def choose_tile(rows: int, columns: int, blocks_at_once: int) -> Tile:
    """Return the tile with which the busiest multiprocessor is done first.

    Per step of the depth it reads 64 bytes, and does about 80 multiplications, in a cycle.
    """

    def cycles(tile: Tile) -> float:
        blocks = -(-rows // tile.rows) * -(-columns // tile.columns)
        step = (tile.rows + tile.columns) / 16 + tile.rows * tile.columns / 80
        return -(-blocks // blocks_at_once) * step

    return min(TILES, key=cycles)


def choose_warps(tile: Tile, depth: int) -> int:
    """Return how many warps share the depth: as many as it takes, but with equal shares."""
    slices = -(-depth // (4 * tile.slices))
    turns = -(-slices // tile.most)
    return max(-(-slices // turns), tile.least)


def _form_of(a: Array, b: Array, transpose_a: bool, transpose_b: bool, bits: int) -> Form | None:
    """Return what the product is made of; None if these are other arrays than the kernel's."""
    if not a.ndim == b.ndim == 2 or not a.dtype == b.dtype == cupy.float32:
        return None
    steps = (*a.strides, *b.strides)
    if any(step % 4 for step in steps):
        return None
    if any(_reach(array) >= 2**31 for array in (a, b)):
        return None  # places in an operand are counted in 32 bits
    (rows, depth), (a_outer, a_along) = _turned(a, transpose_a)
    (columns, _), (b_outer, b_along) = _turned(b, not transpose_b)
    aligned = bits & 15 == 0
    readings = (
        _reading(rows, depth, a_outer, a_along, aligned),
        _reading(columns, depth, b_outer, b_along, aligned),
    )
    return Form(rows, columns, depth, readings, (a_outer, a_along, b_outer, b_along))


def _turned(array: Array, turn: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return shape and strides in elements, both in reverse order if asked for."""
    first, second = array.shape
    outer, along = (step // 4 for step in array.strides)
    return ((second, first), (along, outer)) if turn else ((first, second), (outer, along))


def _reach(array: Array) -> int:
    """How far from the first element places are counted, those beyond the end included."""
    return sum(abs(step) // 4 * (size + _BEYOND) for size, step in zip(array.shape, array.strides))


def _reading(count: int, depth: int, outer: int, along: int, aligned: bool) -> int:
    """Return how an operand of `count` rows (or columns) can be read."""
    if aligned and along == 1 and depth % 4 == 0 and (outer % 4 == 0 or count == 1):
        return _DEPTHWISE
    if aligned and outer == 1 and count % 4 == 0 and (along % 4 == 0 or depth == 1):
        return _CROSSWISE
    return _SINGLY


# The kernels


def _macros(tile: Tile, readings: tuple[int, int]) -> dict[str, str | int]:
    return {
        "BM": tile.rows, "BN": tile.columns, "TM": tile.thread_rows, "TN": tile.thread_columns,
        "LEAST": tile.least, "MOST": tile.most, "TOGETHER": tile.together,
        "READ_A": readings[0], "READ_B": readings[1],
    }  # fmt: skip


@functools.cache
def _kernel(tile: Tile, readings: tuple[int, int]) -> Kernel:
    def make() -> Any:
        return compiled(SOURCE, "small_product", **_macros(tile, readings))

    return Kernel(make, "PPPPPiiiiiiiii")


def variants() -> Iterator[Source]:
    """Yield every source that this module can ask the compiler for."""
    for tile, first, second in itertools.product(TILES, _READINGS, _READINGS):
        label = f"small_product {tile.rows}x{tile.columns} {_READINGS[first]} {_READINGS[second]}"
        yield Source(label, complete(SOURCE, **_macros(tile, (first, second))))
