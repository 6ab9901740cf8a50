"""Compile the fused loops of recorded programs to CUDA kernels, one launch each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.optional_parts import LoopCall
from tapegrad.core.background import outside_python, with_checkpoints
from tapegrad.core.trace.expression import UntraceableError
from tapegrad.core.trace.loop import JoinedLoops, Loop, LoopOutput
from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.indexing.scatter import adds_atomically
from tapegrad_cupy.kernels.loops.geometry import Geometry, geometry
from tapegrad_cupy.kernels.loops.joined import CudaLoops
from tapegrad_cupy.kernels.loops.scheduled import scheduled_source
from tapegrad_cupy.launch.cuda_source import wide_dtype
from tapegrad_cupy.launch.launch import Kernel, kernel_from
from tapegrad_cupy.launch.parallel_compilation import compile_kernels
from tapegrad_cupy.launch.strided_layout import row_major_strides

_ENOUGH_ROWS = 66
"""Blocks of 1024 threads that occupy half of the multiprocessors of an H200."""

_SHORT_ROW = 8192

_ENOUGH_COLUMNS = 8192
"""Rows of one thread each that take less time than the launches of separate loops."""

_WEIGHT_PER_BYTE = 8
"""Operations that take as long as to read or write a byte of memory."""

_CACHE = 48 << 20
"""The bytes of an array that the cache holds while rows are added to it."""

_MUCH = 512 << 20
"""The least bytes of rows that are worth a sort of their indices."""

_current_device = cupy.cuda.runtime.getDevice

Array = Any
Run = Callable[[Sequence[Array], Sequence[Array | None]], tuple[Array, ...]]


class CudaLoop:
    """One loop. A kernel is compiled for each combination of layouts of its arrays."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._plans: dict[Any, _Plan] = {}
        _contiguous_source(loop)  # raises UntraceableError if the loop has no C code

    @property
    def source(self) -> str:
        """The source of the kernel for contiguous arrays."""
        return _contiguous_source(self._loop)

    def kernel(self, call: LoopCall) -> Kernel | None:
        """Return the kernel that a call on the current device is going to launch, if any."""
        strides, in_place = tuple(map(tuple, call.strides)), tuple(call.overwritten)
        aligned = not any(offset & 15 for offset in call.offsets)
        key = (strides, aligned, in_place, _current_device())
        plan = self._plans.get(key)
        if plan is None:
            walk = geometry(self._loop, strides, aligned=aligned)
            if walk is None:
                return None
            plan = self._plans[key] = _Plan(self._loop, walk, in_place)
        return plan.kernel

    def __call__(
        self, arrays: Sequence[Array], targets: Sequence[Array | None]
    ) -> tuple[Array, ...]:
        with cupy.cuda.Device(arrays[0].data.device_id):
            in_place = tuple(_overwritten(target, arrays) for target in targets)
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


def _overwritten(target: Array | None, arrays: Sequence[Array]) -> int | None:
    """Return the position of the array that has the address of a target, or None."""
    if target is None:
        return None
    address = target.data.ptr
    return next((i for i, array in enumerate(arrays) if array.data.ptr == address), None)


class _Plan:
    """The kernel of a loop for arrays of fixed layouts."""

    def __init__(self, loop: Loop, walk: Geometry, in_place: Sequence[int | None]) -> None:
        self._loop = loop
        self._schedule, source = scheduled_source(loop, walk, in_place)
        combined = [output for output in loop.outputs if output.combine is not None]
        parts = self._schedule.parts
        count = len(loop.inputs) + len(loop.outputs)
        arguments = "P" * (count + (len(combined) + 1 if parts > 1 else 0))
        self.kernel = kernel_from(source, "loop", arguments)
        results = walk.count(combined=False)
        self._parts = [(parts * results, _accumulator(o)) for o in combined if parts > 1]
        self._counters: Array = None

    def __call__(
        self, arrays: Sequence[Array], targets: Sequence[Array | None]
    ) -> tuple[Array, ...]:
        results = tuple(map(_result, self._loop.outputs, targets))
        scratch = [cupy.ndarray(size, dtype) for size, dtype in self._parts]
        if self._schedule.parts > 1:
            if self._counters is None:
                # The last block of each group resets its counter, so they are 0 at every launch.
                self._counters = cupy.zeros(self._schedule.counters, np.uint32)
            scratch.append(self._counters)
        addresses = [array.data.ptr for array in (*arrays, *results, *scratch)]
        self.kernel(self._schedule.blocks, self._schedule.threads, *addresses)
        return results


