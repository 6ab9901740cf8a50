"""Choose the layout of a row kernel, compile it at its first use, and launch it.

A short row gets a warp, a medium one a block that keeps it in registers, and a long one a block
that loops over it. The limits suit devices with 64K registers per multiprocessor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cupy

from tapegrad_cupy.kernels.rows.rows_source import BLOCKS
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import Source
from tapegrad_cupy.launch.replay import RecordedKernel

Array = Any

TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "float", "float64": "double"}
"""The CUDA types of the dtypes that row kernels take."""


def wide_type(type_: str) -> str:
    """Return the CUDA type that a CUDA type is computed in."""
    return "double" if type_ == "double" else "float"


LABELS = {"int32": "int", "int64": "i64"}

OPTIONS = ("-default-device",)
"""Without this option, NVRTC up to 13.0 treats the visitors of rows as host functions."""

WARPS = 4
"""Rows per block where each gets a warp."""

LONG_LANES = 512
CACHE_BYTES = 99 * 1024 - 512
"""Shared memory for a long row; all devices since 2020 have it, those for servers twice as much."""

# The minimum of blocks per multiprocessor. 0 lets the assembler decide, which may spill registers
# to fit more blocks; it is used where it was measured and does not spill.
_FEWEST = "#define FEWEST (sizeof(T) == 8 || sizeof(T) * Row::width < 16 || __CUDA_ARCH__ != 900)"

_LONG = 16384
"""Longer rows are read 16 bytes or one element at a time, whatever divides their length."""

_MOST_BLOCKS = 2**30


@dataclass(frozen=True)
class Layout:
    """The threads of a block, and the CUDA type `Row` of its rows."""

    lanes: int
    warps: int
    row: str
    shared: int = 0

    @property
    def block(self) -> tuple[int, int, int]:
        return self.lanes, self.warps, 1

    def grid(self, rows: int) -> tuple[int, int, int]:
        return min(-(-rows // self.warps), _MOST_BLOCKS), 1, 1


@functools.cache
def choose_layout(
    length: int, itemsize: int, width: int, inputs: int, *, sums: bool = False, again: bool = True
) -> Layout:
    """Return the layout for rows of `length` elements, read from `inputs` arrays `width` at a time.

    `sums` tells that a kernel also accumulates sums down the columns, which take as many registers
    as the rows. `again` tells that rows are read more than once, so that a cache pays off.
    """
    held = 16 if itemsize < 8 else 8
    if length <= 32 * held * (1 if sums else 2):
        return _held(length, 32, width, inputs)
    # 1024 threads have too few registers for single elements of two arrays or of types other than
    # float32, and for two rows of float64.
    single = width == 1 and (inputs > 1 or itemsize != 4)
    crowded = sums or single or (inputs > 1 and itemsize == 8)
    for lanes in (128, 256, 512) if crowded else (128, 256, 512, 1024):
        if length <= lanes * held:
            return _held(length, lanes, width, inputs)
    size = length * itemsize * inputs
    cached = again and 0 < size <= CACHE_BYTES
    row = f"Looped<T, {LONG_LANES}, {width}, {inputs}, {'true' if cached else 'false'}>"
    return Layout(LONG_LANES, 1, row, size if cached else 0)


def _held(length: int, lanes: int, width: int, inputs: int) -> Layout:
    steps = max(-(-length // (lanes * width)), 1)
    row = f"Held<T, {lanes}, {steps}, {width}, {inputs}>"
    return Layout(lanes, WARPS if lanes == 32 else 1, row)


def is_held(layout: Layout) -> bool:
    """Return whether rows are kept in registers."""
    return layout.row.startswith("Held")


def access_width(length: int, *arrays: Array) -> int:
    """Return how many neighbours one instruction moves: up to 16 bytes if all arrays are aligned.

    Rows that loops process may start anywhere, since `Looped` handles unaligned ends.
    """
    width = 16 // arrays[0].itemsize
    if any([array.data.ptr % 16 for array in arrays]):
        return 1
    return width if length > _LONG else math.gcd(length, width)


def launch(
    name: str, source: str, layout: Layout, rows: int, args: tuple[Any, ...], **types: str
) -> None:
    """Launch the row kernel `name`; `types` are the type names that its source uses, T first."""
    # The limit of dynamic shared memory is set for each device separately.
    device = cupy.cuda.runtime.getDevice() if layout.shared else 0
    kernel = _row_kernel(name, source, layout, tuple(types.items()), device)
    kernel(layout.grid(rows), layout.block, args, shared_mem=layout.shared)


@functools.cache
def _row_kernel(
    name: str, source: str, layout: Layout, types: tuple[tuple[str, str], ...], device: int
) -> Any:
    kernel = compile_row_kernel(name, source, types, _definitions(layout), layout.block)
    if layout.shared:
        kernel.max_dynamic_shared_size_bytes = CACHE_BYTES
    return kernel


def _definitions(layout: Layout) -> str:
    return f"typedef {layout.row} Row;"


@functools.cache
def compile_row_kernel(
    name: str,
    source: str,
    types: tuple[tuple[str, str], ...],
    definitions: str,
    block: tuple[int, int, int],
) -> Any:
    """Return the kernel `name` of a source for the given types."""
    text = kernel_source(source, types, definitions, block)
    return RecordedKernel(cupy.RawKernel(text, name, options=OPTIONS))


def kernel_source(
    source: str, types: tuple[tuple[str, str], ...], definitions: str, block: tuple[int, int, int]
) -> str:
    """Return the complete source of a kernel."""
    lines = [f"typedef {value} {name};" for name, value in types]
    lines.insert(1, "typedef Wide<T>::type A;")
    header = "\n".join([*lines, definitions, f"#define THREADS {math.prod(block)}", _FEWEST])
    return f"{BLOCKS}\n{header}\n{source}"


# Sources


def row_variants(
    name: str, source: str, inputs: int, types: dict[str, str], **options: bool
) -> Iterator[Source]:
    """Yield the row kernel `name` in every layout that can be chosen for it.

    Of layouts that differ only in the number of steps, only the longest is yielded, which takes the
    most registers. `options` are those of `choose_layout`.
    """
    for layout in _layouts(types["T"], inputs, **options):
        text = kernel_source(source, tuple(types.items()), _definitions(layout), layout.block)
        label = " ".join([name, *types.values(), layout.row])
        yield Source(label, text, OPTIONS)


def _layouts(type_: str, inputs: int, **options: bool) -> Iterator[Layout]:
    itemsize = next(FLOATS[dtype] for dtype, name in TYPES.items() if name == type_)
    width = 16 // itemsize
    while width:
        longest: dict[tuple[int, bool, int], Layout] = {}
        for length in (*range(32, _LONG + 1, 32), CACHE_BYTES // (itemsize * inputs or 1), 10**6):
            if length <= _LONG or width in (1, 16 // itemsize):
                layout = choose_layout.__wrapped__(length, itemsize, width, inputs, **options)
                longest[layout.lanes, is_held(layout), layout.shared > 0] = layout
        yield from longest.values()
        width //= 2


@functools.cache
def _processors(device: int) -> int:
    count: int = cupy.cuda.Device(device).attributes["MultiProcessorCount"]
    return count


def processors() -> int:
    """Return the number of multiprocessors of the current device."""
    return _processors(cupy.cuda.runtime.getDevice())
