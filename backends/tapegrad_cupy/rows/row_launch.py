"""How a row kernel is laid out on the device, compiled at its first use, and launched.

Short rows get a warp each, medium ones a block that keeps them in registers, and long ones a block
that loops over them. The numbers were chosen for devices with 64K registers per multiprocessor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cupy

from tapegrad_cupy.compiled import FLOATS, Source
from tapegrad_cupy.replay import Watched
from tapegrad_cupy.rows.rows_source import BLOCKS

Array = Any

TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "float", "float64": "double"}
"""The CUDA types of the dtypes that row kernels take."""


def wide_type(type_: str) -> str:
    """Return the CUDA type that numbers of a type are computed in."""
    return "double" if type_ == "double" else "float"


LABELS = {"int32": "int", "int64": "i64"}

OPTIONS = ("-default-device",)
"""NVRTC up to 13.0 takes the visitors of rows for functions of the host without this."""

WARPS = 4
"""Rows per block where each gets a warp."""

LONG_LANES = 512
CACHE_BYTES = 99 * 1024 - 512
"""Shared memory for a long row: devices from 2020 on have it, those for servers twice."""

# The fewest blocks that a multiprocessor should hold; 0 leaves them to the assembler, which may
# spill registers to fit more. It is left to it where that was measured, and does not spill.
_FEWEST = "#define FEWEST (sizeof(T) == 8 || sizeof(T) * Row::width < 16 || __CUDA_ARCH__ != 900)"

_LONG = 16384
"""Elements beyond which a row is read in full width or one by one, whatever divides its length."""

_MOST_BLOCKS = 2**30


@dataclass(frozen=True)
class Layout:
    """The threads of a block, and the type `Row` of the rows that they work on."""

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

    `sums` says that a kernel also keeps sums down the columns, which takes as many registers as the
    rows themselves; `again` that rows are read more than once, so that a cache pays.
    """
    held = 16 if itemsize < 8 else 8
    if length <= 32 * held * (1 if sums else 2):
        return _held(length, 32, width, inputs)
    # 1024 threads have too few registers for single elements of these, and for two rows of float64.
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
    """Tell whether rows are kept in registers."""
    return layout.row.startswith("Held")


def access_width(length: int, *arrays: Array) -> int:
    """Return how many neighbours one instruction can move: up to 16 bytes where all are aligned.

    The rows that loops go over may start anywhere: `Looped` sees to that.
    """
    width = 16 // arrays[0].itemsize
    if any([array.data.ptr % 16 for array in arrays]):
        return 1
    return width if length > _LONG else math.gcd(length, width)


def launch(
    name: str, source: str, layout: Layout, rows: int, args: tuple[Any, ...], **types: str
) -> None:
    """Run the row kernel `name`; `types` are the names that its source leaves open, T first."""
    # Leave for much shared memory is given to a kernel on each device by itself.
    device = cupy.cuda.runtime.getDevice() if layout.shared else 0
    kernel = _row_kernel(name, source, layout, tuple(types.items()), device)
    kernel(layout.grid(rows), layout.block, args, shared_mem=layout.shared)


@functools.cache
def _row_kernel(
    name: str, source: str, layout: Layout, types: tuple[tuple[str, str], ...], device: int
) -> Any:
    kernel = compile_kernel(name, source, types, _definitions(layout), layout.block)
    if layout.shared:
        kernel.max_dynamic_shared_size_bytes = CACHE_BYTES
    return kernel


def _definitions(layout: Layout) -> str:
    return f"typedef {layout.row} Row;"


@functools.cache
def compile_kernel(
    name: str,
    source: str,
    types: tuple[tuple[str, str], ...],
    definitions: str,
    block: tuple[int, int, int],
) -> Any:
    """Return the kernel `name` of `source` for the given types; CuPy keeps it on disk."""
    text = kernel_source(source, types, definitions, block)
    return Watched(cupy.RawKernel(text, name, options=OPTIONS))


def kernel_source(
    source: str, types: tuple[tuple[str, str], ...], definitions: str, block: tuple[int, int, int]
) -> str:
    """Return the whole text of a kernel."""
    lines = [f"typedef {value} {name};" for name, value in types]
    lines.insert(1, "typedef Wide<T>::type A;")
    header = "\n".join([*lines, definitions, f"#define THREADS {math.prod(block)}", _FEWEST])
    return f"{BLOCKS}\n{header}\n{source}"


# Sources


def row_variants(
    name: str, source: str, inputs: int, types: dict[str, str], **options: bool
) -> Iterator[Source]:
    """Yield the row kernel `name` in every layout that can be chosen for it.

    Of layouts that differ only in the number of steps, the longest one, which takes the most
    registers, stands for all. `options` are those of `choose_layout`.
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
