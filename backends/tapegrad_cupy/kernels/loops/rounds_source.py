"""CUDA source of all rounds of an elementwise loop body: one launch, one thread per element.

A thread keeps what its element carries from round to round in registers. Entries of stacks do not
depend on the rounds before, so they are loaded some rounds ahead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.trace.c_source import type_of
from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.elementwise.source import STORED, preamble
from tapegrad_cupy.kernels.elementwise.vectors import device_function
from tapegrad_cupy.kernels.loops.arrays import Arrays
from tapegrad_cupy.kernels.loops.geometry import Geometry

DType = np.dtype[Any]

MOST_AHEAD = 8
"""The most rounds whose entries are loaded ahead."""

MOST_LOADED = 24
"""The most entries that a thread has loaded ahead."""


class RoundValue(NamedTuple):
    """Where a round takes a value: the kind and the position among the values of its kind.

    The kinds are "carried", "entry" and "shared", "constant" with the number of the value as its
    position, and "result" for what the loop computes.
    """

    kind: str
    position: int


class RoundsPlan(NamedTuple):
    """A round of one flat loop over contiguous arrays.

    `inputs` has the source of each input of the loop, `carried` those of the new carried values,
    and `made` those of the entries of the stacks that the loop over the rounds makes. Carried
    values, and what is carried or made, have one element for each element of the space.
    `entry_sizes` has the elements of one entry of each stack that is read.
    """

    loop: Loop
    walk: Geometry
    inputs: tuple[RoundValue, ...]
    carried: tuple[RoundValue, ...]
    made: tuple[RoundValue, ...]
    carried_dtypes: tuple[DType, ...]
    made_dtypes: tuple[DType, ...]
    entry_sizes: tuple[int, ...]
    backwards: bool


def rounds_source(plan: RoundsPlan, threads: int) -> str:
    """Return the source of the kernel `rounds`.

    Its arguments are the number of rounds, the addresses of the first carried values, of the inputs
    of the loop that are not carried, of the last carried values, and of the stacks that it makes.
    """
    return _Writer(plan, threads).source()


class _Writer:
    """Writes one kernel; `p0`, ... are inputs of the loop and `h0`, ... what is carried."""

    def __init__(self, plan: RoundsPlan, threads: int) -> None:
        self._plan, self._threads = plan, threads
        self._arrays = Arrays(plan.loop, plan.walk, [None] * len(plan.loop.outputs))
        self._loaded = [i for i, one in enumerate(plan.inputs) if one.kind == "entry"]
        self._carried_types = [_stored_type(dtype) for dtype in plan.carried_dtypes]
        self._made_types = [_stored_type(dtype) for dtype in plan.made_dtypes]
        self._shared = [
            i for i, one in enumerate(plan.inputs) if one.kind in ("shared", "constant")
        ]

    def source(self) -> str:
        loop, arrays = self._plan.loop, self._arrays
        names = [f"a{i}" for i in range(len(loop.inputs))]
        takes = [f"const {arrays.computed(i)} {name}" for i, name in enumerate(names)]
        outputs = [output.expression for output in loop.outputs]
        formula = device_function("void", "formula", takes, outputs, names)
        dtypes = {dtype.name for dtype in (*self._plan.carried_dtypes, *self._plan.made_dtypes)}
        return (
            preamble(arrays.dtypes() | dtypes, formula)
            + f'\nextern "C" __global__ void __launch_bounds__({self._threads}) rounds('
            + f"{', '.join(self._parameters())}) {{\n{self._body()}}}\n"
        )

    def _parameters(self) -> list[str]:
        arrays = self._arrays
        first = [f"const {kind}* __restrict__ f{k}" for k, kind in enumerate(self._carried_types)]
        read = [f"const {arrays.stored(i)}* __restrict__ p{i}" for i in self._outer]
        last = [f"{kind}* __restrict__ l{k}" for k, kind in enumerate(self._carried_types)]
        made = [f"{kind}* __restrict__ m{k}" for k, kind in enumerate(self._made_types)]
        return ["const i64 length", *first, *read, *last, *made]

    @property
    def _outer(self) -> list[int]:
        return sorted([*self._loaded, *self._shared])

    def _body(self) -> str:
        plan, arrays = self._plan, self._arrays
        count = plan.walk.count(combined=False)
        text = (
            f"    typedef {arrays.index_type(self._threads)} I;\n"
            f"    const I k = (I)blockIdx.x * {self._threads} + threadIdx.x;\n"
            f"    if (k >= (I){count}) return;\n"
            + arrays.indices("k", combined=False)
            + arrays.offsets(range(len(plan.loop.inputs)), True, False, False, False)
        )
        for k, kind in enumerate(self._carried_types):
            text += f"    {kind} h{k} = f{k}[ow];\n"
        for i in self._shared:
            text += f"    const {arrays.computed(i)} s{i} = widen(p{i}[o{i}]);\n"
        text += self._rounds()
        for k in range(len(plan.carried)):
            text += f"    l{k}[ow] = h{k};\n"
        return text

    def _rounds(self) -> str:
        """Return the loop over groups of rounds; a group's entries are loaded before the last."""
        ahead = self._ahead
        if not self._loaded:
            head = "    #pragma unroll 4\n    for (i64 r = 0; r < length; ++r) {\n"
            return f"{head}{self._round()}    }}\n"
        kinds = [(i, self._arrays.stored(i)) for i in self._loaded]
        return (
            "".join(f"    {kind} next{i}[{ahead}], now{i}[{ahead}];\n" for i, kind in kinds)
            + self._load("u")
            + f"    for (i64 first = 0; first < length; first += {ahead}) {{\n"
            + "        #pragma unroll\n"
            + f"        for (int u = 0; u < {ahead}; ++u) {{ "
            + " ".join(f"now{i}[u] = next{i}[u];" for i in self._loaded)
            + " }\n"
            + self._load(f"first + {ahead} + u")
            + "        #pragma unroll\n"
            + f"        for (int u = 0; u < {ahead}; ++u) {{\n"
            + "        const i64 r = first + u;\n        if (r < length) {\n"
            + self._round()
            + "        }\n        }\n    }\n"
        )

    @property
    def _ahead(self) -> int:
        return max(1, min(MOST_AHEAD, MOST_LOADED // max(1, len(self._loaded))))

    def _load(self, number: str) -> str:
        """Load the entries of the next group, as far as there are such rounds."""
        loads = " ".join(
            f"next{i}[u] = p{i}[at * {self._size(i)}ll + (i64)o{i}];" for i in self._loaded
        )
        return (
            f"    #pragma unroll\n    for (int u = 0; u < {self._ahead}; ++u) {{ "
            f"const i64 n = {number}; if (n < length) {{ const i64 at = {self._entry('n')}; "
            f"{loads} }} }}\n"
        )

    def _size(self, i: int) -> int:
        return self._plan.entry_sizes[self._plan.inputs[i].position]

    def _entry(self, number: str) -> str:
        """Return the position of the entry of a round."""
        return f"length - 1 - {number}" if self._plan.backwards else number

    def _round(self) -> str:
        """Return the statements of round `r`."""
        plan = self._plan
        results = range(len(plan.loop.outputs))
        declared = " ".join(f"{type_of(plan.loop.outputs[k].expression)} r{k};" for k in results)
        arguments = [self._value(i) for i in range(len(plan.inputs))]
        call = f"formula({', '.join([*arguments, *[f'r{k}' for k in results]])});"
        count = plan.walk.count(combined=False)
        stores = "".join(
            f"            m{k}[at * {count}ll + (i64)ow] = {self._stored(one, kind)};\n"
            for k, (one, kind) in enumerate(zip(plan.made, self._made_types, strict=True))
        )
        # All new values are made before the first one replaces an old one.
        news = "".join(
            f"            const {kind} n{k} = {self._stored(one, kind)};\n"
            for k, (one, kind) in enumerate(zip(plan.carried, self._carried_types, strict=True))
        )
        moves = " ".join(f"h{k} = n{k};" for k in range(len(plan.carried)))
        return (
            f"            {declared} {call}\n"
            f"            const i64 at = {self._entry('r')};\n{stores}{news}            {moves}\n"
        )

    def _value(self, i: int) -> str:
        """Return what the formula takes as an input."""
        one = self._plan.inputs[i]
        if one.kind == "carried":
            return f"widen(h{one.position})"
        return f"widen(now{i}[u])" if one.kind == "entry" else f"s{i}"

    def _stored(self, one: RoundValue, kind: str) -> str:
        """Return a value as it is stored."""
        if one.kind == "result":
            return f"narrow<{kind}>(r{one.position})"
        if one.kind == "carried":
            return f"h{one.position}"
        inputs = self._plan.inputs
        i = inputs.index(one)
        return f"now{i}[u]" if one.kind == "entry" else f"narrow<{kind}>(s{i})"


def _stored_type(dtype: DType) -> str:
    return STORED.get(dtype.name) or type_of(Expression("input", dtype))
