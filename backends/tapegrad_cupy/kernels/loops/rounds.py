"""All rounds of an elementwise loop body in one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import cupy
import numpy as np

from tapegrad.core.trace.expression import UntraceableError, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_cupy.kernels.loops.geometry import geometry
from tapegrad_cupy.kernels.loops.merged import Part, merged
from tapegrad_cupy.kernels.loops.rounds_source import RoundsPlan, RoundValue, rounds_source
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import Source, contiguous
from tapegrad_cupy.launch.launch import kernel_from
from tapegrad_cupy.launch.strided_layout import row_major_strides

Array = Any


class RoundsKernel:
    """Runs any number of rounds of a body, whose operands it takes."""

    def __init__(self, plan: RoundsPlan, form: Any) -> None:
        self._layout, self._specs = form.layout, form.graph.outputs
        self._count = plan.walk.count(combined=False)
        self._threads = _threads_for(self._count)
        first = form.layout.carried
        place = {"entry": first, "shared": first + form.layout.entries}
        constants = form.graph.constants
        self._read = [
            constants[one.position] if one.kind == "constant" else place[one.kind] + one.position
            for one in plan.inputs
            if one.kind != "carried"
        ]
        """What the loop reads beside carried values: arrays, or the positions of operands."""
        arguments = "q" + "P" * (first + len(self._read) + len(self._specs))
        self._kernel = kernel_from(rounds_source(plan, self._threads), "rounds", arguments)

    def __call__(self, operands: Sequence[Array], length: int) -> tuple[Array, ...]:
        """Return the last carried values, then the stacks."""
        first = self._layout.carried
        with cupy.cuda.Device(operands[0].data.device_id):
            read = [operands[k] if isinstance(k, int) else k for k in self._read]
            given = [contiguous(x) for x in (*operands[:first], *read)]
            results = [cupy.ndarray(spec.shape, spec.dtype) for spec in self._specs[:first]]
            results += [cupy.ndarray((length, *v.shape), v.dtype) for v in self._specs[first:]]
            addresses = [array.data.ptr for array in (*given, *results)]
            self._kernel(-(-self._count // self._threads), self._threads, length, *addresses)
        return tuple(results)


def _threads_for(count: int) -> int:
    """Return the threads of a block: few elements are spread over many multiprocessors."""
    return 32 if count <= 1 << 13 else 64 if count <= 1 << 16 else 128


def rounds_kernel(form: Any, backwards: bool) -> RoundsKernel | None:
    """Return the kernel that runs rounds of this code, None if there is no plan for them."""
    plan = rounds_plan(form, backwards)
    constants = form.graph.constants
    if plan is None or not all(
        isinstance(constants[one.position], cupy.ndarray)
        for one in plan.inputs
        if one.kind == "constant"
    ):
        return None
    try:
        return RoundsKernel(plan, form)
    except UntraceableError:
        return None


def rounds_plan(form: Any, backwards: bool) -> RoundsPlan | None:
    """Return the plan of a round whose only work is loops without reductions, or None."""
    found = _sources(form)
    if found is None:
        return None
    part, sources = found
    loop, layout, graph = part.loop, form.layout, form.graph
    count = prod(loop.shape)
    outputs = [sources.get(value.number) for value in graph.outputs]
    inputs = [sources.get(number) for number in part.reads]
    carried = graph.inputs[: layout.carried]
    is_known = None not in inputs and None not in outputs
    same = all(v.dtype == w.dtype for v, w in zip(carried, graph.outputs))
    sizes = [prod(value.shape) for value in (*carried, *graph.outputs)]
    if not is_known or not same or not count or {*sizes} != {count}:
        return None
    for source, read in zip(inputs, loop.inputs, strict=True):
        passed = source in outputs or (source is not None and source.kind == "carried")
        if passed and prod(read.seen) != count:
            return None
    if any(one.kind not in ("carried", "result") and one not in inputs for one in outputs if one):
        return None
    strides = [row_major_strides(read.shape, read.dtype.itemsize) for read in loop.inputs]
    walk = geometry(loop, strides, aligned=False)
    if walk is None:
        return None
    entries = graph.inputs[layout.carried : layout.carried + layout.entries]
    return RoundsPlan(
        loop,
        walk._replace(width=1),
        tuple([one for one in inputs if one]),
        tuple([one for one in outputs[: layout.carried] if one]),
        tuple([one for one in outputs[layout.carried :] if one]),
        tuple([value.dtype for value in carried]),
        tuple([value.dtype for value in graph.outputs[layout.carried :]]),
        tuple([prod(value.shape) for value in entries]),
        backwards,
    )


def _sources(form: Any) -> tuple[Part, dict[int, RoundValue]] | None:
    """Return the loops of a round as one, and where values come from, by their numbers."""
    layout = form.layout
    kinds = [("carried", layout.carried), ("entry", layout.entries), ("shared", layout.shared)]
    places = [RoundValue(kind, k) for kind, count in kinds for k in range(count)]
    sources = {v.number: one for v, one in zip(form.graph.inputs, places, strict=True)}
    sources |= {number: RoundValue("constant", number) for number in form.graph.constants}
    parts: list[Part] = []
    same: dict[int, int] = {}
    """The values that reshaped ones are, by their numbers."""
    for step in form.steps:
        if isinstance(_loop_of(step), Loop) and _is_flat(step):
            reads = tuple([same.get(v.number, v.number) for v in step.arguments])
            parts.append(Part(_loop_of(step), reads, tuple([v.number for v in step.results])))
        elif getattr(step, "aliases", False) and step.primitive.name == "reshape":
            number = step.reads[0].number
            same[step.results[0].number] = same.get(number, number)
        else:
            return None
    part = merged(parts) if parts else None
    if part is None:
        return None
    sources |= {number: RoundValue("result", k) for k, number in enumerate(part.results)}
    for number, source in same.items():
        if source in sources:
            sources[number] = sources[source]
    return part, sources


def _loop_of(step: Any) -> Any:
    return getattr(getattr(step, "made_of", None), "loop", None)


def _is_flat(step: Any) -> bool:
    """Whether a loop stores one value per element and reads its arrays element by element."""
    loop: Loop = step.made_of.loop
    return (
        not loop.stages
        and not loop.indices
        and len(step.arguments) == len(loop.inputs)
        and all(read.window is None for read in loop.inputs)
        and all(o.combine is None and o.rows is None and not o.axes for o in loop.outputs)
    )


def _example(dtype: np.dtype[Any], backwards: bool) -> RoundsPlan:
    """Return a body that carries two values, reads and makes stacks, and shares a row."""
    shape = (5, 24)
    own, row = LoopInput(shape, shape, dtype), LoopInput(shape[1:], (1, shape[1]), dtype)
    h, before, x, w = (array_input(k, dtype) for k in range(4))
    loop = Loop(shape, (own, own, own, row), (LoopOutput(w * h + before * x, shape),))
    strides = [row_major_strides(read.shape, dtype.itemsize) for read in loop.inputs]
    walk = geometry(loop, strides, aligned=False)
    assert walk is not None
    new, old, entry = RoundValue("result", 0), RoundValue("carried", 0), RoundValue("entry", 0)
    inputs = (old, RoundValue("carried", 1), entry, RoundValue("shared", 0))
    made = (new, old, entry)
    return RoundsPlan(
        loop, walk, inputs, (new, old), made, (dtype,) * 2, (dtype,) * 3, (120,), backwards
    )


def variants() -> Iterator[Source]:
    """Yield a source for every dtype and direction."""
    for name, backwards in product(FLOATS, (False, True)):
        text = rounds_source(_example(np.dtype(name), backwards), 64)
        yield Source(f"rounds {name} {'backwards' if backwards else 'forwards'}", text)
