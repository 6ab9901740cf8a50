"""Scans along an axis: sums, products, logsumexp, extremes and linear recurrences.

Elements along the last axis are neighbours, and a block scans a row of them. Along another axis,
and in very short rows, a thread scans a line. Few long lines take two launches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cupy
import numpy as np

from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.scan.scan_source import (
    COLUMNS,
    LARGEST,
    LOGSUMEXP,
    PRODUCT,
    RECURRENCE,
    ROWS,
    SMALLEST,
    SUM,
)
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS, prelude_for
from tapegrad_cupy.launch.cuda_source import FULL_GRID, Source, contiguous
from tapegrad_cupy.launch.launch import Kernel, kernel_from

Array = Any

_EACH = 4
"""Neighbouring elements that a thread of a row kernel scans."""

_SHORT = 32
"""The longest row that one thread scans."""

_LINES_AT_ONCE = 1 << 16
"""The number of threads that keeps the memory busy."""

_COMPLEX = {"complex64": "complex<float>", "complex128": "complex<double>"}
_TYPES = {**C_TYPES, **_COMPLEX}
_SMALL_INTEGERS = ("int8", "int16", "uint8", "uint16")
_WIDE = {"float16": "float", "bfloat16": "float"} | dict.fromkeys(_SMALL_INTEGERS, "int")
_SIZES = {"float16": 4, "bfloat16": 4, "complex64": 8, "complex128": 16} | dict.fromkeys(
    _SMALL_INTEGERS, 4
)


class _Form(NamedTuple):
    """What a kernel is compiled for."""

    kind: int
    dtype: str
    reverse: bool
    exclusive: bool

    def source(self, text: str, threads: int) -> str:
        stored = _TYPES[self.dtype]
        macros = {
            "T": stored,
            "W": _WIDE.get(self.dtype, stored),
            "O": "long long" if self.kind in (LARGEST, SMALLEST) else stored,
            "KIND": self.kind,
            "REVERSE": int(self.reverse),
            "EXCLUSIVE": int(self.exclusive),
            "THREADS": threads,
            "EACH": _EACH,
            "UNROLLED": 1 if self.dtype in _COMPLEX else 4,  # more would not fit into registers
        }
        lines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
        return prelude_for([self.dtype]) + lines + text

    @property
    def element_bytes(self) -> int:
        """An upper bound of the size of what the kernel combines."""
        return 2 * max(8, _SIZES.get(self.dtype, np.dtype(self.dtype).itemsize))


@functools.cache
def _rows(form: _Form, threads: int) -> Kernel:
    return kernel_from(form.source(ROWS, threads), "scan_rows", "PPPPqqq")


@functools.cache
def _columns(form: _Form) -> Kernel:
    return kernel_from(form.source(COLUMNS, 128), "scan_columns", "PPPPqqqqq")


def _scan(form: _Form, x: Array, a: Array | None, axis: int, out: Any) -> Array:
    """Scan `x`; `a` has the factors of a recurrence."""
    x = contiguous(x)
    a = None if a is None else contiguous(a)
    y = cupy.ndarray(x.shape, out)
    if not y.size:
        return y
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = x.size // n
    addresses = (x.data.ptr, 0 if a is None else a.data.ptr, y.data.ptr)
    if inner == 1 and n > _SHORT:
        _scan_rows(form, addresses, lines, n)
    else:
        _scan_columns(form, addresses, lines, n, inner)
    return y


def plan_rows(lines: int, n: int) -> tuple[int, int, int]:
    """Return the threads of a block, the segments of a row, and the elements of a segment."""
    threads = 64 if n <= 64 * _EACH else 256
    tiles = -(-n // (threads * _EACH))
    # A segment has several tiles, so that the first launch reads much more than it writes.
    segments = min(threads, tiles // 2, FULL_GRID // lines)
    if segments < 2:
        return threads, 1, n
    per = -(-tiles // segments) * threads * _EACH
    return threads, -(-n // per), per


def _scan_rows(form: _Form, addresses: tuple[int, int, int], lines: int, n: int) -> None:
    threads, segments, per = plan_rows(lines, n)
    kernel, (x, a, y) = _rows(form, threads), addresses
    if segments == 1:
        kernel(lines, threads, x, a, y, 0, n, n, 1)
        return
    totals = cupy.ndarray((lines * segments * form.element_bytes,), np.uint8)
    for target in (0, y):
        kernel(lines * segments, threads, x, a, target, totals.data.ptr, n, per, segments)


def plan_columns(lines: int, n: int) -> tuple[int, int]:
    """Return the segments of a line, and the elements of a segment."""
    segments = min(64, _LINES_AT_ONCE // lines, n // 16)
    if segments < 2:
        return 1, n
    per = -(-n // segments)
    return -(-n // per), per


def _scan_columns(
    form: _Form, addresses: tuple[int, int, int], lines: int, n: int, inner: int
) -> None:
    segments, per = plan_columns(lines, n)
    kernel, (x, a, y) = _columns(form), addresses
    blocks = -(-lines * segments // 128)
    if segments == 1:
        kernel(blocks, 128, x, a, y, 0, n, n, 1, inner, lines)
        return
    totals = cupy.ndarray((lines * segments * form.element_bytes,), np.uint8)
    for target in (0, y):
        kernel(blocks, 128, x, a, target, totals.data.ptr, n, per, segments, inner, lines)


def _accumulating(kind: int, name: str) -> Callable[..., Array]:
    def run(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        if x.dtype == bool:
            x = x.astype(np.int64)
        if x.dtype.name not in _TYPES:
            return run_generic(name, x, axis=axis, exclusive=exclusive, reverse=reverse)
        form = _Form(kind, x.dtype.name, bool(reverse), bool(exclusive))
        return _scan(form, x, None, axis, x.dtype)

    return run


def cumulative_logsumexp(x: Array, *, axis: int, reverse: bool) -> Array:
    """Return the logarithms of the cumulative sums of exp(x)."""
    if x.dtype.name not in FLOATS:
        return run_generic("cumulative_logsumexp", x, axis=axis, reverse=reverse)
    return _scan(_Form(LOGSUMEXP, x.dtype.name, bool(reverse), False), x, None, axis, x.dtype)


def running_index(x: Array, *, axis: int, largest: bool) -> Array:
    """Return the position of the largest or smallest element so far, the first of equal ones."""
    if x.dtype.name not in C_TYPES or x.dtype == bool or x.shape[axis] >= 2**31:
        return run_generic("running_index", x, axis=axis, largest=largest)
    form = _Form(LARGEST if largest else SMALLEST, x.dtype.name, False, False)
    return _scan(form, x, None, axis, np.int64)


def linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    """Return y with y[i] = a[i] y[i - 1] + b[i]."""
    if a.dtype != b.dtype or a.shape != b.shape or not _has_products(b.dtype.name):
        return run_generic("linear_recurrence", a, b, axis=axis, reverse=reverse)
    return _scan(_Form(RECURRENCE, b.dtype.name, bool(reverse), False), b, a, axis, b.dtype)


def _has_products(dtype: str) -> bool:
    return dtype in FLOATS or dtype in _COMPLEX


def _forms() -> Iterator[_Form]:
    dtypes = [dtype for dtype in _TYPES if dtype != "bool"]
    for dtype in dtypes:
        for reverse in (False, True):
            for kind in (SUM, PRODUCT):
                for exclusive in (False, True):
                    yield _Form(kind, dtype, reverse, exclusive)
            if dtype in FLOATS:
                yield _Form(LOGSUMEXP, dtype, reverse, False)
            if _has_products(dtype):
                yield _Form(RECURRENCE, dtype, reverse, False)
        if dtype not in _COMPLEX:
            for kind in (LARGEST, SMALLEST):
                yield _Form(kind, dtype, False, False)


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for form in _forms():
        label = f"{form.dtype} kind {form.kind} reverse={form.reverse} {form.exclusive}"
        yield Source(f"scan_rows {label}", form.source(ROWS, 256))
        yield Source(f"scan_columns {label}", form.source(COLUMNS, 128))


KERNELS = {
    "cumulative_sum": _accumulating(SUM, "cumulative_sum"),
    "cumulative_prod": _accumulating(PRODUCT, "cumulative_prod"),
    "cumulative_logsumexp": cumulative_logsumexp,
    "running_index": running_index,
    "linear_recurrence": linear_recurrence,
}
