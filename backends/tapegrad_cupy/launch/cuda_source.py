"""Compile CUDA kernels, and describe their sources so that they can be tested without a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from tapegrad_cupy.launch.cuda_prelude import FLOATS, PRELUDE
from tapegrad_cupy.launch.launch import OPTIONS
from tapegrad_cupy.launch.replay import RecordedKernel, prevent_replay

Array = Any

THREADS = 256
FULL_GRID = 1056
"""Blocks of 256 threads that fill an H200: eight for each of its 132 multiprocessors."""

MOST_BLOCKS = 2**31 - 1
"""The largest grid that CUDA launches."""


class Source(NamedTuple):
    """A complete source, its compiler options, and a label that starts with the kernel's name."""

    label: str
    text: str
    options: tuple[str, ...] = OPTIONS


def compile_kernel(source: str, name: str, **macros: str | int) -> Any:
    """Return the kernel `name` of a source, which the prelude and the macros precede.

    CuPy compiles it at the first launch on each device. The caller caches the kernel.
    """
    module = cupy.RawModule(code=full_source(source, **macros), options=OPTIONS)
    return RecordedKernel(module.get_function(name))


def full_source(source: str, **macros: str | int) -> str:
    """Return the prelude, the macros and the source: the text that `compile_kernel` compiles."""
    lines = "".join(f"#define {macro} {value}\n" for macro, value in macros.items())
    return PRELUDE + lines + source


def wide_name(dtype: str) -> str:
    """Return the name of the dtype that a floating dtype is computed in."""
    return "float32" if FLOATS[dtype] == 2 else dtype


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that a floating dtype is computed in."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def contiguous(x: Array) -> Array:
    """Return `x` if it is C-contiguous, otherwise a contiguous copy."""
    if x.flags.c_contiguous:
        return x
    prevent_replay()
    return cupy.ascontiguousarray(x)


def is_aligned(*arrays: Array) -> bool:
    """Return whether all arrays are aligned to 16 bytes."""
    pointers = 0
    for array in arrays:
        pointers |= array.data.ptr
    return not pointers & 15


def blocks_for(items: int) -> int:
    """Return the number of blocks that give each item a thread, at most `MOST_BLOCKS`."""
    return min(MOST_BLOCKS, (items + THREADS - 1) // THREADS)
