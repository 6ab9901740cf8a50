"""Scatter and segment reductions: combine entries of equal index.

scatter_source.py explains the algorithms. Indices out of range are ignored, as in the generic
kernels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.determinism import is_op_determinism_enabled
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.indexing.gather import flat_places, segment_take, take, write_along_axis
from tapegrad_cupy.kernels.indexing.scatter_source import (
    COMBINE_SOURCE,
    FINISHES,
    OPERATIONS,
    ORDER,
)
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    blocks_for,
    compile_kernel,
    contiguous,
    full_source,
    is_aligned,
    wide_dtype,
)

Array = Any
Shape = tuple[int, ...]

# The most entries, and comparisons in total, for which every position searches all entries.
_FEW = 1024
_COMPARISONS = 1 << 26
# The most entries for which counting is faster than sorting. Counting takes 57 us for 4096 entries
# and 230 us for 8192; sorting takes about 80 us, in some twenty launches.
_COUNTED = 4096
# The most entries per position on average for which atomic additions do not wait for each other.
_ADDED_TO_ONE = 1024
_ADDED = ("float32", "float64")
_ENOUGH_THREADS = 1 << 18
_INT64 = np.dtype(np.int64)
_FLOAT32 = np.dtype(np.float32)
_LARGEST_BFLOAT16 = (2.0 - 2.0**-7) * 2.0**127


@functools.cache
def _kernel(
    name: str,
    dtype: np.dtype[Any],
    rate_dtype: np.dtype[Any],
    vector: int,
    operation: str,
    finish: str,
) -> Any:
    macros = _macros(dtype.name, rate_dtype.name, vector, operation, finish)
    return compile_kernel(COMBINE_SOURCE, name, **macros)


def _macros(
    dtype: str, rate: str, vector: int, operation: str, finish: str
) -> dict[str, str | int]:
    return {
        "T": C_TYPES[dtype],
        "R": C_TYPES[rate],
        "V": vector,
        "COMBINE(a, b)": OPERATIONS[operation],
        "FINISH(old, value)": FINISHES[finish],
        "READS_OLD": int(finish != "store"),
        "FILLS": int(operation == "sum" and finish == "store"),
        "ADDS": int(dtype in _ADDED and operation == "sum"),
    }


@functools.cache
def _rank_kernel() -> Any:
    return compile_kernel(ORDER, "rank")


def stable_sort(index: Array) -> tuple[Array, Array]:
    """Return the permutation that sorts a list of indices stably, and the sorted list."""
    n = index.size
    if n > _COUNTED:
        order = cupy.argsort(index, kind="stable")
        return order, cupy.take(index, order)
    order, keys = cupy.empty(n, _INT64), cupy.empty(n, _INT64)
    _rank_kernel()((blocks_for(n),), (THREADS,), (index, order, keys, n))
    return order, keys


def combine(
    x: Array,
    index: Array,
    out: Array,
    *,
    outer: int = 1,
    operation: str = "sum",
    finish: str = "store",
    rate: Array | None = None,
) -> Array:
    """Combine the entries `x[outer, n, ...]` by `index[n]` into `out[outer, size, ...]`.

    At each position of an index, `finish` stores the combined value ("store"), combines it with the
    old value ("merge"), or subtracts it times the `rate` ("descend"). Other positions of `out` are
    unchanged, except that a stored sum sets them to 0 if `is_direct`. Otherwise `out` must be 0
    where a sum is stored.
    """
    n = index.size
    if not x.size or not out.size:
        return out
    index = _as_index(index)
    width = x.size // (outer * n)
    size = out.size // (outer * width)
    step = _row_step(x, index, outer)
    adds = not is_direct(n, out.size) and _is_added(x.dtype, n, size, operation)
    if step is None or not adds:
        x, step = contiguous(x), width
    vector = 1 if x.dtype.kind in "biu" else 16 // x.dtype.itemsize
    if width % vector or step % vector or not is_aligned(x, out):
        vector = 1
    width, step = width // vector, step // vector
    kind = (x.dtype, _FLOAT32 if rate is None else rate.dtype, vector, operation, finish)
    sizes = (outer, n, size, width)
    at = 0 if rate is None else rate
    if is_direct(n, out.size):
        grid = (blocks_for(outer * size * width),)
        _kernel("direct", *kind)(grid, (THREADS,), (x, index, out, at, *sizes))
        return out
    if adds:
        length = _rows_per_thread(outer * n * width)
        grid = (blocks_for(outer * -(-n // length) * width),)
        _kernel("add", *kind)(grid, (THREADS,), (x, index, out, at, *sizes, length, step))
        return out
    order, keys = stable_sort(index)
    # About as many chunks as entries per chunk, so that neither loop is long.
    length = 1 << min(9, max(4, math.isqrt(n).bit_length() - 2))
    count = (n + length - 1) // length
    parts = cupy.empty(outer * count * 2 * width * vector, _wide(x.dtype))
    grid, lengths = (blocks_for(outer * count * width),), (*sizes, length, count)
    chunks, joins = _kernel("chunks", *kind), _kernel("joins", *kind)
    chunks(grid, (THREADS,), (x, order, keys, out, parts, at, *lengths))
    if count > 1:
        joins(grid, (THREADS,), (keys, out, parts, at, *lengths))
    return out


def _is_added(dtype: np.dtype[Any], n: int, size: int, operation: str) -> bool:
    """Return whether entries are added atomically, in no fixed order."""
    return operation == "sum" and adds_atomically(dtype, n, size)


def adds_atomically(dtype: np.dtype[Any], n: int, size: int) -> bool:
    """Return whether sums of `n` rows into `size` rows use atomic additions."""
    is_fast = dtype.name in _ADDED and n <= _ADDED_TO_ONE * size
    return is_fast and not is_op_determinism_enabled()


def _row_step(x: Array, index: Array, outer: int) -> int | None:
    """Return how many elements rows are apart, None if they are not contiguous or not in a list."""
    if outer != 1 or x.ndim < 2 or x.shape[0] != index.size:
        return None
    if not x[0].flags.c_contiguous or x.strides[0] % x.dtype.itemsize or x.strides[0] < 0:
        return None
    return int(x.strides[0] // x.dtype.itemsize)


def _rows_per_thread(vectors: int) -> int:
    """Return how many rows a thread adds: more than one if that leaves enough threads."""
    return 1 << min(4, max(0, (vectors // _ENOUGH_THREADS).bit_length() - 1))


def is_direct(n: int, places: int) -> bool:
    """Return whether every position searches all entries; then sums fill all of `out`."""
    return n <= _FEW and n * places <= _COMPARISONS


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "b":
        return np.dtype(np.int32)
    return dtype if dtype.kind in "iu" else wide_dtype(dtype)


def _as_index(index: Array) -> Array:
    """Return the indices as one list; those of several axes belong to the entries in C order."""
    return contiguous(index.astype(_INT64, copy=False)).reshape(-1)


# Sums


def _summed(x: Array, index: Array, outer: Shape, size: int, inner: Shape) -> Array:
    """Add entries by index, into zeros of shape `(*outer, size, *inner)`."""
    shape = (*outer, size, *inner)
    if x.dtype.kind == "c":  # as two real columns
        real = np.dtype(f"f{x.dtype.itemsize // 2}")
        pairs = contiguous(x).reshape(-1).view(real)
        total = _summed(pairs, index, outer, size, (*inner, 2))
        return total.view(x.dtype).reshape(shape)
    count = math.prod(shape)
    fills = x.size and count and is_direct(index.size, count)
    out = cupy.empty(shape, x.dtype) if fills else cupy.zeros(shape, x.dtype)
    return combine(x, index, out, outer=math.prod(outer))


def take_add(t: Array, indices: Array, *, axis: int, size: int) -> Array:
    """Add the entries of `t` at their positions along an axis of length `size`."""
    return _summed(t, indices, t.shape[:axis], size, t.shape[axis + indices.ndim :])


def segment_sum(x: Array, ids: Array, *, num: int) -> Array:
    return _summed(x, ids, (), num, x.shape[1:])


def scatter_along_axis(t: Array, indices: Array, *, axis: int, length: int, unique: bool) -> Array:
    """Add `t` into zeros at `indices` along an axis; negative ones count from the end."""
    if unique:
        return write_along_axis(t, indices, axis, length)
    shape = (*t.shape[:axis], length, *t.shape[axis + 1 :])
    if not t.size or not math.prod(shape):
        return cupy.zeros(shape, t.dtype)
    places = flat_places(indices, axis, length)
    return _summed(t, places, (), math.prod(shape), ()).reshape(shape)


def descend_rows(p: Array, rows: Array, indices: Array, rate: Array) -> Array:
    """Subtract `rate` times the sum of the rows of each index from `p`, and return it."""
    return combine(rows, indices, p, finish="descend", rate=rate)


# Products and extremes


def segment_prod(x: Array, ids: Array, *, num: int) -> Array:
    if x.dtype.kind == "c":
        return run_generic("segment_prod", x, ids, num=num)
    return combine(x, ids, cupy.ones((num, *x.shape[1:]), x.dtype), operation="prod")


def segment_extreme(x: Array, ids: Array, *, num: int, largest: bool, empty: float) -> Array:
    start = 0 if empty == 0 else _limit(x.dtype, largest)
    out = cupy.full((num, *x.shape[1:]), start, x.dtype)
    return combine(x, ids, out, operation="max" if largest else "min")


def _limit(dtype: np.dtype[Any], is_lowest: bool) -> Any:
    """Return the lowest or the largest finite value of a dtype."""
    if dtype.name == "bfloat16":  # NumPy has no limits for it
        return -_LARGEST_BFLOAT16 if is_lowest else _LARGEST_BFLOAT16
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return limits.min if is_lowest else limits.max


def segment_ties(x: Array, ids: Array, y: Array) -> Array:
    """Return 1 / (number of ties) where a row equals the extreme of its segment, otherwise 0."""
    best = segment_take(y, ids)
    there = (ids >= 0).reshape(-1, *[1] * (x.ndim - 1))
    hits = ((x == best) | ((x != x) & (best != best))) & there
    shares = hits.astype(x.dtype)
    count = segment_take(segment_sum(shares, ids, num=y.shape[0]), ids)
    return shares / cupy.maximum(count, cupy.ones_like(count))


def take_extreme(x: Array, v: Array, indices: Array, *, largest: bool) -> Array:
    """Return `x` with rows replaced by the maximum (or minimum) of them and the rows of `v`."""
    out = x.copy(order="C")
    return combine(v, indices, out, operation="max" if largest else "min", finish="merge")


def extreme_shares(x: Array, v: Array, indices: Array, y: Array) -> tuple[Array, Array]:
    """Return the part of each result's gradient for `x` and for each of `v`; ties share it."""
    wins = (v == take(y, indices, axis=0)).astype(x.dtype)
    own = (x == y).astype(x.dtype)
    count = own + take_add(wins, indices, axis=0, size=x.shape[0])
    share = 1.0 / cupy.maximum(count, cupy.ones_like(count))
    return own * share, wins * take(share, indices, axis=0)


# Sources


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    yield Source("rank", full_source(ORDER))
    extremes = [(name, finish) for name in ("max", "min") for finish in ("store", "merge")]
    for dtype in C_TYPES:
        for operation, finish in [("sum", "store"), ("prod", "store"), *extremes]:
            yield from _combine_variants(dtype, "float32", operation, finish)
    for dtype in FLOATS:
        for rate in ("float32", "float64"):
            yield from _combine_variants(dtype, rate, "sum", "descend")


def _combine_variants(dtype: str, rate: str, operation: str, finish: str) -> Iterator[Source]:
    for vector in (16 // FLOATS[dtype], 1) if dtype in FLOATS else (1,):
        label = f"combine_{operation} {finish} {dtype} x{vector} rate {rate}"
        text = full_source(COMBINE_SOURCE, **_macros(dtype, rate, vector, operation, finish))
        yield Source(label, text)


KERNELS = by_name(
    extreme_shares,
    scatter_along_axis,
    segment_extreme,
    segment_prod,
    segment_sum,
    segment_ties,
    take_add,
    take_extreme,
)
