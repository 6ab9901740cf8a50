"""Cross entropy and its gradient in one launch, which reads the logits once.

A long row is requested as a whole by asynchronous copies to shared memory, where it stays until the
sum that its gradient needs is known. Rows that do not fit into shared memory are read twice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy

from tapegrad_cupy.kernels.generic import run_generic
from tapegrad_cupy.kernels.rows.row_arrays import class_numbers, fits
from tapegrad_cupy.kernels.rows.row_launch import (
    CACHE_BYTES,
    LABELS,
    LONG_LANES,
    OPTIONS,
    TYPES,
    Layout,
    access_width,
    choose_layout,
    is_held,
    kernel_source,
)
from tapegrad_cupy.kernels.rows.softmax_source import TOTALS
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import Source, contiguous
from tapegrad_cupy.launch.replay import RecordedKernel, prevent_replay

Array = Any
Types = tuple[tuple[str, str], ...]

_WAVES = 4
_WARP = 32
_RESERVED = 512
"""Bytes of shared memory that a block needs in addition to its row."""

# For `variants`: the shared memory of an H200, and the longest rows that registers can hold.
_LARGEST = 227 * 1024 - _RESERVED
_SHORT = 16384

STREAMED = r"""
// Asynchronous copies to shared memory, which take no registers, in waves.
DEVICE void begin_copy(uint4* to, const void* from) {
#if __CUDA_ARCH__ >= 800
    u32 place = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place), "l"(from) : "memory");
#else
    *to = *reinterpret_cast<const uint4*>(from);
#endif
}
DEVICE void end_wave() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT> DEVICE void await_waves() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
#endif
}

