"""Kernels for stacks of matrices of an order of at most 32, and for what libraries leave out.

Calls of libraries take a few launches each and wait for each column of a matrix. A warp has a small
matrix in registers or shared memory, and a stack of them takes one launch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy

from tapegrad_cupy.kernels.linalg.small_source import (
    ADJUGATE,
    AROUND,
    CHOLESKY,
    DETERMINANTS,
    ELIMINATION,
    TRIANGULAR,
)
from tapegrad_cupy.kernels.linalg.stacks import Stack
from tapegrad_cupy.launch.cuda_prelude import prelude_for
from tapegrad_cupy.launch.cuda_source import THREADS, Source, blocks_for
from tapegrad_cupy.launch.launch import Kernel, kernel_from

Array = Any

MOST = 32
"""The largest order of a small matrix, and the most columns that a block solves for."""

MOST_MINORS = 4
"""The largest order of a matrix whose adjugate consists of cofactors computed one by one."""

_ORDERS = (4, 8, 16, 32)
_REALS = {"float32": "float", "float64": "double", "complex64": "float", "complex128": "double"}
_SIZES = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
_SHARED = 40 << 10
"""The most bytes of shared memory that a kernel takes: 48 KB are there without a request."""


def _source(text: str, dtype: str, **macros: int) -> str:
    is_complex = dtype.startswith("complex")
    real = _REALS[dtype]
    names = {"R": real, "T": f"complex<{real}>" if is_complex else real}
    lines = {**names, "IS_COMPLEX": int(is_complex), **macros}
    return prelude_for([dtype]) + "".join(f"#define {k} {v}\n" for k, v in lines.items()) + text


def _order(n: int) -> int:
    return next(order for order in _ORDERS if n <= order)


@functools.cache
def _cholesky(dtype: str, order: int) -> Kernel:
    return kernel_from(_source(CHOLESKY, dtype, N=order), "small_cholesky", "PPqqqqq")


def cholesky(x: Stack, y: Array, n: int, count: int) -> None:
    """Write the Cholesky factors of a stack to `y`; NaN where a matrix has none."""
    order = _order(n)
    arguments = (x.address, y.data.ptr, n, count, x.step, x.row, x.column)
    _cholesky(y.dtype.name, order)(-(-count * order // 32), 32, *arguments)


def _sharing(dtype: str, order: int, width: int) -> tuple[int, int]:
    """Return how many columns of a matrix, and how many matrices, the threads of a block solve."""
    columns = next(c for c in (1, 4, 16, 32) if c >= min(width, 32))
    room = _SHARED // (order * (order + 1) * _SIZES[dtype])
    return columns, max(1, min(32 // columns, 1 << (room.bit_length() - 1)))


@functools.cache
def _triangular(dtype: str, order: int, columns: int, matrices: int) -> Kernel:
    macros = {"N": order, "COLUMNS": columns, "MATRICES": matrices}
    return kernel_from(_source(TRIANGULAR, dtype, **macros), "small_triangular", "PPP" + 14 * "q")


def solve_lower(
    a: Stack, b: Stack, x: Stack, n: int, width: int, count: int, conjugated: bool
) -> None:
    """Solve lower triangular systems of one order with `width` right-hand sides each."""
    dtype, order = x.array.dtype.name, _order(n)
    columns, matrices = _sharing(dtype, order, width)
    chunks = -(-width // columns)
    _triangular(dtype, order, columns, matrices)(
        -(-count // matrices) * chunks, matrices * columns, a.address, b.address, x.address,
        n, width, count, chunks, conjugated, *a[2:], *b[2:], *x[2:],
    )  # fmt: skip


@functools.cache
def _elimination(dtype: str, order: int, width: int) -> Kernel:
    text = _source(ELIMINATION, dtype, N=order, WIDTH=width)
    return kernel_from(text, "small_elimination", 6 * "P" + 10 * "q")


def eliminate(
    a: Stack, b: Stack | None, x: Array, n: int, width: int, count: int, conjugated: bool
) -> None:
    """Solve A X = B by Gaussian elimination; without `b`, B is the identity."""
    steps = (0, 0, 0) if b is None else b[2:]
    at_b = 0 if b is None else b.address
    columns = _order(min(width, MOST))
    chunks = -(-width // columns)
    numbers = (n, width, chunks, conjugated, *a[2:], *steps)
    _elimination(x.dtype.name, _order(n), columns)(
        count * chunks, 32, a.address, at_b, x.data.ptr, 0, 0, 0, *numbers
    )


def determinants(a: Stack, n: int, count: int, results: tuple[Array, Array, Array]) -> None:
    """Write the signs, logarithms and determinants of a stack; each result may be None."""
    targets = [0 if result is None else result.data.ptr for result in results]
    _elimination(a.array.dtype.name, _order(n), 0)(
        count, 32, a.address, 0, 0, *targets, n, 0, 1, 0, *a[2:], 0, 0, 0
    )


@functools.cache
def _adjugate(dtype: str, n: int) -> Kernel:
    return kernel_from(_source(ADJUGATE, dtype, N=n), "small_adjugate", "PPqqqq")


def adjugates(x: Stack, y: Array, n: int) -> None:
    """Write the adjugates of a stack of matrices of an order of at most `MOST_MINORS` to `y`."""
    steps = (x.step, x.row, x.column)
    kernel = _adjugate(y.dtype.name, n)
    kernel(blocks_for(y.size), THREADS, x.address, y.data.ptr, y.size, *steps)


@functools.cache
def _around(dtype: str, name: str, arguments: str) -> Kernel:
    return kernel_from(_source(AROUND, dtype), name, arguments)


def lower_triangles(x: Stack, y: Array, n: int, count: int) -> None:
    """Write the lower triangles of a stack to `y` by columns, with zeros above."""
    kernel = _around(y.dtype.name, "lower_triangles", "PPqqqqq")
    tiles = -(-n // 32)
    steps = (x.step, x.row, x.column)
    kernel(count * tiles * tiles, THREADS, x.address, y.data.ptr, n, tiles, *steps)


def spoil_failed(y: Array, info: Array, n: int) -> None:
    """Write NaN to the lower triangles, by columns, of the matrices whose `info` is not 0."""
    each = min(32, -(-n * n // 4096))
    kernel = _around(y.dtype.name, "spoil_failed", "PPqq")
    kernel(info.size * each, THREADS, y.data.ptr, info.data.ptr, n, each)


def identities(y: Array, n: int) -> None:
    """Fill `y` with identity matrices."""
    kernel = _around(y.dtype.name, "identities", "Pqq")
    kernel(blocks_for(y.size), THREADS, y.data.ptr, n, y.size)


def addresses(a: Stack, b: Stack, count: int) -> tuple[Array, int, int]:
    """Return an array with the addresses of matrices, and where those of `a` and `b` begin."""
    found = cupy.ndarray((2 * count,), cupy.uint64)
    kernel = _around(a.array.dtype.name, "addresses", "PPPqqq")
    where: int = found.data.ptr
    kernel(blocks_for(count), THREADS, a.address, b.address, where, count, a.step, b.step)
    return found, where, where + 8 * count


@functools.cache
def _determinants(dtype: str) -> Kernel:
    return kernel_from(_source(DETERMINANTS, dtype), "lu_determinants", "PPPPPq")


def determinants_of_factors(
    factors: Array, pivots: Array, n: int, count: int, results: tuple[Array, Array, Array]
) -> None:
    """Write the signs, logarithms and determinants from LU factors; each result may be None."""
    targets = [0 if result is None else result.data.ptr for result in results]
    _determinants(factors.dtype.name)(count, 32, factors.data.ptr, pivots.data.ptr, *targets, n)


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in _REALS:
        for order in _ORDERS:
            yield Source(f"small_cholesky {dtype} {order}", _source(CHOLESKY, dtype, N=order))
            shapes = {_sharing(dtype, order, width) for width in range(1, 33)}
            for columns, matrices in sorted(shapes):
                macros = {"N": order, "COLUMNS": columns, "MATRICES": matrices}
                text = _source(TRIANGULAR, dtype, **macros)
                yield Source(f"small_triangular {dtype} {order} {columns} {matrices}", text)
            for width in (0, *_ORDERS):
                text = _source(ELIMINATION, dtype, N=order, WIDTH=width)
                yield Source(f"small_elimination {dtype} {order} {width}", text)
        for n in range(1, MOST_MINORS + 1):
            yield Source(f"small_adjugate {dtype} {n}", _source(ADJUGATE, dtype, N=n))
        yield Source(f"lu_determinants {dtype}", _source(DETERMINANTS, dtype))
        yield Source(f"addresses {dtype}", _source(AROUND, dtype))
