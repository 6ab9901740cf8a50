"""NumPy's `convolve` and `correlate`: sums of products of two sequences at all shifts.

A block computes neighbouring results from a part of both sequences in shared memory. Threads side
by side have results of their own; if there are few results, such as the gradient by a short filter
of a long signal, groups of threads and several blocks share the terms of each sum.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import cupy

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.reduction.reduction import sum_
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS, prelude_for
from tapegrad_cupy.launch.cuda_source import (
    FULL_GRID,
    THREADS,
    Source,
    contiguous,
    wide_dtype,
    wide_name,
)
from tapegrad_cupy.launch.launch import Kernel, kernel_from

Array = Any

RESULTS = 8
"""Neighbouring results that a thread computes."""

TERMS = 64
"""Terms that a thread adds between two loads of shared memory."""

DIRECT = 1 << 30
"""The most products of a pair of sequences. For more of them transforms are faster."""

LANES = (8, 64, THREADS)
"""How many threads side by side a kernel has."""

SOURCE = r"""
typedef Wider<T>::type W;
// Threads read elements that are 8 apart: without a gap they would share the banks of memory.
#define PLACE(i) ((i) + ((i) >> 5))
#define GROUPS (256 / LANES)
#define WIDTH (LANES * RESULTS)
#define SPAN (WIDTH + GROUPS * TERMS)

