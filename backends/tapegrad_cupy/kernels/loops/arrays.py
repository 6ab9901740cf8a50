"""The arrays of a loop in CUDA code: their types, the arguments of the kernel, and offsets.

`p0`, `p1`, ... are inputs and `q0`, `q1`, ... outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tapegrad.core.trace.c_source import type_of
from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.elementwise.source import STORED
from tapegrad_cupy.kernels.elementwise.vectors import Read, device_function
from tapegrad_cupy.kernels.loops.geometry import Geometry, Shape
from tapegrad_cupy.kernels.loops.invariants import inputs_of


class Arrays:
    """The arrays of one kernel. `in_place` has for each output the input that it overwrites."""

    def __init__(self, loop: Loop, geometry: Geometry, in_place: Sequence[int | None]) -> None:
        self._loop = loop
        self._g = geometry
        self._written = {read for read in in_place if read is not None}

    # Types

    def dtypes(self) -> set[str]:
        """Return the names of all dtypes that are read or written."""
        found = [read.dtype for read in self._loop.inputs]
        return {dtype.name for dtype in [*found, *[out.dtype for out in self._loop.outputs]]}

    def computed(self, i: int) -> str:
        """Return the C type of an input in formulas."""
        return type_of(Expression("input", self._loop.inputs[i].dtype))

    def stored(self, i: int) -> str:
        """Return the C type of an input in memory."""
        return STORED.get(self._loop.inputs[i].dtype.name) or self.computed(i)

    def stored_output(self, k: int) -> str:
        """Return the C type of an output in memory."""
        output = self._loop.outputs[k]
        stored = STORED.get(output.dtype.name)
        return stored or type_of(output.expression if output.finish is None else output.finish)

    def index_type(self, threads: int) -> str:
        """Return the C type of offsets."""
        furthest = [
            sum((n - 1) * abs(s) for n, s in zip(self._g.sizes, steps))
            for steps in (
                *self._g.reads,
                self._g.writes,
                *[one.steps for one in self._g.added.values()],
            )
        ]
        backwards = any(step < 0 for steps in self._g.reads for step in steps)
        wide = backwards or max(furthest) + threads * 16 >= 2**31
        return "i64" if wide else "unsigned int"

    # Indices

    def index_functions(self) -> str:
        """Return a device function for each index expression of the loop."""
        text = ""
        for n, index in enumerate(self._loop.indices):
            read = sorted(inputs_of([index]))
            takes = [f"const {self.computed(i)} a{i}" for i in read]
            names = [f"a{i}" for i in range(len(self._loop.inputs))]
            text += device_function("i64", f"index{n}", takes, [index], names)
        return text

    def row_lines(self, i: int, argument: Callable[[int], str]) -> list[str]:
        """Declare the address `g` of the rows of a gathered input, and whether they are `there`.

        `argument` returns the value of another input.
        """
        lines = [f"bool there{i} = true; const {self.stored(i)}* g{i} = p{i} + {self._first(i)};"]
        for row in self._g.gathers[i].rows:
            lines += [
                f"{{ const i64 m = {self.index(row.number, argument)};",
                f"there{i} = there{i} && m >= 0 && m < {row.size}ll;",
                f"g{i} += (m >= 0 && m < {row.size}ll ? m : 0) * {row.step}ll; }}",
            ]
        return lines

    def element_lines(self, i: int, argument: Callable[[int], str]) -> list[str]:
        """Read a vector of a gathered input into `w`, one element after the other."""
        kind, width, step = self.computed(i), self._g.width, self._g.reads[i][-1]
        return [
            f"{kind} w{i}[{width}];",
            "#pragma unroll",
            f"for (int j = 0; j < {width}; ++j) {{",
            *self.row_lines(i, argument),
            f"w{i}[j] = there{i} ? widen(g{i}[o{i} + j * (I){step}]) : ({kind})0; }}",
        ]

    def add_lines(self, k: int, argument: Callable[[int], str]) -> list[str]:
        """Add the vector `z` of an output into its rows."""
        one, width = self._g.added[k], self._g.width
        index = f"{{ const i64 m = {self.index(one.row.number, argument)};"
        inside = f"if (m >= 0 && m < {one.row.size}ll)"
        start = f"q{k} + m * {one.row.step}ll + oq{k}"
        if not one.varies:
            return [f"{index} {inside} add_atomically({start}, z{k}); }}"]
        place = f"{start} + j * (I){one.steps[-1]}"
        return [
            "#pragma unroll",
            f"for (int j = 0; j < {width}; ++j) {index} {inside} atomicAdd({place}, z{k}.v[j]); }}",
        ]

    def run_lines(self, k: int, argument: Callable[[int], str]) -> list[str]:
        """Add the vector `z` of an output to `total`, which goes to memory when the row changes."""
        one = self._g.added[k]
        return [
            f"{{ const i64 m = {self.index(one.row.number, argument)};",
            f"if (m != key{k}) {{",
            self.end_of_run(k),
            f"key{k} = m; to{k} = q{k} + m * {one.row.step}ll + oq{k}; total{k} = z{k};",
            "} else {",
            f"for (int j = 0; j < {self._g.width}; ++j) total{k}.v[j] += z{k}.v[j];",
            "} }",
        ]

    def end_of_run(self, k: int) -> str:
        """Add the total of a run of rows to memory."""
        inside = f"key{k} >= 0 && key{k} < {self._g.added[k].row.size}ll"
        return f"if ({inside}) add_atomically(to{k}, total{k});"

    def _first(self, i: int) -> str:
        return f"{self._g.gathers[i].first}ll"

    def index(self, n: int, argument: Callable[[int], str]) -> str:
        """Return the value of an index expression."""
        read = sorted(inputs_of([self._loop.indices[n]]))
        return f"index{n}({', '.join(argument(i) for i in read)})"

    # Code

    def parameters(self) -> list[str]:
        """Return the declarations of the arguments: inputs, then outputs."""
        found = []
        for i in range(len(self._loop.inputs)):
            # An input that is overwritten must not be declared __restrict__.
            qualifier = "" if i in self._written else " __restrict__"
            found.append(f"const {self.stored(i)}*{qualifier} p{i}")
        return found + [f"{self.stored_output(k)}* q{k}" for k in range(len(self._loop.outputs))]

    def read(self, i: int) -> Read:
        """Return how a thread reads a vector of an input that is no window."""
        step = self._g.reads[i][-1]
        return Read(self.stored(i), self.computed(i), step, f"{step}", i in self._g.gathers)

    def indices(self, index: str, combined: bool) -> str:
        """Declare the indices `c0`, `c1`, ... at a position along the reduced axes, or the others.

        The position and the index of the last axis count vectors.
        """
        axes, last = self._axes(combined), len(self._g.sizes) - 1
        text, left = "", index
        for position, d in enumerate(reversed(axes)):
            size = self._g.sizes[d] // (self._g.width if d == last else 1)
            if position == len(axes) - 1:
                text += f"    const I c{d} = {left};\n"
            else:
                text += f"    const I c{d} = {left} % {size}, left{d} = {left} / {size};\n"
                left = f"left{d}"
        return text

    def offsets(
        self, inputs: Iterable[int], writes: bool, combined: bool, base: bool, added: bool
    ) -> str:
        """Declare the offsets of inputs, and of elementwise results if there are any.

        With `base` the offsets are named b0, b1, ..., and bw for results. Otherwise they are named
        o0, o1, ... and ow, by which vectors are read, and the base is `added` to them.
        """
        arrays = {f"{i}": self._g.reads[i] for i in inputs if i not in self._g.windows}
        if writes:
            arrays["w"] = self._g.writes
            arrays.update({f"q{k}": one.steps for k, one in self._g.added.items()})
        text = ""
        for name, steps in arrays.items():
            terms = [f"b{name}"] if added else []
            terms += self._terms(self._axes(combined), steps)
            text += f"    const I {'b' if base else 'o'}{name} = {' + '.join(terms) or '0'};\n"
        return text

    def _axes(self, combined: bool) -> list[int]:
        return [d for d, flag in enumerate(self._g.is_combined) if flag == combined]

    def _terms(self, axes: Sequence[int], steps: Shape) -> list[str]:
        last = len(self._g.sizes) - 1
        found = []
        for d in axes:
            step = steps[d] * (self._g.width if d == last else 1)
            if step:
                found.append(f"c{d}" if step == 1 else f"c{d} * (I){step}")
        return found
