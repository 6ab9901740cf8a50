"""Loops of recorded programs as CUDA kernels, one launch each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad.core.expression import UntraceableError
from tapegrad.core.loop import JoinedLoops, Loop
from tapegrad_cupy.compiled import wide_dtype
from tapegrad_cupy.copies import contiguous_copy
from tapegrad_cupy.launch import Kernel
from tapegrad_cupy.loops.geometry import Geometry, geometry
from tapegrad_cupy.loops.joined import CudaLoops
from tapegrad_cupy.loops.schedule import schedule
from tapegrad_cupy.loops.source import loop_source

Array = Any
Run = Callable[[Sequence[Array], Sequence[Array | None]], tuple[Array, ...]]

MOST_KERNELS = 4096
_OPTIONS = ("-std=c++17",)


class CudaLoop:
    """One loop; a kernel is made for each way in which its arrays lie in memory."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._plans: dict[Any, _Plan] = {}
        _usual_source(loop)  # raises if the loop cannot be written in C

    @property
    def source(self) -> str:
        """The kernel for arrays that lie in memory in the usual order."""
        return _usual_source(self._loop)

    def __call__(
        self, arrays: Sequence[Array], targets: Sequence[Array | None]
    ) -> tuple[Array, ...]:
        with cupy.cuda.Device(arrays[0].data.device_id):
            in_place = tuple(_place_of(target, arrays) for target in targets)
            low = functools.reduce(
                lambda bits, array: bits | array.data.ptr,
                [*arrays, *[target for target in targets if target is not None]],
                0,
            )
            strides = tuple(array.strides for array in arrays)
            key = (strides, not low & 15, in_place, arrays[0].data.device_id)
            plan = self._plans.get(key)
            if plan is None:
                walk = geometry(self._loop, strides, aligned=not low & 15)
                if walk is None:
                    return self([contiguous_copy(array) for array in arrays], targets)
                plan = self._plans[key] = _Plan(self._loop, walk, in_place)
            return plan(arrays, targets)


def _place_of(target: Array | None, arrays: Sequence[Array]) -> int | None:
    """The position of the array that lies where a target lies."""
    if target is None:
        return None
    address = target.data.ptr
    return next((i for i, array in enumerate(arrays) if array.data.ptr == address), None)


class _Plan:
    """The kernel of a loop for arrays that lie in one way."""

    def __init__(self, loop: Loop, walk: Geometry, in_place: Sequence[int | None]) -> None:
        self._loop = loop
        self._schedule = schedule(walk, loop.writes)
        source = loop_source(loop, walk, self._schedule, in_place)
        combined = [output for output in loop.outputs if output.combine is not None]
        parts = self._schedule.parts
        count = len(loop.inputs) + len(loop.outputs)
        arguments = "P" * (count + (len(combined) + 1 if parts > 1 else 0))
        self._kernel = _kernel(source, arguments)
        results = walk.count(combined=False)
        self._parts = [(parts * results, _accumulator(o)) for o in combined if parts > 1]
        # The last block of each group sets its counter back, so that they are 0 at every launch.
        self._counters = cupy.zeros(self._schedule.counters, np.uint32) if parts > 1 else None

    def __call__(
        self, arrays: Sequence[Array], targets: Sequence[Array | None]
    ) -> tuple[Array, ...]:
        results = tuple(
            cupy.ndarray(output.shape, output.dtype) if target is None else target
            for output, target in zip(self._loop.outputs, targets)
        )
        scratch = [cupy.ndarray(size, dtype) for size, dtype in self._parts]
        if self._counters is not None:
            scratch.append(self._counters)
        places = [array.data.ptr for array in (*arrays, *results, *scratch)]
        self._kernel(self._schedule.blocks, self._schedule.threads, *places)
        return results


def _accumulator(output: Any) -> np.dtype[Any]:
    return wide_dtype(output.expression.dtype)


@functools.lru_cache(maxsize=MOST_KERNELS)
def _kernel(source: str, arguments: str) -> Kernel:
    def make() -> Any:
        return cupy.RawModule(code=source, options=_OPTIONS).get_function("loop")

    return Kernel(make, arguments)


def _usual_source(loop: Loop) -> str:
    """The source for contiguous arrays; UntraceableError if there is none."""
    strides = [strides_in_order(read.shape, read.dtype.itemsize) for read in loop.inputs]
    walk = geometry(loop, strides, aligned=True)
    assert walk is not None
    return loop_source(loop, walk, schedule(walk, loop.writes), [None] * len(loop.outputs))


def strides_in_order(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array whose elements lie one after the other."""
    found, step = [], itemsize
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


class _Maker:
    """The hook for programs: a callable per loop, None for those that cannot be written in C."""

    joins = True

    def __call__(self, loops: Sequence[Loop | JoinedLoops]) -> list[Run | None]:
        return [self._made(loop) for loop in loops]

    def _made(self, loop: Loop | JoinedLoops) -> Run | None:
        try:
            return CudaLoops(loop) if isinstance(loop, JoinedLoops) else CudaLoop(loop)
        except UntraceableError:
            return None


KERNELS = {"loops": _Maker()}
"""Fused loops; see tapegrad/core/loop.py for what one is."""
