"""CUDA source of sums over the middle axis of x[outer][rows][width], in a fixed order.

Macros: T is the input type, O the output type, V the elements per access, L the threads side by
side, and MAP(v) the summand. Each kernel can split the rows; then a second launch adds the parts.
"""

from __future__ import annotations

HELPERS = r"""
// Blocks per multiprocessor. On Hopper the assembler decides; others spill to fit more blocks.
#define FEWEST (__CUDA_ARCH__ == 900 ? 0 : 5)

typedef Wider<T>::type W;
typedef Vec<T, V> Ts;

__device__ __forceinline__ O finished(W total, double divisor, i64 takes_root) {
    total /= (W)divisor;
    return narrow<O>(takes_root ? sqrt(total) : total);
}

__device__ __forceinline__ void add(W (&total)[V], const Ts& more) {
    #pragma unroll
    for (int e = 0; e < V; ++e) {
        W v = widen(more.v[e]);
        total[e] += MAP(v);
    }
}
"""

FLAT = r"""
// One thread per V columns adds all rows; for many columns.
extern "C" __global__ void __launch_bounds__(256, FEWEST) flat(
    const T* __restrict__ x, O* __restrict__ out, i64 outer, i64 rows, i64 width, i64 splits,
    double divisor, i64 takes_root
) {
    i64 columns = width / V, i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outer * columns) return;
    i64 o = i / columns, c = (i - o * columns) * V;
    const T* at = x + o * rows * width + c;
    W total[V] = {};
    #pragma unroll 4
    for (i64 r = 0; r < rows; ++r) add(total, *(const Ts*)(at + r * width));
    #pragma unroll
    for (int e = 0; e < V; ++e) {
        out[o * width + c + e] = finished(total[e], divisor, takes_root);
    }
}
"""

COLUMNS = r"""
// A block adds one part of the rows for L * V columns, 256 / L rows at a time.
extern "C" __global__ void __launch_bounds__(256, FEWEST) columns(
    const T* __restrict__ x, O* __restrict__ out, i64 outer, i64 rows, i64 width, i64 splits,
    double divisor, i64 takes_root
) {
    const int ROWS = 256 / L;
    int lane = threadIdx.x % L, row = threadIdx.x / L;
    i64 tiles = (width + L * V - 1) / (L * V);
    i64 tile = blockIdx.x % tiles, rest = blockIdx.x / tiles;
    i64 split = rest % splits, o = rest / splits;
    i64 length = (rows + splits - 1) / splits, r = split * length;
    i64 end = r + length < rows ? r + length : rows;
    i64 c = (tile * L + lane) * V;
    W total[V] = {};
    if (c < width) {
        const T* at = x + o * rows * width + c;
        for (r += row; r + 3 * ROWS < end; r += 4 * ROWS) {
            Ts more[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u) more[u] = *(const Ts*)(at + (r + u * ROWS) * width);
            #pragma unroll
            for (int u = 0; u < 4; ++u) add(total, more[u]);
        }
        for (; r < end; r += ROWS) add(total, *(const Ts*)(at + r * width));
    }
    __shared__ W sums[ROWS][L * V + 1];
    #pragma unroll
    for (int e = 0; e < V; ++e) sums[row][lane * V + e] = total[e];
    __syncthreads();
    i64 column = tile * L * V + threadIdx.x;
    if (threadIdx.x >= L * V || column >= width) return;
    W sum = 0;
    #pragma unroll 8
    for (int k = 0; k < ROWS; ++k) sum += sums[k][threadIdx.x];
    out[(o * splits + split) * width + column] = finished(sum, divisor, takes_root);
}
"""

LINES = r"""
// L threads add one part of one line of `rows` elements (width is 1).
extern "C" __global__ void __launch_bounds__(256, FEWEST) lines(
    const T* __restrict__ x, O* __restrict__ out, i64 outer, i64 rows, i64 width, i64 splits,
    double divisor, i64 takes_root
) {
    int lane = threadIdx.x % L;
    i64 item = (i64)blockIdx.x * (256 / L) + threadIdx.x / L;
    i64 o = item / splits, split = item - o * splits;
    bool is_there = o < outer;
    i64 accesses = is_there ? rows / V : 0, length = (accesses + splits - 1) / splits;
    i64 k = split * length, end = k + length < accesses ? k + length : accesses;
    const T* line = x + o * rows;
    const Ts* at = (const Ts*)line;
    W total[V] = {};
    for (k += lane; k + 3 * L < end; k += 4 * L) {
        Ts more[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) more[u] = at[k + u * L];
        #pragma unroll
        for (int u = 0; u < 4; ++u) add(total, more[u]);
    }
    for (; k < end; k += L) add(total, at[k]);
    W sum = 0;
    #pragma unroll
    for (int e = 0; e < V; ++e) sum += total[e];
    // The remainder of a line that V does not divide belongs to the last part.
    if (is_there && split == splits - 1 && lane < rows % V) {
        W v = widen(line[rows / V * V + lane]);
        sum += MAP(v);
    }
    #pragma unroll
    for (int step = (L < 32 ? L : 32) / 2; step; step >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
    if (L > 32) {
        __shared__ W sums[8];
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        #pragma unroll
        for (int w = 0; w < 8; ++w) sum += sums[w];
    }
    if (is_there && lane == 0) out[item] = finished(sum, divisor, takes_root);
}
"""

SUMS = {"flat": HELPERS + FLAT, "columns": HELPERS + COLUMNS, "lines": HELPERS + LINES}
"""Separate sources, because a sum seldom needs more than one kernel."""
