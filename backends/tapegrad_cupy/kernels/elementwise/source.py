"""CUDA source of elementwise kernels: a formula for one element, and vector loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.trace.c_source import HELPERS, type_of
from tapegrad.core.trace.expression import Expression
from tapegrad_cupy.kernels.elementwise.fast_division import definitions_for
from tapegrad_cupy.kernels.elementwise.vectors import Read, device_function
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, prelude_for

THREADS = 256
# The minimum of blocks per multiprocessor. On Hopper 0 lets the assembler decide; assemblers of
# other architectures might spill registers to fit more blocks.
_FEWEST = "__CUDA_ARCH__ != 900"

STORED = {name: C_TYPES[name] for name in ("float16", "bfloat16")}
"""The types of elements in memory that differ from those of computed values."""

_STORE = "template <class T> __device__ __forceinline__ void store(T& to, T x) { to = x; }\n"
_STORE_HALF = {
    name: f"__device__ __forceinline__ void store({t}& to, float x) {{ to = narrow<{t}>(x); }}\n"
    for name, t in STORED.items()
}


class Operand(NamedTuple):
    """An input: an array's dtype and step along the innermost dimension, or a number's C type.

    A step is 0, 1, or 2, which stands for any other step.
    """

    dtype: np.dtype[Any] | None
    step: int
    number: str = ""


def kernel_source(
    outputs: Sequence[Expression],
    operands: Sequence[Operand],
    rank: int,
    width: int,
    wide_index: bool,
) -> str:
    """Return the source of the kernel `elementwise` for a formula and a layout.

    The arguments of the kernel are the inputs (addresses and numbers), the addresses of the
    outputs, and the number of elements. If `is_plain` is false, the sizes of all dimensions and the
    steps of each input follow.
    """
    writer = _Kernel(outputs, operands, rank, width, "i64" if wide_index else "unsigned int")
    return preamble(writer.dtypes(), writer.formula()) + writer.kernel("elementwise")


def joined_source(
    formulas: Sequence[tuple[Sequence[Expression], Sequence[Operand]]], rank: int, width: int
) -> str:
    """Return the source of many kernels, so that the shared parts are compiled only once."""
    writers = [
        _Kernel(outputs, operands, rank, width, "unsigned int") for outputs, operands in formulas
    ]
    bodies = "".join(
        f"\nnamespace formula_{k} {{{one.formula()}{one.kernel(f'elementwise_{k}')}}}\n"
        for k, one in enumerate(writers)
    )
    return preamble({name for one in writers for name in one.dtypes()}, bodies)


def preamble(dtypes: set[str], functions: str) -> str:
    """Return functions of formulas, after what they need for arrays of these dtypes."""
    conversions = "".join(_STORE_HALF.get(name, "") for name in sorted(dtypes))
    before = prelude_for(dtypes) + _STORE + conversions + HELPERS
    return before + definitions_for(functions) + functions


def is_plain(operands: Sequence[Operand], rank: int) -> bool:
    """Return whether the kernel needs neither sizes nor steps: one dimension of steps 0 or 1."""
    return rank == 1 and all(operand.step < 2 for operand in operands)


class _Kernel:
    """Writes one kernel; `a0`, `a1`, ... are inputs and `y0`, `y1`, ... outputs of its formula."""

    def __init__(
        self,
        outputs: Sequence[Expression],
        operands: Sequence[Operand],
        rank: int,
        width: int,
        index_type: str,
    ) -> None:
        self.outputs = outputs
        self.operands = operands
        self.rank = rank
        self.width = width
        self.index_type = index_type
        self.plain = is_plain(operands, rank)
        self.arrays = [i for i, operand in enumerate(operands) if operand.dtype is not None]

    def formula(self) -> str:
        """Return the device function that computes one element."""
        names = [f"a{i}" for i in range(len(self.operands))]
        takes = [f"const {self._type(i)} {name}" for i, name in enumerate(names)]
        return "\n" + device_function("void", "formula", takes, self.outputs, names)

    def dtypes(self) -> set[str]:
        """Return the names of all dtypes that are read or written."""
        found = [operand.dtype for operand in self.operands]
        found += [output.dtype for output in self.outputs]
        return {dtype.name for dtype in found if dtype is not None}

    def kernel(self, name: str) -> str:
        """Return the kernel that applies the formula to all elements."""
        body = self._flat() if self.plain else self._strided()
        return (
            f'\nextern "C" __global__ void __launch_bounds__({THREADS}, {_FEWEST}) {name}('
            f"{', '.join(self._parameters())}) {{\n"
            f"    typedef {self.index_type} I;\n"
            f"    const I index = (I)blockIdx.x * {THREADS} + threadIdx.x;\n{body}}}\n"
        )

    def _type(self, i: int) -> str:
        operand = self.operands[i]
        if operand.dtype is None:
            return operand.number
        return type_of(Expression("input", operand.dtype))

    def _stored(self, i: int) -> str:
        dtype = self.operands[i].dtype
        assert dtype is not None
        return STORED.get(dtype.name) or self._type(i)

    def _stored_output(self, k: int) -> str:
        dtype = self.outputs[k].dtype
        assert dtype is not None
        return STORED.get(dtype.name) or type_of(self.outputs[k])

    def _parameters(self) -> list[str]:
        found = [
            f"const {self._stored(i)}* __restrict__ p{i}"
            if operand.dtype is not None
            else f"const {operand.number} p{i}"
            for i, operand in enumerate(self.operands)
        ]
        found += [f"{self._stored_output(k)}* __restrict__ q{k}" for k in range(len(self.outputs))]
        found.append("const i64 count")
        if not self.plain:
            found += [f"const i64 size{d}" for d in range(self.rank)]
            found += [f"const i64 step{i}_{d}" for i in self.arrays for d in range(self.rank)]
        return found

    def _call(self, arguments: Sequence[str], results: Sequence[str]) -> str:
        """Return code that applies the formula and stores the results."""
        declared = "".join(f"{type_of(o)} r{k}; " for k, o in enumerate(self.outputs))
        names = [f"r{k}" for k in range(len(self.outputs))]
        stored = " ".join(f"store({place}, {name});" for place, name in zip(results, names))
        return f"{declared}formula({', '.join([*arguments, *names])}); {stored}"

    def _flat(self) -> str:
        """Return the body for one dimension with steps 0 or 1: vectors, then the remainder."""
        n = self.width
        single = "".join(
            f"    const {self._type(i)} s{i} = widen(p{i}[0]);\n"
            for i in self.arrays
            if self.operands[i].step == 0
        )
        rest = self._call(
            [self._element(i, f"widen(p{i}[at])") for i in range(len(self.operands))],
            [f"q{k}[at]" for k in range(len(self.outputs))],
        )
        if n == 1:
            return f"{single}    if (index < (I)count) {{ const I at = index; {rest} }}\n"
        return (
            f"{single}    const I vectors = (I)(count / {n});\n"
            f"    if (index < vectors) {{\n{self._vectors('index', single_name='s')}"
            f"    }} else if (index - vectors < (I)count - vectors * {n}) {{\n"
            f"        const I at = vectors * {n} + (index - vectors); {rest}\n    }}\n"
        )

    def _element(self, i: int, whole: str) -> str:
        operand = self.operands[i]
        if operand.dtype is None:
            return f"p{i}"
        return whole if operand.step else f"s{i}"

    def _vectors(self, at: str, single_name: str) -> str:
        """Return code that loads vectors at an index, computes, and stores; `at` counts vectors."""
        n = self.width
        loads = "".join(
            f"        const Vec<{self._stored(i)}, {n}> x{i} = "
            f"((const Vec<{self._stored(i)}, {n}>*)p{i})[{at}];\n"
            for i in self.arrays
            if self.operands[i].step == 1
        )
        return loads + self._loop([
            self._element(i, f"widen(x{i}.v[j])") for i in range(len(self.operands))
        ], at)  # fmt: skip

    def _loop(self, arguments: Sequence[str], at: str) -> str:
        n = self.width
        outputs = range(len(self.outputs))
        makes = "".join(f"        Vec<{self._stored_output(k)}, {n}> z{k};\n" for k in outputs)
        call = self._call(arguments, [f"z{k}.v[j]" for k in outputs])
        stores = "".join(
            f"        ((Vec<{self._stored_output(k)}, {n}>*)q{k})[{at}] = z{k};\n" for k in outputs
        )
        return (
            f"{makes}        #pragma unroll\n"
            f"        for (int j = 0; j < {n}; ++j) {{ {call} }}\n{stores}"
        )

    def _strided(self) -> str:
        """Return the body for any number of dimensions: one vector along the innermost one."""
        n, last = self.width, self.rank - 1
        lines = [f"    if (index >= (I)(count / {n})) return;", "    I left = index;"]
        lines += [f"    I o{i} = 0;" for i in self.arrays]
        for d in range(last, -1, -1):
            size = f"(I)(size{d} / {n})" if d == last else f"(I)size{d}"
            lines.append(f"    const I c{d} = {f'left % {size}' if d else 'left'};")
            if d:
                lines.append(f"    left /= {size};")
            unit = f" * {n}" if d == last else ""
            lines += [f"    o{i} += c{d}{unit} * (I)step{i}_{d};" for i in self.arrays]
        arguments = [f"p{i}" for i in range(len(self.operands))]
        for i in self.arrays:
            step = self.operands[i].step
            read = Read(self._stored(i), self._type(i), step, f"step{i}_{last}")
            lines += [f"    {line}" for line in [read.load(i, n)] if line]
            arguments[i] = read.element(i)
        return "\n".join(lines) + "\n" + self._loop(arguments, "index")