// out[s][part][n] = sum over the part's k of x[s][n + k - shift] * w[s][REVERSED ? m - 1 - k : k]
extern "C" __global__ void __launch_bounds__(256) sliding_dots(
    const T* __restrict__ x, const T* __restrict__ w, O* __restrict__ out, i64 length, i64 m,
    i64 count, i64 shift, i64 tiles, i64 parts, i64 terms
) {
    __shared__ W xs[PLACE(SPAN) + 1 > GROUPS * WIDTH ? PLACE(SPAN) + 1 : GROUPS * WIDTH];
    __shared__ W ws[GROUPS * TERMS];
    const i64 tile = blockIdx.x % tiles, rest = blockIdx.x / tiles;
    const i64 part = rest % parts, stack = rest / parts, first = tile * WIDTH;
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const i64 end = (part + 1) * terms < m ? (part + 1) * terms : m;
    x += stack * length;
    w += stack * m;
    W sums[RESULTS] = {};
    for (i64 start = part * terms; start < end; start += GROUPS * TERMS) {
        __syncthreads();
        for (int i = threadIdx.x; i < GROUPS * TERMS; i += 256) {
            const i64 k = start + i;
            ws[i] = k < end ? widen(w[REVERSED ? m - 1 - k : k]) : (W)0;
        }
        for (int i = threadIdx.x; i < SPAN; i += 256) {
            const i64 at = first + start + i - shift;
            xs[PLACE(i)] = at >= 0 && at < length ? widen(x[at]) : (W)0;
        }
        __syncthreads();
        const i64 left = end - start - group * TERMS;
        const int mine = left < 0 ? 0 : left < TERMS ? (int)left : TERMS;
        const int base = lane * RESULTS + group * TERMS;
        const W* factors = ws + group * TERMS;
        W seen[RESULTS];
        #pragma unroll
        for (int r = 0; r < RESULTS - 1; ++r) seen[r] = xs[PLACE(base + r)];
        for (int k = 0; k < mine; k += RESULTS) {
            #pragma unroll
            for (int u = 0; u < RESULTS; ++u) {
                seen[(u + RESULTS - 1) % RESULTS] = xs[PLACE(base + k + u + RESULTS - 1)];
                // Terms beyond the end are left out: a zero times an infinity would be NaN.
                if (k + u < mine) {
                    const W factor = factors[k + u];
                    #pragma unroll
                    for (int r = 0; r < RESULTS; ++r) sums[r] += seen[(u + r) % RESULTS] * factor;
                }
            }
        }
    }
    O* target = out + (stack * parts + part) * count;
    if (GROUPS == 1) {
        #pragma unroll
        for (int r = 0; r < RESULTS; ++r) {
            const i64 n = first + lane * RESULTS + r;
            if (n < count) target[n] = narrow<O>(sums[r]);
        }
        return;
    }
    __syncthreads();
    #pragma unroll
    for (int r = 0; r < RESULTS; ++r) xs[group * WIDTH + lane * RESULTS + r] = sums[r];
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH && first + i < count; i += 256) {
        W sum = 0;
        for (int g = 0; g < GROUPS; ++g) sum += xs[g * WIDTH + i];
        target[first + i] = narrow<O>(sum);
    }
}
"""


class Form(NamedTuple):
    """What a kernel is compiled for."""

    dtype: str
    out: str
    lanes: int
    is_reversed: bool

    def text(self) -> str:
        macros: dict[str, Any] = {
            "T": C_TYPES[self.dtype],
            "O": C_TYPES[self.out],
            "LANES": self.lanes,
            "REVERSED": int(self.is_reversed),
            "RESULTS": RESULTS,
            "TERMS": TERMS,
        }
        lines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
        return prelude_for({self.dtype, self.out}) + lines + SOURCE


@functools.cache
def _kernel(form: Form) -> Kernel:
    return kernel_from(form.text(), "sliding_dots", "PPPqqqqqqq")


class Split(NamedTuple):
    """How the results of a stack of pairs are divided."""

    lanes: int
    tiles: int
    parts: int
    terms: int
    """The terms of each sum in one part."""


def split(stacks: int, m: int, count: int) -> Split:
    """Divide sums of `m` terms so that all of a device is busy."""
    lanes = next((n for n in LANES if n * RESULTS >= count), LANES[-1])
    tiles = -(-count // (lanes * RESULTS))
    step = THREADS // lanes * TERMS
    parts = max(1, min(FULL_GRID // (stacks * tiles), m // (4 * step)))
    terms = -(-m // parts // step) * step
    return Split(lanes, tiles, -(-m // terms), terms)


def sliding_dot(x: Array, w: Array) -> Array:
    """Return the sums of x[..., n + k] w[..., k] over k, for all n where the two overlap."""
    count = x.shape[-1] - w.shape[-1] + 1
    if not _takes(x, w, count):
        return run_generic("sliding_dot", x, w)
    return _sums(x, w, count, 0, False)


def convolve(a: Array, b: Array) -> Array:
    """Return the sums of a[..., k] b[..., n - k] over k, for all n."""
    if b.shape[-1] > a.shape[-1]:
        a, b = b, a
    m = b.shape[-1]
    count = a.shape[-1] + m - 1
    if not _takes(a, b, count):
        return run_generic("convolve", a, b)
    return _sums(a, b, count, m - 1, True)


def _takes(x: Array, w: Array, count: int) -> bool:
    """Whether the kernel is made for the operands."""
    is_float = x.dtype == w.dtype and x.dtype.name in FLOATS
    return is_float and bool(x.size and w.size) and count * w.shape[-1] <= DIRECT


def _sums(x: Array, w: Array, count: int, shift: int, is_reversed: bool) -> Array:
    x, w = contiguous(x), contiguous(w)
    stacks, m = prod(x.shape[:-1]), w.shape[-1]
    lanes, tiles, parts, terms = split(stacks, m, count)
    dtype = x.dtype if parts == 1 else wide_dtype(x.dtype)
    shape = (*x.shape[:-1], count)
    out = cupy.ndarray(shape if parts == 1 else (stacks, parts, count), dtype)
    kernel = _kernel(Form(x.dtype.name, dtype.name, lanes, is_reversed))
    addresses = (x.data.ptr, w.data.ptr, out.data.ptr)
    sizes = (x.shape[-1], m, count, shift, tiles, parts, terms)
    kernel(stacks * tiles * parts, THREADS, *addresses, *sizes)
    if parts == 1:
        return out
    return converted(sum_(out, axis=(1,), keepdims=False).reshape(shape), x.dtype)


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for dtype in FLOATS:
        for out in dict.fromkeys((dtype, wide_name(dtype))):
            for lanes in LANES:
                for is_reversed in (False, True):
                    form = Form(dtype, out, lanes, is_reversed)
                    label = f"sliding_dots {dtype} to {out} by {lanes} {is_reversed}"
                    yield Source(label, form.text())


KERNELS = by_name(convolve, sliding_dot)
