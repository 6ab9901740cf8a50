"""Run loops of one formula over many arrays in one launch, such as the step of an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import cupy

from tapegrad.core.backend.optional_parts import LoopCall
from tapegrad.core.trace.expression import UntraceableError
from tapegrad.core.trace.loop import JoinedLoops, Loop
from tapegrad_cupy.kernels.elementwise.source import preamble
from tapegrad_cupy.kernels.loops.geometry import Geometry
from tapegrad_cupy.kernels.loops.schedule import Schedule
from tapegrad_cupy.kernels.loops.source import Writer
from tapegrad_cupy.launch.cuda_source import THREADS
from tapegrad_cupy.launch.launch import Kernel, kernel_from
from tapegrad_cupy.launch.multi_tensors import TENSOR_OF_BLOCK, aligned_inputs, capacities, layout
from tapegrad_cupy.launch.strided_layout import full_vector_length

Array = Any


class CudaLoops:
    """Joined loops; the addresses of their arrays are arguments of the launch."""

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
        self._width = full_vector_length(max(dtype.itemsize for dtype in dtypes))
        self._beside = 8 * len(self._single)
        if not capacities(len(dtypes), self._beside)[0]:
            raise UntraceableError("The loop has more arrays than a kernel takes as arguments.")
        self._source(capacity=2)  # raises UntraceableError if the formula has no C code

    @property
    def source(self) -> str:
        """The source of the kernel whose results overlap no input."""
        sizes = tuple(prod(loop.shape) for loop in self._loops)
        columns = len(self._whole) + len(self._loops[0].outputs)
        _, capacity, _ = layout(sizes, self._width, columns, self._beside)
        return self._source(capacity)

    def _source(self, capacity: int) -> str:
        first = self._loops[0]
        aliases = [None] * len(first.outputs)
        return joined_source(first, self._single, self._width, capacity, aliases)

    def kernel(self, call: LoopCall) -> Kernel:
        """Return the kernel that a call launches if its arrays are contiguous and aligned."""
        count, per_loop = len(self._loops[0].inputs), len(self._loops[0].outputs)
        columns = [[*range(i, len(call.strides), count)] for i in self._whole]
        written = [[*call.overwritten[k::per_loop]] for k in range(per_loop)]
        aliases = [columns.index(own) if own in columns else None for own in written]
        return self._kernel(len(columns) + aliases.count(None), aliases)

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
                column, places = aligned_inputs(arrays[i::count])
                kept.append(column)
                columns.append(places)
            written = [[r.data.ptr for r in results[k::per_loop]] for k in range(per_loop)]
            aliases = [columns.index(own) if own in columns else None for own in written]
            columns += [own for own, alias in zip(written, aliases) if alias is None]
            singles = [arrays[i].data.ptr for i in self._single]
            self._launch(columns, singles, aliases)
        return tuple(results)

    def _launch(
        self, columns: list[list[int]], singles: list[int], aliases: list[int | None]
    ) -> None:
        sizes = tuple(prod(loop.shape) for loop in self._loops)
        chunk, _, parts = layout(sizes, self._width, len(columns), self._beside)
        kernel = self._kernel(len(columns), aliases)
        for part in parts:
            arguments = (part.table(*columns), *singles, chunk, len(part.positions))
            kernel(part.blocks, THREADS, *arguments)

    def _kernel(self, columns: int, aliases: Sequence[int | None]) -> Kernel:
        """Return the kernel whose table has so many columns of addresses."""
        sizes = tuple(prod(loop.shape) for loop in self._loops)
        capacity = layout(sizes, self._width, columns, self._beside).capacity
        source = joined_source(self._loops[0], self._single, self._width, capacity, aliases)
        table = f"{columns * capacity * 8 + capacity * 12}s"
        return kernel_from(source, "loop", table + "P" * len(self._single) + "qi")


def joined_source(
    loop: Loop, single: Sequence[int], width: int, capacity: int, aliases: Sequence[int | None]
) -> str:
    """Return the source of the kernel `loop` for arrays in a table of `capacity` loops.

    `single` are the inputs of one element. `aliases` has for each output the column of the table
    that it overwrites, or None if it has a column to itself.
    """
    whole = [i for i in range(len(loop.inputs)) if i not in single]
    writers = [_writer(loop, single, n) for n in (width, 1)]
    columns = [writers[0].arrays.stored(i) for i in whole]
    output_columns = list(aliases)
    for k, alias in enumerate(aliases):
        if alias is None:
            output_columns[k] = len(columns)
            columns.append(writers[0].arrays.stored_output(k))
    table = "".join(f"{kind}* c{n}[{capacity}]; " for n, kind in enumerate(columns))
    reads = "".join(f"    const {writers[0].arrays.stored(i)}* p{i} = table.c{n}[t];\n"
                    for n, i in enumerate(whole))  # fmt: skip
    reads += "".join(f"    {writers[0].arrays.stored_output(k)}* q{k} = table.c{n}[t];\n"
                     for k, n in enumerate(output_columns))  # fmt: skip
    offsets = "".join(f"const i64 o{i} = {0 if i in single else 'i'}; "
                      for i in range(len(loop.inputs)))  # fmt: skip
    takes = ["const __grid_constant__ Table table"]
    takes += [f"const {writers[0].arrays.stored(i)}* __restrict__ p{i}" for i in single]
    takes += ["const i64 chunk", "const int arrays"]
    return (
        preamble(writers[0].arrays.dtypes(), TENSOR_OF_BLOCK + writers[0].functions())
        + f"struct Table {{ {table}i64 size[{capacity}]; int first[{capacity}]; }};\n"
        + f'extern "C" __global__ void __launch_bounds__({THREADS}) loop({", ".join(takes)}) {{\n'
        + "    typedef i64 I;\n    const int t = tensor_of_block(table.first, arrays);\n"
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
    walk = Geometry((width,), (False,), steps, (1,), (0,), width, {}, {}, {})
    flat = Schedule("flat", THREADS, THREADS, 1, 1)
    return Writer(loop, walk, flat, [None] * len(loop.outputs))
