"""Sums, means and norms over any axes, in a fixed order; half precision accumulates in float32.

Adjacent reduced axes are merged. Each merged axis takes one launch, or two if one would leave most
of the device idle. Integers and booleans are left to CuPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.kernels.reduction.reduction_source import SUMS
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    FULL_GRID,
    THREADS,
    Source,
    compile_kernel,
    contiguous,
    full_source,
    is_aligned,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch.replay import prevent_replay

Array = Any
Axes = tuple[int, ...]
Shape = tuple[int, ...]

# The number of threads that keeps the memory busy.
_BUSY = 1 << 16
# The most rows that one thread adds.
_SHORT = 16
# The blocks that share the rows of few columns: four per multiprocessor.
_PARTS = FULL_GRID // 2


@functools.cache
def _kernel(
    name: str,
    dtype: np.dtype[Any],
    out_dtype: np.dtype[Any],
    vector: int,
    lanes: int,
    squares: bool,
) -> Any:
    macros = _macros(dtype.name, out_dtype.name, vector, lanes, squares)
    return compile_kernel(SUMS[name], name, **macros)


def _macros(
    dtype: str, out_dtype: str, vector: int, lanes: int, squares: bool
) -> dict[str, str | int]:
    return {
        "T": C_TYPES[dtype],
        "O": C_TYPES[out_dtype],
        "V": vector,
        "L": lanes,
        "MAP(v)": "(v) * (v)" if squares else "(v)",
    }


def _plan(outer: int, rows: int, width: int, vector: int) -> tuple[str, int, int, int]:
    """Return the kernel, its threads side by side, the number of parts, and the blocks."""
    items = outer * (width // vector)
    if rows <= _SHORT or (width > 1 and items >= _BUSY):
        return "flat", 1, 1, (items + THREADS - 1) // THREADS
    if width > 1:
        lanes = 8 if vector > 1 or width <= 8 else 16 if width <= 16 else 32
        blocks = outer * -(-width // (lanes * vector))
        # Few rows, such as the parts of an earlier launch, are not worth a second launch.
        splits = max(1, min(rows * lanes // (THREADS * 8), _PARTS // blocks))
        splits = splits if rows > _PARTS else 1
        return "columns", lanes, splits, blocks * splits
    if rows <= 2048 and outer >= 64:
        lanes = _threads_per_line(outer, rows // vector)
        return "lines", lanes, 1, -(-outer * lanes // THREADS)
    splits = max(1, min(rows // (THREADS * vector * 4), FULL_GRID // outer))
    return "lines", THREADS, splits, outer * splits


def _threads_per_line(outer: int, accesses: int) -> int:
    """Return how many threads add a line: few for short lines, if there are many of them."""
    lanes = 32
    while lanes > 4 and accesses <= 2 * lanes and outer * lanes >= 4 * _BUSY:
        lanes //= 2
    return lanes


def _stage(
    x: Array,
    lengths: tuple[int, int, int],
    dtype: np.dtype[Any],
    squares: bool,
    divisor: float,
    takes_root: bool,
) -> Array:
    """Return the sums over the middle axis of a contiguous `x[outer, rows, width]`, flat.

    All lengths are at least 1. The sums are divided, and their square root taken, before they are
    rounded to `dtype`.
    """
    outer, rows, width = lengths
    vector = 16 // x.dtype.itemsize
    fits = width % vector == 0 if width > 1 else rows % vector == 0 or outer == 1
    if not fits or not is_aligned(x) or (width == 1 and rows <= _SHORT):
        vector = 1
    name, lanes, splits, blocks = _plan(outer, rows, width, vector)
    wide = wide_dtype(x.dtype)
    is_last = splits == 1
    out = cupy.empty(outer * splits * width, dtype if is_last else wide)
    kernel = _kernel(name, x.dtype, out.dtype, vector, lanes, squares)
    ending = (divisor, int(takes_root)) if is_last else (1.0, 0)
    kernel((blocks,), (THREADS,), (x, out, outer, rows, width, splits, *ending))
    if is_last:
        return out
    return _stage(out, (outer, splits, width), dtype, False, divisor, takes_root)


def _blocks(shape: Shape, reduced: tuple[bool, ...]) -> list[tuple[bool, int]]:
    """Merge neighbouring axes that are all reduced or all kept; axes of length 1 are dropped."""
    blocks: list[tuple[bool, int]] = []
    for length, flag in zip(shape, reduced):
        if length == 1:
            continue
        if blocks and blocks[-1][0] == flag:
            blocks[-1] = (flag, blocks[-1][1] * length)
        else:
            blocks.append((flag, length))
    return blocks


def _summed(
    x: Array,
    axis: Axes,
    keepdims: bool,
    *,
    squares: bool = False,
    mean: bool = False,
    takes_root: bool = False,
) -> Array:
    """Reduce an array of floating or complex numbers."""
    if not x.flags.c_contiguous and x.flags.f_contiguous:
        reversed_axes = tuple(x.ndim - 1 - a for a in axis)
        options = {"squares": squares, "mean": mean, "takes_root": takes_root}
        return _summed(x.transpose(), reversed_axes, keepdims, **options).transpose()
    reduced = tuple([a in axis for a in range(x.ndim)])
    flags = zip(x.shape, reduced)
    shape = tuple([1 if flag else n for n, flag in flags if keepdims or not flag])
    count = math.prod([x.shape[a] for a in axis])
    dtype, x = x.dtype, contiguous(x)
    if dtype.kind == "c":
        # Real and imaginary part are one more axis: kept in a sum, reduced in a sum of |x|^2.
        real = np.dtype(f"f{dtype.itemsize // 2}")
        blocks = _blocks((*x.shape, 2), (*reduced, squares))
        result_dtype = real if squares else dtype
        x, dtype = x.reshape(-1).view(real), real
    else:
        blocks, result_dtype = _blocks(x.shape, reduced), dtype
    if not x.size:
        prevent_replay()
        return cupy.full(shape, math.nan if mean and not count else 0.0, result_dtype)
    divisor = float(count) if mean else 1.0
    total = _reduce_blocks(x, blocks, dtype, squares, divisor, takes_root)
    return total.view(result_dtype).reshape(shape)


def _reduce_blocks(
    x: Array,
    blocks: list[tuple[bool, int]],
    dtype: np.dtype[Any],
    squares: bool,
    divisor: float,
    takes_root: bool,
) -> Array:
    """Reduce one merged axis after the other, the last one first, without rounding in between."""
    if not any([flag for flag, _ in blocks]):
        blocks = [*blocks, (True, 1)]
    while True:
        at = max(k for k, (flag, _) in enumerate(blocks) if flag)
        outer = math.prod([n for _, n in blocks[:at]])
        width = math.prod([n for _, n in blocks[at + 1 :]])
        lengths = (outer, blocks[at][1], width)
        blocks = _blocks(
            tuple([n for k, (_, n) in enumerate(blocks) if k != at]),
            tuple([flag for k, (flag, _) in enumerate(blocks) if k != at]),
        )
        if not any([flag for flag, _ in blocks]):
            return _stage(x, lengths, dtype, squares, divisor, takes_root)
        x = _stage(x, lengths, wide_dtype(dtype), squares, 1.0, False)
        squares = False


def sum_(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return the sum; booleans are counted in int64, and integers keep their dtype."""
    kind = x.dtype.kind
    if kind not in "biu":
        return _summed(x, axis, keepdims)
    dtype = np.dtype(np.int64) if kind == "b" else x.dtype
    prevent_replay()
    # CuPy treats an empty tuple of axes differently.
    return x.astype(dtype) if axis == () else cupy.sum(x, axis, dtype, None, keepdims)


