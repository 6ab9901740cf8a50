"""CUDA source of loops with stages: each row is reduced several times before results are stored.

Up to a warp, or a block, works on a row. Stages that do not read each other share one pass over the
row and one exchange between the threads. After it all threads of the row have the results. If a
schedule holds rows in registers, each thread loads its vectors once, and its passes are straight
code without branches, in which the compiler shares what several passes compute. Otherwise every
pass loads the row again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tapegrad.core.trace.c_source import type_of
from tapegrad.core.trace.expression import Expression, UntraceableError, kind_of_dtype
from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.elementwise.source import preamble
from tapegrad_cupy.kernels.elementwise.vectors import device_function
from tapegrad_cupy.kernels.indexing.scatter_source import ATOMICS
from tapegrad_cupy.kernels.loops.arrays import Arrays
from tapegrad_cupy.kernels.loops.combinations import (
    combination,
    dtype_of,
    finish_of,
    first_value,
)
from tapegrad_cupy.kernels.loops.geometry import Geometry, in_order_of_indices
from tapegrad_cupy.kernels.loops.invariants import inputs_of, without_invariants
from tapegrad_cupy.kernels.loops.schedule import Schedule
from tapegrad_cupy.kernels.loops.sharing import rounds, share
from tapegrad_cupy.kernels.loops.stages_schedule import (
    WARP,
    constant_inputs,
    has_one_index_per_row,
    held_inputs,
)
from tapegrad_cupy.kernels.loops.windows import window_lines

_AMONG = r"""
// Combine the values of each group of `lanes` neighbouring threads of a warp; all get the result.
template <int lanes, class A, class F> __device__ __forceinline__ A among(A x, F combine) {
    #pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2)
        x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
"""


def stages_source(
    loop: Loop, geometry: Geometry, schedule: Schedule, in_place: Sequence[int | None]
) -> str:
    """Return the source of the kernel `loop` for a loop with stages.

    The arguments of the kernel are the addresses of inputs and outputs. `in_place` has for each
    output the input that it overwrites, or None.
    """
    if any(kind_of_dtype(dtype_of(stage)) == "c" for stage in loop.stages):
        raise UntraceableError("Threads do not exchange complex numbers, so rows are not reduced.")
    writer = _Writer(loop, geometry, schedule, in_place)
    atomics = ATOMICS if geometry.added else ""
    functions = _AMONG + atomics + writer.functions()
    return preamble(writer.arrays.dtypes(), functions) + writer.kernel()


class _Pass(NamedTuple):
    """A pass over the row: stages or outputs, and the expressions of one element.

    The expressions are those of the results and of values that are `kept` for later passes. They
    read `parts` as further inputs, which are constant along the row.
    """

    number: int
    results: list[int]
    kept: list[int]
    expressions: list[Expression]
    parts: list[Expression]


class _Writer:
    """Writes one kernel.

    `s0`, `s1`, ... are inputs that are constant along the row, `x0`, `x1`, ... vectors of others,
    `t0`, `t1`, ... the results of stages, and `m0`, `m1`, ... values that passes share.
    """

    def __init__(
        self, loop: Loop, geometry: Geometry, schedule: Schedule, in_place: Sequence[int | None]
    ) -> None:
        self.loop = loop
        self.g = geometry
        self.schedule = schedule
        self.arrays = Arrays(loop, geometry, in_place)
        self.constant = constant_inputs(geometry)
        self.held = held_inputs(geometry) if schedule.held else []
        self.by_row = [i for i in geometry.gathers if has_one_index_per_row(geometry, i)]
        """Inputs whose row is found by an index once; other gathers read element by element."""
        self.whole = [k for k, output in enumerate(loop.outputs) if not output.axes]
        self.per_row = [k for k, output in enumerate(loop.outputs) if output.axes]
        self.rows = geometry.count(combined=False)
        self.vectors = geometry.count(combined=True) // geometry.width
        beside = schedule.threads // schedule.lanes
        self.has_spare_lanes = self.rows % beside != 0
        """Whether threads of the last block have no row."""
        *self.passes, self.last = self._all_passes()

    def _all_passes(self) -> list[_Pass]:
        loop, first = self.loop, len(self.loop.inputs) + len(self.loop.stages)
        stages = rounds(loop)
        shared = share(loop, self.constant, self.schedule.shared)
        self.shared = shared.values
        found = []
        for number, results in enumerate([*stages, self.whole]):
            kept = [n for n, maker in enumerate(shared.made_in) if maker == number]
            expressions = [*shared.passes[number], *[shared.values[n] for n in kept]]
            beyond = first + len(shared.values)
            split, parts = without_invariants(expressions, self._is_invariant, beyond)
            found.append(_Pass(number, results, kept, split, parts))
        return found

    def _is_invariant(self, position: int) -> bool:
        stage = position - len(self.loop.inputs)
        return position in self.constant or 0 <= stage < len(self.loop.stages)

    # Formulas

    def functions(self) -> str:
        """Return device functions: those of each pass, of outputs per row, and of reductions."""
        text = self.arrays.index_functions()
        for one in (*self.passes, self.last):
            if one.parts:
                text += self._function(f"parts{one.number}", one.parts, [])
            if one.expressions:
                text += self._function(f"pass{one.number}", one.expressions, one.parts)
        if self.per_row:
            outputs = [self.loop.outputs[k].expression for k in self.per_row]
            text += self._function("row", outputs, [])
        for k, stage in enumerate(self.loop.stages):
            text += combination(k, stage)
        return text

    def _function(
        self, name: str, expressions: Sequence[Expression], parts: Sequence[Expression]
    ) -> str:
        types = [self.arrays.computed(i) for i in range(len(self.loop.inputs))]
        types += [type_of(finish_of(stage)) for stage in self.loop.stages]
        types += [type_of(value) for value in self.shared]
        types += [type_of(part) for part in parts]
        takes = [f"const {types[i]} a{i}" for i in sorted(inputs_of(expressions))]
        names = [f"a{i}" for i in range(len(types))]
        return device_function("void", name, takes, expressions, names)

    def _call(
        self, name: str, expressions: Sequence[Expression], results: Sequence[str], number: int = 0
    ) -> str:
        """Return a call of a function; element `j` of the vectors is its argument."""
        read = sorted(inputs_of(expressions))
        return f"{name}({', '.join([*[self._argument(i, number) for i in read], *results])});"

    def _argument(self, position: int, number: int) -> str:
        inputs, stages = len(self.loop.inputs), len(self.loop.stages)
        if position >= inputs + stages + len(self.shared):
            return f"h{number}_{position - inputs - stages - len(self.shared)}"
        if position >= inputs + stages:
            return f"m{position - inputs - stages}[e][j]"
        if position >= inputs:
            return f"t{position - inputs}"
        if position in self.constant:
            return f"s{position}"
        if self._is_read_by_element(position):
            return f"w{position}[j]"
        if position in self.held:
            return self.arrays.read(position).there(position, f"widen(x{position}[e].v[j])")
        return self.arrays.read(position).element(position)

    def _is_read_by_element(self, position: int) -> bool:
        return position in self.g.windows or (
            position in self.g.gathers and position not in self.by_row
        )

    # The kernel

    def kernel(self) -> str:
        """Return the kernel."""
        threads = self.schedule.threads
        bounds = f"{threads}, {self.schedule.at_once}"
        return (
            f'\nextern "C" __global__ void __launch_bounds__({bounds}) loop('
            f"{', '.join(self.arrays.parameters())}) {{\n"
            f"    typedef {self.arrays.index_type(threads)} I;\n"
            + self._shared_memory()
            + self._row()
            + self._held_vectors()
            + "".join(self._reduction(one) for one in self.passes)
            + self._outputs_per_row()
            + (self._parts(self.last) + self._over_row(self.last) if self.whole else "")
            + "}\n"
        )

    def _shared_memory(self) -> str:
        """Declare memory for each stage, so that one barrier per pass is enough."""
        warps = self.schedule.lanes // WARP
        if warps < 2:
            return ""
        return "".join(
            f"    __shared__ {type_of(stage.expression)} room{k}[{warps}];\n"
            for k, stage in enumerate(self.loop.stages)
        )

    def _row(self) -> str:
        """Find the row of a thread. Spare threads take row 0, but reduce and store nothing."""
        s = self.schedule
        text = f"    const int lane = threadIdx.x % {s.lanes};\n"
        if s.threads == s.lanes:
            text += "    const I k = blockIdx.x;\n"
        else:
            place = f"(I)blockIdx.x * {s.threads // s.lanes} + threadIdx.x / {s.lanes}"
            text += f"    const I place = {place};\n"
            if self.has_spare_lanes:
                text += f"    const bool has_row = place < (I){self.rows};\n"
                text += "    const I k = has_row ? place : 0;\n"
            else:
                text += "    const I k = place;\n"
        text += self.arrays.indices("k", combined=False)
        inputs, writes = range(len(self.loop.inputs)), bool(self.whole or self.g.added)
        text += self.arrays.offsets(inputs, writes, combined=False, base=True, added=False)
        for i in in_order_of_indices(self.g, [*self.constant, *self.by_row]):
            start = f"p{i}"
            if i in self.by_row:
                start = f"g{i}"
                lines = self.arrays.row_lines(i, lambda k: f"s{k}")
                text += "".join(f"    {line}\n" for line in lines)
            if i in self.constant:
                value = self.arrays.read(i).there(i, f"widen({start}[b{i}])")
                text += f"    const {self.arrays.computed(i)} s{i} = {value};\n"
        return text

    def _held_vectors(self) -> str:
        """Load the vectors that the thread holds; those beyond the row are copies of the first."""
        n, held = self.g.width, self.schedule.held
        declared, loads = "", []
        for v, value in enumerate(self.shared):
            declared += f"    {type_of(value)} m{v}[{held}][{n}];\n"
        if not self.held:
            return declared
        for i in self.held:
            vector, step = f"Vec<{self.arrays.stored(i)}, {n}>", self.g.reads[i][-1]
            start = f"g{i}" if i in self.by_row else f"p{i}"
            declared += f"    {vector} x{i}[{held}];\n"
            if step == 1:
                loads.append(f"x{i}[e] = *(const {vector}*)({start} + o{i});")
            else:
                loads.append(f"x{i}[e].v[j] = {start}[o{i} + j * (I){step}];")
                loads[-1] = f"for (int j = 0; j < {n}; ++j) {loads[-1]}"
        return (
            f"{declared}    #pragma unroll\n    for (int e = 0; e < {held}; ++e) {{\n"
            + self._place()
            + self.arrays.indices("r", combined=True)
            + self.arrays.offsets(self.held, False, combined=True, base=False, added=True)
            + "".join(f"        {line}\n" for line in loads)
            + "    }\n"
        )

    def _reduction(self, one: _Pass) -> str:
        """Return one pass that reduces, and the exchange after it."""
        stages = {k: self.loop.stages[k] for k in one.results}
        text = self._parts(one)
        for k, stage in stages.items():
            text += f"    {type_of(stage.expression)} acc{k} = {first_value(stage)};\n"
        text += self._over_row(one)
        lanes = self.schedule.lanes
        if lanes > 1:
            for k in stages:
                text += f"    acc{k} = among<{min(lanes, WARP)}>(acc{k}, Combine{k}());\n"
        if lanes > WARP:
            puts = " ".join(f"room{k}[threadIdx.x / {WARP}] = acc{k};" for k in stages)
            text += f"    if (threadIdx.x % {WARP} == 0) {{ {puts} }}\n    __syncthreads();\n"
            warps = lanes // WARP
            for k in stages:
                room = f"room{k}[threadIdx.x % {warps}]"
                text += f"    acc{k} = among<{warps}>(({type_of(stages[k].expression)}){room}, "
                text += f"Combine{k}());\n"
        for k, stage in stages.items():
            text += f"    const {type_of(finish_of(stage))} t{k} = finish{k}(acc{k});\n"
        return text

    def _parts(self, one: _Pass) -> str:
        """Compute what is constant along the row before a pass."""
        if not one.parts:
            return ""
        names = [f"h{one.number}_{n}" for n in range(len(one.parts))]
        declared = " ".join(f"{type_of(part)} {name};" for part, name in zip(one.parts, names))
        return f"    {declared}\n    {self._call(f'parts{one.number}', one.parts, names)}\n"

    def _outputs_per_row(self) -> str:
        if not self.per_row:
            return ""
        outputs = [self.loop.outputs[k].expression for k in self.per_row]
        names = [f"r{k}" for k in self.per_row]
        declared = " ".join(f"{type_of(output)} {name};" for output, name in zip(outputs, names))
        stores = " ".join(map(self._store_per_row, self.per_row))
        windows = [i for i in sorted(inputs_of(outputs)) if i in self.g.windows]
        condition = "lane == 0 && has_row" if self.has_spare_lanes else "lane == 0"
        first = ""
        if windows:  # constant along the row, so its first element serves
            first = "    const int j = 0;\n" + self.arrays.indices("(I)0", combined=True)
        return (
            f"    if ({condition}) {{\n{first}"
            + "".join(f"        {line}\n" for line in self._loads(windows))
            + f"        {declared} {self._call('row', outputs, names)} {stores}\n    }}\n"
        )

    def _store_per_row(self, k: int) -> str:
        if not self._rows(k):
            return f"store(q{k}[k], r{k});"
        row = self.g.added[k].row
        return (
            f"{{ const i64 m = {self.arrays.index(row.number, lambda i: f's{i}')};"
            f" if (m >= 0 && m < {row.size}ll) atomicAdd(q{k} + m * {row.step}ll + bq{k}, r{k}); }}"
        )

    # One pass over the row

    def _over_row(self, one: _Pass) -> str:
        """Return the loop of a pass over the vectors of a thread."""
        s = self.schedule
        if s.held:
            head = (
                f"    #pragma unroll\n    for (int e = 0; e < {s.held}; ++e) {{\n" + self._place()
            )
        else:
            end = f"(has_row ? (I){self.vectors} : 0)" if self.has_spare_lanes else self.vectors
            head = f"    #pragma unroll {s.unroll}\n"
            head += f"    for (I r = lane; r < {end}; r += {s.lanes}) {{\n"
        return head + self._vector(one) + "    }\n"

    def _place(self) -> str:
        """Declare the position `r` of vector `e` of a thread, and whether it is `inside` the row.

        A position outside becomes 0, so that all vectors can be loaded without a branch.
        """
        s = self.schedule
        place = f"lane + e * {s.lanes}"
        conditions = ["has_row"] if self.has_spare_lanes else []
        if self.vectors % s.lanes:
            within = f"e < {self.vectors // s.lanes} || {place} < {self.vectors}"
            conditions.append(f"({within})")
        if not conditions:
            return f"        const I r = {place};\n"
        return (
            f"        const bool inside = {' && '.join(conditions)};\n"
            f"        const I r = inside ? {place} : 0;\n"
        )

    def _vector(self, one: _Pass) -> str:
        """Return the code of a pass for the vector at position `r`."""
        n, is_last = self.g.width, one is self.last
        read = sorted(i for i in inputs_of(one.expressions) if i < len(self.loop.inputs))
        if is_last:
            read += [i for k in self.whole if self._rows(k) for i in self.g.added[k].inputs]
        loaded = [
            i
            for i in in_order_of_indices(self.g, read)
            if i not in self.constant and i not in self.held
        ]
        text = ""
        if loaded or is_last:
            text += self.arrays.indices("r", combined=True)
            text += self.arrays.offsets(loaded, is_last, combined=True, base=False, added=True)
        lines = self._loads(loaded)
        kinds = {k: f"Vec<{self.arrays.stored_output(k)}, {n}>" for k in self.whole}
        if is_last:
            lines += [f"{kinds[k]} z{k};" for k in self.whole]
        names = [f"r{k}" for k in one.results]
        declared = "".join(
            f"{type_of(expression)} {name}; " for expression, name in zip(one.expressions, names)
        )
        names += [f"m{v}[e][j]" for v in one.kept]
        use = [f"store(z{k}.v[j], r{k});" if is_last else self._combined(k) for k in one.results]
        call = self._call(f"pass{one.number}", one.expressions, names, one.number)
        lines.append("#pragma unroll")
        lines.append(f"for (int j = 0; j < {n}; ++j) {{ {declared}{call} {' '.join(use)} }}")
        if is_last:
            stores = [f"*({kinds[k]}*)(q{k} + ow) = z{k};" for k in self.whole if not self._rows(k)]
            for k in self.whole:
                if self._rows(k):
                    stores += self.arrays.add_lines(k, lambda i: self._argument(i, one.number))
            lines += ["if (inside) {", *stores, "}"] if self._is_masked() else stores
        return text + "".join(f"        {line}\n" for line in lines if line)

    def _rows(self, k: int) -> bool:
        """Return whether an output adds values into rows."""
        return k in self.g.added

    def _combined(self, k: int) -> str:
        value = f"Combine{k}()(acc{k}, r{k})"
        return f"acc{k} = inside ? {value} : acc{k};" if self._is_masked() else f"acc{k} = {value};"

    def _is_masked(self) -> bool:
        """Return whether vectors that a thread holds can lie beyond the row."""
        s = self.schedule
        return bool(s.held) and (self.has_spare_lanes or self.vectors % s.lanes != 0)

    def _loads(self, inputs: Sequence[int]) -> list[str]:
        """Return the statements that read a vector of inputs, in the order of their indices."""
        lines: list[str] = []
        for i in inputs:
            if i in self.g.windows:
                lines += window_lines(self.g, i, self.arrays.computed(i))
            elif self._is_read_by_element(i):
                lines += self.arrays.element_lines(i, lambda k: self._argument(k, 0))
            else:
                lines.append(self.arrays.read(i).load(i, self.g.width))
        return lines
