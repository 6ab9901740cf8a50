"""Products of small float32 matrices by a special kernel, and the choice of its tiles.

The kernels of libraries are tuned for large products and have a long latency. A small product costs
the latency of its reads, and this kernel waits for memory only once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.kernels.products.small_source import SOURCE
from tapegrad_cupy.kernels.rows.row_launch import processors
from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel

Array = Any

MOST_RESULTS = 1 << 17
MOST_WORK = 1 << 25
MOST_DEPTH = 2048
"""The largest result, number of multiplications and depth of a small product."""

ACTIVATIONS = {None: 0, "relu": 1, "gelu_tanh": 2}
"""The numbers by which the kernel knows activations."""

# Access patterns of an operand: four neighbours along the depth, or across it, or one element.
_DEPTHWISE, _CROSSWISE, _SINGLY = range(3)
_READINGS = {_DEPTHWISE: "depthwise", _CROSSWISE: "crosswise", _SINGLY: "singly"}


_BEYOND = 1024
"""Steps beyond the depth for which the kernel computes addresses, without reading there."""


class Tile(NamedTuple):
    """The tile of the result that a block computes, and that of a thread.

    From `least` to `most` warps share the depth. A multiprocessor has registers for `together` such
    blocks.
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
        """The slices of the depth, of four steps each, that a warp processes at a time."""
        lanes = (self.rows // self.thread_rows) * (self.columns // self.thread_columns)
        return 32 // lanes


TILES = (
    Tile(8, 8, 8, 4, least=1, most=8, together=1),
    Tile(16, 16, 8, 4, least=2, most=4, together=3),
    Tile(32, 32, 8, 8, least=4, most=8, together=1),
)


class Form(NamedTuple):
    """The sizes of a product of two matrices, and the access patterns and strides of its operands.

    The strides, in elements, are those of the first operand between rows and along the depth, and
    of the second operand between columns and along the depth.
    """

    rows: int
    columns: int
    depth: int
    readings: tuple[int, int]
    strides: tuple[int, int, int, int]


class SmallProduct:
    """A prepared product; a call passes only addresses."""

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
        """Write act(a b + bias + c) to `d` on the current stream, all given by their addresses.

        The address 0 leaves out `c` or `bias`. `c` may be `d`.
        """
        whole = self._wide and not (c | d | bias) & 15
        arguments = (a, b, d, c, bias, *self._numbers, whole, activation)
        self._kernel.launch(*self._grid, self._threads, 0, arguments)


def find_small(
    a: Array, b: Array, transpose_a: bool, transpose_b: bool, bits: int
) -> SmallProduct | None:
    """Return the prepared product of two arrays, or None if they do not suit the kernel.

    `bits` is the bitwise or of all addresses. Operands are read four elements at a time only if
    all of them are aligned to 16 bytes.
    """
    form = _form_of(a, b, transpose_a, transpose_b, bits)
    if form is None or not is_small(*form[:3]):
        return None
    tile = choose_tile(form.rows, form.columns, processors())
    return SmallProduct(form, tile, choose_warps(tile, form.depth))


def is_small(rows: int, columns: int, depth: int) -> bool:
    """Return whether this kernel is likely to be faster than cuBLASLt for a product of such sizes.

    The result is rounded up to whole tiles, because the kernel computes whole tiles.
    """
    results = -(-rows // 8) * -(-columns // 8) * 64
    return 0 < results <= MOST_RESULTS and 0 < depth <= MOST_DEPTH and results * depth <= MOST_WORK


def choose_tile(rows: int, columns: int, blocks_at_once: int) -> Tile:
    """Return the tile for which the busiest multiprocessor finishes first.

    The model: a multiprocessor reads 64 bytes or computes about 80 multiplications per cycle.
    """

    def cycles(tile: Tile) -> float:
        blocks = -(-rows // tile.rows) * -(-columns // tile.columns)
        step = (tile.rows + tile.columns) / 16 + tile.rows * tile.columns / 80
        return -(-blocks // blocks_at_once) * step

    return min(TILES, key=cycles)


def choose_warps(tile: Tile, depth: int) -> int:
    """Return how many warps share the depth in equal parts."""
    slices = -(-depth // (4 * tile.slices))
    turns = -(-slices // tile.most)
    return max(-(-slices // turns), tile.least)


def _form_of(a: Array, b: Array, transpose_a: bool, transpose_b: bool, bits: int) -> Form | None:
    """Return the form of a product, or None if the kernel does not take such arrays."""
    if not a.ndim == b.ndim == 2 or not a.dtype == b.dtype == cupy.float32:
        return None
    steps = (*a.strides, *b.strides)
    if any(step % 4 for step in steps):
        return None
    if any(_reach(array) >= 2**31 for array in (a, b)):
        return None  # the kernel computes offsets in 32 bits
    (rows, depth), (a_outer, a_along) = _shape_and_strides(a, transpose_a)
    (columns, _), (b_outer, b_along) = _shape_and_strides(b, not transpose_b)
    aligned = bits & 15 == 0
    readings = (
        _reading(rows, depth, a_outer, a_along, aligned),
        _reading(columns, depth, b_outer, b_along, aligned),
    )
    return Form(rows, columns, depth, readings, (a_outer, a_along, b_outer, b_along))


def _shape_and_strides(array: Array, transpose: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shape and the strides in elements of a matrix, or of its transpose."""
    first, second = array.shape
    outer, along = (step // 4 for step in array.strides)
    return ((second, first), (along, outer)) if transpose else ((first, second), (outer, along))


def _reach(array: Array) -> int:
    """Return the largest offset that the kernel computes, including those beyond the end."""
    return sum(abs(step) // 4 * (size + _BEYOND) for size, step in zip(array.shape, array.strides))


def _reading(count: int, depth: int, outer: int, along: int, aligned: bool) -> int:
    """Return the access pattern for an operand of `count` rows (or columns)."""
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
        return compile_kernel(SOURCE, "small_product", **_macros(tile, readings))

    return Kernel(make, "PPPPPiiiiiiiii")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for tile, first, second in itertools.product(TILES, _READINGS, _READINGS):
        label = f"small_product {tile.rows}x{tile.columns} {_READINGS[first]} {_READINGS[second]}"
        yield Source(label, full_source(SOURCE, **_macros(tile, (first, second))))