def mean(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return the mean; that of integers and booleans is float64."""
    if x.dtype.kind in "biu":
        x = converted(x, np.float64)
    return _summed(x, axis, keepdims, mean=True)


def sum_of_squares(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    """Return the sum of |x|^2, which is real."""
    if x.dtype.kind in "biu":
        return sum_(x * x, axis=axis, keepdims=keepdims)
    return _summed(x, axis, keepdims, squares=True)


def euclidean_norm(x: Array, *, axis: Axes, keepdims: bool) -> Array:
    if x.dtype.kind in "biu":
        prevent_replay()
        return cupy.sqrt(sum_of_squares(x, axis=axis, keepdims=keepdims))
    return _summed(x, axis, keepdims, squares=True, takes_root=True)


# The threads side by side of each kernel that `_plan` chooses from.
_LANES = {"flat": (1,), "columns": (8, 16, 32), "lines": (4, 8, 16, 32, THREADS)}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        wide = wide_name(dtype)
        # The first of two launches writes wide numbers, and the second reads them.
        stages = {(dtype, dtype, False), (dtype, dtype, True), (dtype, wide, False)}
        stages |= {(dtype, wide, True), (wide, dtype, False)}
        for source, out, squares in sorted(stages):
            for vector in (16 // FLOATS[source], 1):
                yield from _sum_variants(source, out, vector, squares)


def _sum_variants(dtype: str, out: str, vector: int, squares: bool) -> Iterator[Source]:
    for name, choice in _LANES.items():
        for lanes in choice[:1] if name == "columns" and vector > 1 else choice:
            kind = "squares" if squares else "values"
            text = full_source(SUMS[name], **_macros(dtype, out, vector, lanes, squares))
            yield Source(f"sum_{name} {dtype} to {out} x{vector} by {lanes} {kind}", text)


KERNELS = {
    "euclidean_norm": euclidean_norm,
    "mean": mean,
    "sum": sum_,
    "sum_of_squares": sum_of_squares,
}
