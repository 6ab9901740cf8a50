"""Loops of one formula over many arrays in one launch, e.g. the step of an optimizer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

import cupy

from tapegrad.core.expression import UntraceableError
from tapegrad.core.loop import JoinedLoops, Loop
from tapegrad_cupy.compiled import THREADS
from tapegrad_cupy.elementwise.layout import full_width
from tapegrad_cupy.elementwise.source import preamble
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.loops.geometry import Geometry
from tapegrad_cupy.loops.schedule import Schedule
from tapegrad_cupy.loops.source import Writer
from tapegrad_cupy.updates.multi_tensors import capacities, layout, readable

Array = Any

_OPTIONS = ("-std=c++17",)
_FIND = r"""
// The last of the arrays whose first block is not behind this one.
__device__ __forceinline__ int array_of_block(const int* first, int arrays) {
    int low = 0, high = arrays - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (first[middle] <= (int)blockIdx.x) low = middle; else high = middle - 1;
    }
    return low;
}
"""


class CudaLoops:
    """Joined loops; the addresses of their arrays travel with the launch."""

    def __init__(self, joined: JoinedLoops) -> None:
        self._loops = joined.loops
        first = joined.loops[0]
        self._single = [
            i
            for i, read in enumerate(first.inputs)
            if first.shape and all(size == 1 for size in read.seen)
        ]
        self._whole = [i for i in range(len(first.inputs)) if i not in self._single]
        dtypes = [first.inputs[i].dtype for i in self._whole]
        dtypes += [output.dtype for output in first.outputs]
        self._width = full_width(max(dtype.itemsize for dtype in dtypes))
        self._beside = 8 * len(self._single)
        if not capacities(len(dtypes), self._beside)[0]:
            raise UntraceableError("These are more arrays than a kernel takes addresses.")
        self._source(capacity=2)  # raises if the formula cannot be written in C

    @property
    def source(self) -> str:
        """The kernel for results in memory of their own."""
        sizes = tuple(prod(loop.shape) for loop in self._loops)
        columns = len(self._whole) + len(self._loops[0].outputs)
        _, capacity, _ = layout(sizes, self._width, columns, self._beside)
        return self._source(capacity)

    def _source(self, capacity: int) -> str:
        first = self._loops[0]
        lies_on = [None] * len(first.outputs)
        return joined_source(first, self._single, self._width, capacity, lies_on)

    def __call__(
        self, arrays: Sequence[Array], targets: Sequence[Array | None]
    ) -> tuple[Array, ...]:
        loops, count = self._loops, len(self._loops[0].inputs)
        per_loop = len(loops[0].outputs)
        with cupy.cuda.Device(arrays[0].data.device_id):
            outputs = [output for loop in loops for output in loop.outputs]
            results = [
                cupy.ndarray(output.shape, output.dtype) if target is None else target
                for output, target in zip(outputs, targets)
            ]
            kept, columns = [], []
            for i in self._whole:
                column, places = readable(arrays[i::count])
                kept.append(column)
                columns.append(places)
            sums = [[r.data.ptr for r in results[k::per_loop]] for k in range(per_loop)]
            lies_on = [columns.index(own) if own in columns else None for own in sums]
            columns += [own for own, place in zip(sums, lies_on) if place is None]
            singles = [arrays[i].data.ptr for i in self._single]
            self._launch(columns, singles, lies_on)
        return tuple(results)

    def _launch(
        self, columns: list[list[int]], singles: list[int], lies_on: list[int | None]
    ) -> None:
        sizes = tuple(prod(loop.shape) for loop in self._loops)
        chunk, capacity, parts = layout(sizes, self._width, len(columns), self._beside)
        source = joined_source(self._loops[0], self._single, self._width, capacity, lies_on)
        table = f"{len(columns) * capacity * 8 + capacity * 12}s"
        kernel = _kernel(source, table + "P" * len(singles) + "qi")
        for part in parts:
            arguments = (part.table(*columns), *singles, chunk, len(part.positions))
            kernel(part.blocks, THREADS, *arguments)


def joined_source(
    loop: Loop, single: Sequence[int], width: int, capacity: int, lies_on: Sequence[int | None]
) -> str:
    """Return the source of the kernel `loop` for arrays in a table.

    `lies_on` says for each output in which column of the table it lies, or that it has its own.
    """
    whole = [i for i in range(len(loop.inputs)) if i not in single]
    writers = [_writer(loop, single, n) for n in (width, 1)]
    columns = [writers[0].stored(i) for i in whole]
    places = list(lies_on)
    for k, place in enumerate(places):
        if place is None:
            places[k] = len(columns)
            columns.append(writers[0].stored_output(k))
    table = "".join(f"{kind}* c{n}[{capacity}]; " for n, kind in enumerate(columns))
    reads = "".join(f"    const {writers[0].stored(i)}* p{i} = table.c{n}[t];\n"
                    for n, i in enumerate(whole))  # fmt: skip
    reads += "".join(f"    {writers[0].stored_output(k)}* q{k} = table.c{place}[t];\n"
                     for k, place in enumerate(places))  # fmt: skip
    offsets = "".join(f"const i64 o{i} = {0 if i in single else 'i'}; "
                      for i in range(len(loop.inputs)))  # fmt: skip
    takes = ["const __grid_constant__ Table table"]
    takes += [f"const {writers[0].stored(i)}* __restrict__ p{i}" for i in single]
    takes += ["const i64 chunk", "const int arrays"]
    return (
        preamble(writers[0].dtypes())
        + _FIND
        + writers[0].functions()
        + f"struct Table {{ {table}i64 size[{capacity}]; int first[{capacity}]; }};\n"
        + f'extern "C" __global__ void __launch_bounds__({THREADS}) loop({", ".join(takes)}) {{\n'
        + "    typedef i64 I;\n    const int t = array_of_block(table.first, arrays);\n"
        + reads
        + "    const i64 begin = (i64)((int)blockIdx.x - table.first[t]) * chunk;\n"
        + "    const i64 end = begin + chunk < table.size[t] ? begin + chunk : table.size[t];\n"
        + f"    const i64 whole = begin + (end - begin) / {width} * {width};\n"
        + f"    for (i64 i = begin + threadIdx.x * {width}; i < whole; i += {THREADS * width}) {{\n"
        + f"        {offsets}const i64 ow = i;\n{writers[0].visit('        ')}    }}\n"
        + f"    for (i64 i = whole + threadIdx.x; i < end; i += {THREADS}) {{\n"
        + f"        {offsets}const i64 ow = i;\n{writers[1].visit('        ')}    }}\n}}\n"
    )


def _writer(loop: Loop, single: Sequence[int], width: int) -> Writer:
    steps = tuple((0,) if i in single else (1,) for i in range(len(loop.inputs)))
    walk = Geometry((width,), (False,), steps, (1,), (0,), width)
    flat = Schedule("flat", THREADS, THREADS, 1, 1)
    return Writer(loop, walk, flat, [None] * len(loop.outputs))


@functools.lru_cache(maxsize=256)
def _kernel(source: str, arguments: str) -> Kernel:
    def make() -> Any:
        return cupy.RawModule(code=source, options=_OPTIONS).get_function("loop")

    return Kernel(make, arguments)