def _result(output: LoopOutput, target: Array | None) -> Array:
    """Return the array of an output; it has zeros if the loop adds to it."""
    if output.rows is None:
        return cupy.ndarray(output.shape, output.dtype) if target is None else target
    if target is None:
        return cupy.zeros(output.shape, output.dtype)
    target.fill(0)
    return target


def _accumulator(output: Any) -> np.dtype[Any]:
    return wide_dtype(output.expression.dtype)


def _contiguous_source(loop: Loop) -> str:
    """Return the source for contiguous arrays; raise UntraceableError if there is no C code."""
    strides = [row_major_strides(read.shape, read.dtype.itemsize) for read in loop.inputs]
    walk = geometry(loop, strides, aligned=True)
    assert walk is not None
    return scheduled_source(loop, walk, [None] * len(loop.outputs))[1]


class CudaLoopCompiler:
    """Compiles fused loops to CUDA kernels (see tapegrad/core/trace/loop.py)."""

    dtypes = None
    complex_primitives = None
    widened = frozenset[str]()
    joins = True
    definitions = frozenset({
        *("euclidean_norm", "log_softmax", "log_softmax_gradient", "logsumexp", "offset_index"),
        "one_hot",
        *("scatter_along_axis", "softmax", "softmax_gradient", "sum_of_squares", "ties"),
        *("fourier", "inverse_real_fourier", "real_fourier", "weigh_bins"),
    })  # fmt: skip
    windows = frozenset({
        *("flip", "gather_rows", "roll", "segment_take", "take", "take_runs", "unslice"),
    })  # fmt: skip

    def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
        """Return whether a block per row, at most, uses enough of the device.

        A few long rows are reduced by many blocks in a launch per stage. If they are short, the
        launches take more time than the work. One thread passes over a row whose elements are not
        next to each other, and its neighbours over the next rows.
        """
        if stride > 1:
            return rows >= _ENOUGH_COLUMNS or rows * length <= _ENOUGH_COLUMNS
        return rows >= _ENOUGH_ROWS or length <= _SHORT_ROW or rows * length <= 2 * _SHORT_ROW

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight <= _WEIGHT_PER_BYTE * nbytes

    def gathers(self, nbytes: int) -> bool:
        """Return True: other threads compute while one waits for memory."""
        return True

    def adds_rows(self, dtype: np.dtype[Any], entries: int, size: int) -> bool:
        """Return whether rows are added by atomic operations."""
        return adds_atomically(dtype, entries, size)

    def sorts_rows(self, entries: int, row: int, size: int) -> bool:
        """Return whether most atomic additions would change memory outside of the cache.

        On an H200, 1.3 million rows of 1 KiB take 1.13 ms into 173 MB in any order, and 0.44 ms in
        the order of their indices, which are sorted in 0.11 ms.
        """
        return row >= 128 and size * row > _CACHE and entries * row > _MUCH and entries >= 4 * size

    def compile(self, loops: Sequence[Loop | JoinedLoops]) -> list[Run | None]:
        return [self._made(loop) for loop in loops]

    def prepare(self, calls: Sequence[LoopCall]) -> None:
        """Compile the kernels of calls on the current device at the same time."""
        found = [
            call.run.kernel(call)
            for call in with_checkpoints(calls)
            if isinstance(call.run, CudaLoop | CudaLoops)
        ]
        with outside_python():
            compile_kernels([kernel for kernel in found if kernel is not None])

    def result_buffer(self, shape: tuple[int, ...], dtype: Any) -> None:
        """CuPy's memory pool already reuses memory."""

    def source(self, run: Callable[..., Any]) -> str | None:
        return run.source if isinstance(run, CudaLoop | CudaLoops) else None

    def _made(self, loop: Loop | JoinedLoops) -> Run | None:
        try:
            return CudaLoops(loop) if isinstance(loop, JoinedLoops) else CudaLoop(loop)
        except UntraceableError:
            return None
