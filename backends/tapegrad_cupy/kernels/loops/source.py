"""CUDA source of loops; sizes and steps are constants in it, since programs have fixed shapes.

Threads process vectors of neighbouring elements. Reductions use registers, shuffles and shared
memory. If several blocks share a result, the last one to finish combines their parts in a fixed
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tapegrad.core.trace.c_source import type_of
from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.elementwise.source import preamble
from tapegrad_cupy.kernels.elementwise.vectors import device_function
from tapegrad_cupy.kernels.indexing.scatter_source import ATOMICS
from tapegrad_cupy.kernels.loops.arrays import Arrays
from tapegrad_cupy.kernels.loops.combinations import combination, dtype_of, first_value
from tapegrad_cupy.kernels.loops.geometry import Geometry, in_order_of_indices
from tapegrad_cupy.kernels.loops.schedule import Schedule, run_axis, sizes_of_runs
from tapegrad_cupy.kernels.loops.windows import window_lines
from tapegrad_cupy.launch.cuda_source import wide_dtype

_ACROSS = r"""
// Combine the values of each group of `lanes` neighbouring threads; lane 0 gets the result.
template <class A, class F> __device__ __forceinline__ A across(A x, A first, A* room, int lanes,
                                                                F combine) {
    for (int step = (lanes < 32 ? lanes : 32) / 2; step > 0; step /= 2)
        x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    if (lanes <= 32) return x;
    const int warp = threadIdx.x / 32, warps = lanes / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0) room[warp] = x;
    __syncthreads();
    const int group = (int)threadIdx.x / lanes * warps;
    x = (int)(threadIdx.x % 32) < warps ? room[group + threadIdx.x % 32] : first;
    for (int step = 16; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
// Whether this block is the last of `blocks` to arrive here; all threads must call it.
__device__ __forceinline__ bool is_last(unsigned int* counter, unsigned int blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1u) == blocks - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}
"""


def loop_source(
    loop: Loop, geometry: Geometry, schedule: Schedule, in_place: Sequence[int | None]
) -> str:
    """Return the source of the kernel `loop`.

    The arguments of the kernel are the addresses of inputs and outputs. If several blocks share a
    result, those of the parts and counters follow. `in_place` has for each output the input that
    it overwrites, or None.
    """
    writer = Writer(loop, geometry, schedule, in_place)
    atomics = ATOMICS if geometry.added else ""
    functions = _ACROSS + atomics + writer.functions()
    return preamble(writer.arrays.dtypes(), functions) + writer.kernel()


class Writer:
    """Writes one kernel; `p0`, `p1`, ... are inputs and `q0`, `q1`, ... outputs."""

    def __init__(
        self, loop: Loop, geometry: Geometry, schedule: Schedule, in_place: Sequence[int | None]
    ) -> None:
        self.loop = loop
        self.g = geometry
        self.schedule = schedule
        self.arrays = Arrays(loop, geometry, in_place)
        self.whole = [k for k, out in enumerate(loop.outputs) if out.combine is None]
        self.combined = [k for k, out in enumerate(loop.outputs) if out.combine is not None]

    # Formulas

    def functions(self) -> str:
        """Return device functions: the formula of one element, and the parts of each reduction."""
        names = [f"a{i}" for i in range(len(self.loop.inputs))]
        outputs = [output.expression for output in self.loop.outputs]
        takes = [f"const {self.arrays.computed(i)} {name}" for i, name in enumerate(names)]
        text = self.arrays.index_functions()
        text += device_function("void", "formula", takes, outputs, names)
        for k in self.combined:
            text += combination(k, self.loop.outputs[k])
        return text

    def _accumulator(self, k: int) -> str:
        return type_of(self.loop.outputs[k].expression)

    def _first(self, k: int) -> str:
        return first_value(self.loop.outputs[k])

    # The kernel

    def kernel(self) -> str:
        """Return the kernel for the form of the schedule."""
        body = {"flat": self._flat, "rows": self._rows, "columns": self._columns}
        threads = self.schedule.threads
        return (
            f'\nextern "C" __global__ void __launch_bounds__({threads}) loop('
            f"{', '.join(self._parameters())}) {{\n"
            f"    typedef {self.arrays.index_type(threads)} I;\n"
            f"{self._shared_memory()}{body[self.schedule.form]()}}}\n"
        )

    def _shared_memory(self) -> str:
        """Declare the shared memory, which the reductions use one after the other."""
        if not self.combined:
            return ""
        per_number = max(wide_dtype(dtype_of(self.loop.outputs[k])).itemsize for k in self.combined)
        by_columns = self.schedule.form == "columns"
        count = self.schedule.threads * self.g.width if by_columns else 32
        return f"    __shared__ __align__(16) unsigned char shared[{count * per_number}];\n"

    def _parameters(self) -> list[str]:
        found = self.arrays.parameters()
        if self.schedule.parts > 1:
            found += [f"{self._accumulator(k)}* part{k}" for k in self.combined]
            found.append("unsigned int* counters")
        return found

    def _flat(self) -> str:
        """Return the body without reductions: one vector per thread."""
        if self.schedule.run > 1:
            return self._runs()
        vectors = self.g.count(combined=False) // self.g.width
        place = f"(I)blockIdx.x * {self.schedule.threads} + threadIdx.x"
        return (
            f"    const I k = {place};\n    if (k >= (I){vectors}) return;\n"
            + self._offsets("k", combined=False, base=False)
            + self.visit("    ")
        )

    def _runs(self) -> str:
        """Return the body that adds rows: a thread has a vector of several neighbouring rows."""
        run, axis = self.schedule.run, run_axis(self.g)
        sizes = sizes_of_runs(self.g, run)
        assert axis is not None
        chunks = Arrays(self.loop, self.g._replace(sizes=sizes), [None] * len(self.loop.outputs))
        size = self.g.sizes[axis]
        totals = "".join(
            f"    i64 key{k} = -1; {self.arrays.stored_output(k)}* to{k} = q{k};"
            f" Vec<{self.arrays.stored_output(k)}, {self.g.width}> total{k};\n"
            for k in self.g.added
        )
        return (
            f"    const I k = (I)blockIdx.x * {self.schedule.threads} + threadIdx.x;\n"
            f"    if (k >= (I){prod(sizes) // self.g.width}) return;\n"
            f"{chunks.indices('k', combined=False)}{totals}"
            f"    const I start = c{axis} * {run};\n"
            f"    const I stop = start + {run} < (I){size} ? start + {run} : (I){size};\n"
            f"    #pragma unroll {min(run, 4)}\n"
            f"    for (I at = start; at < stop; ++at) {{\n    const I c{axis} = at;\n"
            + self.arrays.offsets(range(len(self.loop.inputs)), True, False, False, False)
            + self.visit("        ")
            + "    }\n"
            + "".join(f"    {self.arrays.end_of_run(k)}\n" for k in self.g.added)
        )

    def _rows(self) -> str:
        """Return the body that reduces along rows: some lanes per row, or a block per long row."""
        s = self.schedule
        rows, vectors = self.g.count(combined=False), self.g.count(combined=True) // self.g.width
        per_part = -(-vectors // s.parts)
        begin = f"(I)blockIdx.x % {s.parts} * {per_part}"
        return (
            f"    const int lane = threadIdx.x % {s.lanes};\n"
            f"    const I k = (I)blockIdx.x / {s.parts} * {s.threads // s.lanes}"
            f" + threadIdx.x / {s.lanes};\n"
            + self._accumulators("")
            + f"    if (k < (I){rows}) {{\n{self._offsets('k', combined=False, base=True)}"
            f"    const I begin = {begin};\n"
            f"    const I end = begin + {per_part} < (I){vectors} ? begin + {per_part}"
            f" : (I){vectors};\n"
            f"    #pragma unroll {s.unroll}\n"
            f"    for (I r = begin + lane; r < end; r += {s.lanes}) {{\n"
            + self._offsets("r", combined=True, base=False)
            + self.visit("        ")
            + "    }\n    }\n"
            + self._across()
            + (self._store_parts(f"k * {s.parts} + blockIdx.x % {s.parts}") if s.parts > 1 else "")
            + f"    if (lane == 0 && k < (I){rows}) {{\n{self._finish('k')}    }}\n"
        )

    def _across(self) -> str:
        lines = []
        for k in self.combined:
            kind = self._accumulator(k)
            lines.append(
                f"    acc{k} = across<{kind}>(acc{k}, {self._first(k)}, ({kind}*)shared, "
                f"{self.schedule.lanes}, Combine{k}());\n"
            )
        return "".join(lines)

    def _store_parts(self, at: str) -> str:
        """Store the partial result of a block; the last block of a row combines all of them."""
        parts = self.schedule.parts
        stores = "".join(f"part{k}[{at}] = acc{k}; " for k in self.combined)
        again = "".join(
            f"        acc{k} = Combine{k}()(acc{k}, part{k}[k * {parts} + j]);\n"
            for k in self.combined
        )
        fresh = "".join(f"    acc{k} = {self._first(k)};\n" for k in self.combined)
        return (
            f"    if (lane == 0) {{ {stores}}}\n"
            f"    if (!is_last(counters + k, {parts})) return;\n{fresh}"
            f"    for (int j = lane; j < {parts}; j += {self.schedule.lanes}) {{\n{again}    }}\n"
            + self._across()
        )

    def _finish(self, at: str) -> str:
        return "".join(f"        store(q{k}[{at}], finish{k}(acc{k}));\n" for k in self.combined)

    def _columns(self) -> str:
        """Return the body that reduces along columns: each thread goes down a vector of them."""
        s, n = self.schedule, self.g.width
        vectors, rows = self.g.count(combined=False) // n, self.g.count(combined=True)
        down, per_part = s.threads // s.lanes, -(-rows // s.parts)
        tiles = -(-vectors // s.lanes)
        return (
            f"    const int across_ = threadIdx.x % {s.lanes}, down = threadIdx.x / {s.lanes};\n"
            f"    const I tile = (I)blockIdx.x % {tiles}, part = (I)blockIdx.x / {tiles};\n"
            f"    const I k = tile * {s.lanes} + across_;\n"
            + self._accumulators(f"[{n}]")
            + f"    if (k < (I){vectors}) {{\n{self._offsets('k', combined=False, base=True)}"
            f"    const I end = (part + 1) * {per_part} < (I){rows} ? (part + 1) * {per_part}"
            f" : (I){rows};\n"
            f"    #pragma unroll {s.unroll}\n"
            f"    for (I r = part * {per_part} + down; r < end; r += {down}) {{\n"
            + self._offsets("r", combined=True, base=False)
            + self.visit("        ")
            + "    }\n    }\n"
            + self._down()
            + (self._store_column_parts(vectors, down) if s.parts > 1 else "")
            + f"    if (down == 0 && k < (I){vectors}) {{\n{self._finish_columns()}    }}\n"
        )

    def _down(self) -> str:
        """Combine the values of threads in one column; the topmost threads get the result."""
        n, s = self.g.width, self.schedule
        text = ""
        for k in self.combined:
            kind = self._accumulator(k)
            text += (
                f"    {{ {kind}* room = ({kind}*)shared;\n"
                f"    for (int j = 0; j < {n}; ++j) room[j * {s.threads} + threadIdx.x] ="
                f" acc{k}[j];\n"
                f"    for (int step = {s.threads // 2}; step >= {s.lanes}; step /= 2) {{\n"
                "        __syncthreads();\n"
                f"        if ((int)threadIdx.x < step) for (int j = 0; j < {n}; ++j) {{\n"
                f"            {kind}* top = room + j * {s.threads} + threadIdx.x;\n"
                f"            *top = Combine{k}()(*top, top[step]);\n"
                "        }\n    }\n    __syncthreads();\n"
                f"    for (int j = 0; j < {n}; ++j) acc{k}[j] = room[j * {s.threads} + across_];\n"
                "    __syncthreads(); }\n"
            )
        return text

    def _store_column_parts(self, vectors: int, down: int) -> str:
        n, parts = self.g.width, self.schedule.parts
        stores = "".join(
            f"part{k}[(part * {vectors} + k) * {n} + j] = acc{k}[j]; " for k in self.combined
        )
        fresh = "".join(f"acc{k}[j] = {self._first(k)}; " for k in self.combined)
        again = "".join(
            f"acc{k}[j] = Combine{k}()(acc{k}[j], part{k}[(i * {vectors} + k) * {n} + j]); "
            for k in self.combined
        )
        return (
            f"    if (down == 0 && k < (I){vectors}) for (int j = 0; j < {n}; ++j) {{ {stores}}}\n"
            f"    if (!is_last(counters + tile, {parts})) return;\n"
            f"    for (int j = 0; j < {n}; ++j) {{ {fresh}}}\n"
            f"    if (k < (I){vectors}) for (I i = down; i < {parts}; i += {down})\n"
            f"        for (int j = 0; j < {n}; ++j) {{ {again}}}\n" + self._down()
        )

    def _finish_columns(self) -> str:
        n = self.g.width
        stores = "".join(f"store(q{k}[k * {n} + j], finish{k}(acc{k}[j])); " for k in self.combined)
        return f"        for (int j = 0; j < {n}; ++j) {{ {stores}}}\n"

    # One vector

    def _accumulators(self, size: str) -> str:
        text = ""
        for k in self.combined:
            first = self._first(k)
            values = ", ".join([first] * self.g.width) if size else first
            filled = f"{{{values}}}" if size else values
            text += f"    {self._accumulator(k)} acc{k}{size} = {filled};\n"
        return text

    def _offsets(self, index: str, combined: bool, base: bool) -> str:
        """Declare the offset of each array at a position along the reduced axes, or the others."""
        inputs, writes = range(len(self.loop.inputs)), bool(self.whole)
        added = bool(self.combined) and not base
        return self.arrays.indices(index, combined) + self.arrays.offsets(
            inputs, writes, combined, base, added
        )

    def _argument(self, i: int) -> str:
        """Return the value of element `j` of an input."""
        if i in self.g.windows or (i in self.g.gathers and self.g.gathers[i].varies):
            return f"w{i}[j]"
        return self.arrays.read(i).element(i)

    def visit(self, indent: str) -> str:
        """Read a vector of every array, compute, store, and update the reductions."""
        n = self.g.width
        lines = []
        for i in in_order_of_indices(self.g, range(len(self.loop.inputs))):
            if i in self.g.windows:
                lines += window_lines(self.g, i, self.arrays.computed(i))
            elif i in self.g.gathers and self.g.gathers[i].varies:
                lines += self.arrays.element_lines(i, self._argument)
            else:
                if i in self.g.gathers:
                    lines += self.arrays.row_lines(i, self._argument)
                lines.append(self.arrays.read(i).load(i, n))
        arguments = [self._argument(i) for i in range(len(self.loop.inputs))]
        vectors = {k: f"Vec<{self.arrays.stored_output(k)}, {n}>" for k in self.whole}
        lines += [f"{vectors[k]} z{k};" for k in self.whole]
        outputs = range(len(self.loop.outputs))
        declared = "".join(f"{type_of(self.loop.outputs[k].expression)} r{k}; " for k in outputs)
        call = f"formula({', '.join([*arguments, *[f'r{k}' for k in outputs]])});"
        stores = " ".join(f"store(z{k}.v[j], r{k});" for k in self.whole)
        at = "[j]" if self.schedule.form == "columns" else ""
        sums = " ".join(f"acc{k}{at} = Combine{k}()(acc{k}{at}, r{k});" for k in self.combined)
        lines += [
            "#pragma unroll",
            f"for (int j = 0; j < {n}; ++j) {{ {declared}{call} {stores} {sums} }}",
        ]
        for k in self.whole:
            if k in self.g.added:
                add = self.arrays.run_lines if self.schedule.run > 1 else self.arrays.add_lines
                lines += add(k, self._argument)
            else:
                lines.append(f"*({vectors[k]}*)(q{k} + ow) = z{k};")
        return "".join(f"{indent}{line}\n" for line in lines if line)
