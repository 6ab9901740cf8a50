"""Run the CUDA source of a loop on the host, thread by thread, to test it without a GPU."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.loops.combinations import dtype_of
from tapegrad_cupy.kernels.loops.geometry import Geometry, geometry
from tapegrad_cupy.kernels.loops.loops import CudaLoopCompiler
from tapegrad_cupy.kernels.loops.schedule import Schedule
from tapegrad_cupy.kernels.loops.scheduled import scheduled_source
from tapegrad_cupy.launch.cuda_source import wide_dtype

SHIM = Path(__file__).with_name("host_cuda.h")

_FLAGS = ("-std=c++17", "-O1", "-w", "-fPIC", "-fsanitize=alignment,bounds",
          "-fsanitize-undefined-trap-on-error")  # fmt: skip

_GUARD = 64
"""Elements before and after each array, which a kernel must not use."""

_LAUNCH = """
extern "C" void run(void** arguments, int blocks, int threads, int backwards) {{
    launch_all({name}, arguments, blocks, threads, backwards);
}}
"""


def run_on_host(
    loop: Loop, arrays: Sequence[np.ndarray], in_place: Sequence[int | None], backwards: bool
) -> tuple[Schedule, list[np.ndarray]]:
    """Return the schedule for these arrays and the results of the kernel.

    An output with a position in `in_place` overwrites that array.
    """
    aligned = not any(array.ctypes.data % 16 for array in arrays)
    walk = geometry(loop, [array.strides for array in arrays], aligned)
    assert walk is not None
    plan, text = scheduled_source(loop, walk, in_place)
    guarded = [np.full(_count(o.shape) + 2 * _GUARD, 77).astype(o.dtype) for o in loop.outputs]
    guard = [whole[:_GUARD].copy() for whole in guarded]
    results = [
        whole[_GUARD:-_GUARD].reshape(output.shape) if place is None else arrays[place]
        for whole, output, place in zip(guarded, loop.outputs, in_place, strict=True)
    ]
    for result, output in zip(results, loop.outputs, strict=True):
        if output.rows is not None:
            result[...] = 0
    scratch = _scratch(loop, walk, plan)
    addresses = [array.ctypes.data for array in (*arrays, *results, *scratch)]
    run = _compiled(text)
    run((ctypes.c_void_p * len(addresses))(*addresses), plan.blocks, plan.threads, int(backwards))
    for whole, before in zip(guarded, guard, strict=True):
        assert (whole[:_GUARD] == before).all(), "The kernel wrote before an output."
        assert (whole[-_GUARD:] == before).all(), "The kernel wrote behind an output."
    return plan, results


def launch_on_host(
    text: str, name: str, blocks: int, threads: int, *arguments: int, backwards: bool = False
) -> None:
    """Run a kernel whose arguments are addresses and numbers of 64 bits."""
    run = _compiled(text, name)
    run((ctypes.c_void_p * len(arguments))(*arguments), blocks, threads, int(backwards))


def _scratch(loop: Loop, walk: Geometry, plan: Schedule) -> list[np.ndarray]:
    """Return memory for the parts of reductions that several blocks share."""
    if plan.parts == 1:
        return []
    count = plan.parts * walk.count(combined=False)
    parts = [
        np.full(count, np.nan, wide_dtype(dtype_of(output)))
        for output in loop.outputs
        if output.combine is not None
    ]
    return [*parts, np.zeros(plan.counters, np.uint32)]


def between_nans(array: np.ndarray, unaligned: bool = False) -> np.ndarray:
    """Return a copy whose memory has NaN on both sides, or large numbers."""
    outside = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else np.nan
    whole = np.full(array.size + 2 * _GUARD + 1, outside, array.dtype)
    start = _GUARD + int(unaligned)
    whole[start : start + array.size] = array.ravel()
    return whole[start : start + array.size].reshape(array.shape)


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


@functools.cache
def _compiled(text: str, name: str = "loop") -> Any:
    """Return the function that runs a kernel; misaligned vectors and wrong indices end it."""
    source = f'#include "{SHIM.name}"\n{text}{_LAUNCH.format(name=name)}'
    source = source.replace("#include <cuda_bf16.h>", "").replace("#include <cuda_fp16.h>", "")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernel.so"
        include = f"-I{_prepared().name}"  # before the folder of the header, for its compiled form
        command = ["g++", *_FLAGS, include, f"-I{SHIM.parent}", "-shared", "-x", "c++", "-"]
        command += ["-o", str(library), "-nostdlib", "-lm", "-lc", "-lgcc"]
        subprocess.run(command, input=source, check=True, text=True)
        return ctypes.CDLL(str(library)).run


@functools.cache
def _prepared() -> tempfile.TemporaryDirectory[str]:
    """Compile the header, and load the threads of a block for the kernels of this process."""
    folder = tempfile.TemporaryDirectory()
    header, threads = Path(folder.name) / SHIM.name, Path(folder.name) / "threads.so"
    for command in (
        [*_FLAGS, "-x", "c++-header", str(SHIM), "-o", f"{header}.gch"],
        ["-O1", "-fPIC", "-shared", str(SHIM.with_name("host_threads.cpp")), "-o", str(threads)],
    ):
        subprocess.run(["g++", *command], check=True)
    ctypes.CDLL(str(threads), mode=ctypes.RTLD_GLOBAL)
    return folder


def run_kernel(
    text: str, name: str, arguments: Sequence[np.ndarray | int], blocks: int, threads: int
) -> None:
    """Run the kernel `name` of a source on arrays and numbers, which it may write to."""
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    run = _compiled(text, name)
    packed = (ctypes.c_void_p * len(values))(*[v % 2**64 for v in values])
    for backwards in (0, 1):
        run(packed, blocks, threads, backwards)


class HostLoops:
    """A loop compiler whose loops are the CUDA kernels, run on the host with NumPy arrays."""

    dtypes = None
    complex_primitives = None
    widened = frozenset[str]()
    sorts = False
    joins = False
    definitions = CudaLoopCompiler.definitions
    windows = CudaLoopCompiler.windows

    def result_buffer(self, shape: Any, dtype: Any) -> None:
        return None

    def source(self, run: Any) -> None:
        return None

    def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
        return True

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight <= 2 * nbytes

    def gathers(self, nbytes: int) -> bool:
        return True

    def adds_rows(self, dtype: Any, entries: int, size: int) -> bool:
        return np.dtype(dtype).kind == "f"

    def sorts_rows(self, entries: int, row: int, size: int) -> bool:
        return self.sorts

    def compile(self, loops: Sequence[Loop]) -> list[Any]:
        return [functools.partial(_results, loop) for loop in loops]


def _results(
    loop: Loop, arrays: Sequence[np.ndarray], targets: Sequence[np.ndarray | None]
) -> tuple[np.ndarray, ...]:
    guarded = [between_nans(np.asarray(array)) for array in arrays]
    results = run_on_host(loop, guarded, [None] * len(loop.outputs), False)[1]
    for place, target in enumerate(targets):
        if target is not None:
            target[...] = results[place]
            results[place] = target
    return tuple(results)
