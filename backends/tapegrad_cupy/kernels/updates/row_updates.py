"""Optimizer steps from sparse gradients, which update only the given rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.indexing.scatter import descend_rows
from tapegrad_cupy.kernels.updates.updates import fits, is_float, readable_rate
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import (
    FULL_GRID,
    THREADS,
    Source,
    compile_kernel,
    contiguous,
    full_source,
    wide_name,
)

Array = Any


def sgd_rows_update(
    p: Array, rows: Array, indices: Array, rate: Array, *, over: bool = False
) -> tuple[Array, ...]:
    """Update only the rows at `indices`; an index may repeat. With `over`, `p` may be changed."""
    if not is_float(p.dtype) or rows.dtype != p.dtype:
        new: tuple[Array, ...] = run_generic("sgd_rows_update", p, rows, indices, rate)
        return new
    return (descend_rows(_changeable(p, over), rows, indices, readable_rate(rate)),)


def _changeable(p: Array, over: bool) -> Array:
    """Return an array that may be changed: the given one if that is allowed, else a copy."""
    return p if over and p.flags.c_contiguous else p.copy(order="C")


_ADAGRAD_ROWS = r"""
extern "C" __global__ void __launch_bounds__(256, 4) adagrad_rows(
    const P* __restrict__ rows, const i64* __restrict__ index, const R* __restrict__ rate,
    P* __restrict__ p, S* __restrict__ total, i64 count, i64 size, i64 width, double epsilon
) {
    S lr = (S)*rate;
    i64 stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        S g = widen(rows[i]);
        i64 row = index[i / width];
        // An index repeats only for rows of zeros, which are skipped, so no two threads write to
        // one element.
        if (g == (S)0 || row < 0 || row >= size) continue;
        i64 at = row * width + i % width;
        S sum = total[at] + g * g;
        total[at] = sum;
        p[at] = narrow<P>(widen(p[at]) - lr * g / sqrt(sum + (S)epsilon));
    }
}
"""


@functools.cache
def _adagrad_rows_kernel(dtype: np.dtype[Any], rate_dtype: np.dtype[Any]) -> Any:
    return compile_kernel(_ADAGRAD_ROWS, "adagrad_rows", **_macros(dtype.name, rate_dtype.name))


def _macros(dtype: str, rate: str) -> dict[str, str | int]:
    return {"P": C_TYPES[dtype], "S": C_TYPES[wide_name(dtype)], "R": C_TYPES[rate]}


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        for rate in ("float32", "float64"):
            text = full_source(_ADAGRAD_ROWS, **_macros(dtype, rate))
            yield Source(f"adagrad_rows {dtype} rate {rate}", text)


def adagrad_rows_update(
    p: Array,
    rows: Array,
    indices: Array,
    rate: Array,
    total: Array,
    *,
    epsilon: float,
    over: bool = False,
) -> tuple[Array, ...]:
    """Update only the rows at `indices`, which are distinct except for rows of zeros.

    With `over`, `p` and `total` may be changed.
    """
    if not fits(p, (), (total,)) or rows.dtype != p.dtype:
        arrays = (p, rows, indices, rate, total)
        new: tuple[Array, ...] = run_generic("adagrad_rows_update", *arrays, epsilon=epsilon)
        return new
    new_p, new_total = _changeable(p, over), _changeable(total, over)
    if rows.size:
        rate = readable_rate(rate)
        rows = contiguous(rows)
        index = contiguous(indices.astype(np.int64, copy=False))
        blocks = min(FULL_GRID, (rows.size + THREADS - 1) // THREADS)
        sizes = (rows.size, p.shape[0], rows.size // index.size)
        arguments = (rows, index, rate, new_p, new_total, *sizes, float(epsilon))
        _adagrad_rows_kernel(p.dtype, rate.dtype)((blocks,), (THREADS,), arguments)
    return new_p, new_total


adagrad_rows_in_place = functools.partial(adagrad_rows_update, over=True)
sgd_rows_in_place = functools.partial(sgd_rows_update, over=True)
"""The updates that change the arrays of their variables."""

KERNELS = by_name(adagrad_rows_update, sgd_rows_update)