// A row of at most 4 * BATCH * LANES lines of 16 bytes, and the elements before the first and after
// the last line. Each thread reads the lines that it requested, so no barrier is necessary.
template <class T, int LANES, int BATCH, int INPUTS> struct Streamed {
    typedef typename Wide<T>::type A;
    static constexpr bool held = false;
    static constexpr int lanes = LANES, width = 16 / sizeof(T);
    const T *first, *second;
    int length, head, count;

    DEVICE Streamed(const T* first, const T* second, i64 size)
        : first(first), second(second), length((int)size) {
        int place = (int)((i64)first / (i64)sizeof(T) % width);
        head = place ? width - place : 0;
        head = head < length ? head : length;
        count = (length - head) / width;
        extern __shared__ uint4 cache[];
        #pragma unroll
        for (int j = 0; j < 4 * BATCH; ++j) {
            int line = j * LANES + (int)threadIdx.x, c = head + line * width;
            if (line < count) {
                begin_copy(cache + line, first + c);
                if (INPUTS > 1) begin_copy(cache + count + line, second + c);
            }
            if (j % BATCH == BATCH - 1) end_wave();
        }
    }

    template <bool WRITE, class Visit> DEVICE void walk(int from, int to, T* out, Visit& visit) {
        extern __shared__ uint4 cache[];
        #pragma unroll 2
        for (int line = from * LANES + (int)threadIdx.x; line < to; line += LANES) {
            int c = head + line * width;
            Pack<T, width> pack;
            Part<A, width> part;
            pack.word = cache[line];
            pack.widen_to(part.a);
            if (INPUTS > 1) {
                pack.word = cache[count + line];
                pack.widen_to(part.b);
            }
            visit(part, c, 0);
            if (WRITE) store<width>(out + c, part.a);
        }
    }

    template <bool WRITE, class Visit> DEVICE void walk_ends(T* out, Visit& visit) {
        for (int i = threadIdx.x; i < length - count * width; i += LANES) {
            int c = i < head ? i : i + count * width;
            Part<A, 1> part;
            part.template fetch<INPUTS>(first + c, second + c);
            visit(part, c, 0);
            if (WRITE) store<1>(out + c, part.a);
        }
    }

    template <class Visit> DEVICE void visit_wave(int wave, Visit& visit) {
        int end = (wave + 1) * BATCH * LANES;
        walk<false>(wave * BATCH, end < count ? end : count, (T*)0, visit);
    }

    // Visit the waves that have arrived while the others are being copied.
    template <class Visit> DEVICE void each(Visit visit) {
        walk_ends<false>((T*)0, visit);
        await_waves<3>();
        visit_wave(0, visit);
        await_waves<2>();
        visit_wave(1, visit);
        await_waves<1>();
        visit_wave(2, visit);
        await_waves<0>();
        visit_wave(3, visit);
    }

    template <class Visit> DEVICE void write(T* out, Visit visit) {
        await_waves<0>();
        walk<true>(0, count, out, visit);
        walk_ends<true>(out, visit);
    }
};
"""

_SPARSE = r"""
extern "C" __global__ void __launch_bounds__(THREADS, LEAST)
sparse_cross_entropy_and_gradient(
    const T* x, const LABEL* labels, const T* t, T* loss, T* g, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(x + r * length, x, length);
        i64 label = labels[r];
        bool valid = label >= 0 && label < length;
        A picked = valid ? widen(x[r * length + label]) : A(not_a_number());
        A factor = valid ? widen(t[r]) : A(not_a_number());
        A top, total;
        sum_exponentials<false, false>(row, top, total);
        total = or_one(total);
        if (threadIdx.x == 0) narrow(loss[r], logarithm(total) - (picked - top));
        A scale = factor / total;
        row.write(g + r * length, [&](auto& part, i64 column, int) {
            if constexpr (!Row::held) {
                EACH(e, part) part.a[e] = exponential<T>(part.a[e] - top);
            }
            // t * (weight / total - 1), with one comparison per part.
            i64 place = label - column;
            if (place >= 0 && place < part.count) {
                EACH(e, part) part.a[e] -= e == (int)place ? total : A(0);
            }
            EACH(e, part) part.a[e] *= scale;
        });
    }
}
"""

_DENSE = r"""
extern "C" __global__ void __launch_bounds__(THREADS, LEAST)
cross_entropy_and_gradient(
    const T* x, const T* labels, const T* t, T* loss, T* g, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(x + r * length, labels + r * length, length);
        A factor = widen(t[r]), top, total, cost = 0, sum = 0;
        sum_exponentials<false, true>(row, top, total);
        total = or_one(total);
        A log_total = logarithm(total);
        // A class of label 0 contributes 0, although 0 * inf is NaN.
        row.each([&](auto& part, i64, int) {
            EACH(e, part) {
                if (part.b[e] != A(0)) cost += part.b[e] * (log_total - (part.a[e] - top));
                sum += part.b[e];
            }
        });
        cost = reduce<Sum, Row::lanes>(cost);
        sum = reduce<Sum, Row::lanes>(sum);
        if (threadIdx.x == 0) narrow(loss[r], cost);
        A scale = sum / total;
        row.write(g + r * length, [&](auto& part, i64, int) {
            EACH(e, part) {
                part.a[e] = factor * (exponential<T>(part.a[e] - top) * scale - part.b[e]);
            }
        });
    }
}
"""

SOURCES = {
    "sparse_cross_entropy_and_gradient": TOTALS + _SPARSE,
    "cross_entropy_and_gradient": TOTALS + _DENSE,
}
_INPUTS = {"sparse_cross_entropy_and_gradient": 1, "cross_entropy_and_gradient": 2}


def _choose_layout(length: int, itemsize: int, width: int, inputs: int, most: int) -> Layout:
    """Return the layout for a row; a block can have `most` bytes of shared memory."""
    size = length * itemsize * inputs
    layout = choose_layout(length, itemsize, width, inputs)
    # 1024 threads have too few registers for float64.
    most_lanes = LONG_LANES if itemsize == 8 else 2 * LONG_LANES
    if (is_held(layout) and layout.lanes <= most_lanes) or width * itemsize < 16:
        return layout
    for lanes, limit in ((LONG_LANES, min(CACHE_BYTES, most)), (most_lanes, most)):
        if size <= limit:
            batch = -(-(length // width) // (lanes * _WAVES))
            return Layout(lanes, 1, f"Streamed<T, {lanes}, {batch}, {inputs}>", size)
    return layout


def _definitions(row: str) -> str:
    typedef = f"typedef {row} Row;\n"
    if not row.startswith("Streamed"):
        return f"{typedef}#define LEAST FEWEST"
    # Two blocks per multiprocessor: one processes its row while that of the other is copied.
    return f"{STREAMED}{typedef}#define LEAST (FEWEST ? FEWEST : 1024 / Row::lanes)"


@functools.cache
def _most_shared(device: int) -> int:
    attributes = cupy.cuda.Device(device).attributes
    return int(attributes["MaxSharedMemoryPerBlockOptin"]) - _RESERVED


@functools.cache
def _kernel(name: str, row: str, block: tuple[int, int, int], types: Types, device: int) -> Any:
    text = kernel_source(SOURCES[name], types, _definitions(row), block)
    raw = cupy.RawKernel(text, name, options=OPTIONS)
    if not row.startswith("Held"):
        # Independent of the row, because kernels of one source share the attribute.
        raw.max_dynamic_shared_size_bytes = _most_shared(device)
    if row.startswith("Streamed"):
        raw.preferred_shared_memory_carveout = 100  # percent; otherwise two blocks might not fit
    return RecordedKernel(raw)


def _layout(name: str, rows: tuple[Array, ...]) -> Layout:
    x, device = rows[0], cupy.cuda.runtime.getDevice()
    width = access_width(x.shape[-1], *rows)
    return _choose_layout(x.shape[-1], x.itemsize, width, _INPUTS[name], _most_shared(device))


def _launch(name: str, rows: tuple[Array, ...], args: tuple[Array, ...], **types: str) -> None:
    """Launch a kernel; `rows` are the arguments that are arrays of rows."""
    x = rows[0]
    length = x.shape[-1]
    device = cupy.cuda.runtime.getDevice()
    layout = _layout(name, rows)
    given = (("T", TYPES[x.dtype.name]), *types.items())
    kernel = _kernel(name, layout.row, layout.block, given, device)
    count = x.size // length
    kernel(layout.grid(count), layout.block, (*args, count, length), shared_mem=layout.shared)


def sparse_cross_entropy_and_gradient(
    logits: Array, labels: Array, t: Array, over: bool = False
) -> tuple[Array, Array]:
    """Return the loss of each row, and t * (softmax(logits) - one_hot(labels)).

    With `over`, the gradient may overwrite the logits.
    """
    name = "sparse_cross_entropy_and_gradient"
    if not fits(logits, t):
        loss, g = run_generic(name, logits, labels, t)
        return loss, g
    x, (labels, label) = contiguous(logits), class_numbers(labels)
    # A block reads its whole row and passes a barrier before it writes.
    over = over and bool(x.size) and _layout(name, (x, x)).lanes > _WARP
    loss, g = cupy.empty(labels.shape, x.dtype), x if over else cupy.empty(x.shape, x.dtype)
    if x.size:
        _launch(name, (x, g), (x, labels, contiguous(t), loss, g), LABEL=label)
    else:
        prevent_replay()
        loss.fill(math.nan)  # there are no classes, or no rows
    return loss, g


def cross_entropy_and_gradient(logits: Array, labels: Array, t: Array) -> tuple[Array, Array]:
    """Return the loss of each row, and t * (softmax(logits) * sum(labels) - labels)."""
    name = "cross_entropy_and_gradient"
    if not fits(logits, labels, t):
        loss, g = run_generic(name, logits, labels, t)
        return loss, g
    x, labels = contiguous(logits), contiguous(labels)
    create = cupy.empty if x.size else cupy.zeros
    loss, g = create(x.shape[:-1], x.dtype), cupy.empty(x.shape, x.dtype)
    if x.size:
        _launch(name, (x, labels, g), (x, labels, contiguous(t), loss, g))
    else:
        prevent_replay()
    return loss, g


# Sources


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    for name, inputs in _INPUTS.items():
        for types in _types_of(name):
            given = tuple(types.items())
            for layout in _layouts(types["T"], inputs):
                text = kernel_source(SOURCES[name], given, _definitions(layout.row), layout.block)
                yield Source(" ".join([name, *types.values(), layout.row]), text, OPTIONS)


def _types_of(name: str) -> Iterator[dict[str, str]]:
    for type_ in TYPES.values():
        if name.startswith("sparse"):
            # One label is read per row, so its type does not matter to the other types.
            labels = LABELS.values() if type_ == "float" else ("i64",)
            yield from ({"T": type_, "LABEL": label} for label in labels)
        else:
            yield {"T": type_}


def _layouts(type_: str, inputs: int) -> Iterator[Layout]:
    """Yield every layout; of those that differ in the number of steps, only the longest."""
    itemsize = next(FLOATS[dtype] for dtype, name in TYPES.items() if name == type_)
    ends = [limit // (itemsize * inputs) for limit in (CACHE_BYTES, _LARGEST)]
    width = 16 // itemsize
    while width:
        longest: dict[tuple[int, str, bool], Layout] = {}
        for length in (*range(32, _SHORT + 1, 32), *ends, 10**6):
            if length <= _SHORT or width in (1, 16 // itemsize):
                layout = _choose_layout(length, itemsize, width, inputs, _LARGEST)
                longest[layout.lanes, layout.row[0], layout.shared > 0] = layout
        yield from longest.values()
        width //= 2


overwrite_logits = functools.partial(sparse_cross_entropy_and_gradient, over=True)
"""Like `sparse_cross_entropy_and_gradient`, but overwrites the logits if possible."""

KERNELS = {
    "sparse_cross_entropy_and_gradient": sparse_cross_entropy_and_gradient,
    "cross_entropy_and_gradient": cross_entropy_and_gradient,
}
