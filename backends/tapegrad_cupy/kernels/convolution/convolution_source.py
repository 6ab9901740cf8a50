"""CUDA sources of convolution by matrix products: unroll patches, add them, transpose filters."""

from __future__ import annotations

from tapegrad_cupy.kernels.convolution.window_source import WINDOWS

# Patches are columns[group][row][place][channel], where a row is a window. The matrix product with
# the filters [place][channel][output] is the convolution of a group.
PATCHES = (
    WINDOWS
    + r"""
typedef UNIT U;  // some channels, moved as bits

extern "C" __global__ void __launch_bounds__(256) gather_patches(
    const U* __restrict__ x, U* __restrict__ columns, i64 total, i64 first, int groups,
    Divider width, Divider rows, Windows by
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    int at[RANK];
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k)
        at[k] = (int)split(rest, by.window[k]) * by.step[k] - by.low[k];
    K row = split(rest, rows) + (K)first;
    bool is_real = true;
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        at[k] += (int)split(row, by.counts[k]) * (int)by.stride[k].value;
        is_real = is_real && (unsigned int)at[k] < by.spatial[k].value;
    }
    i64 pixel = row;  // the remainder is the number of the image
#pragma unroll
    for (int k = 0; k < RANK; ++k) pixel = pixel * by.spatial[k].value + at[k];
    U value = U();
    if (is_real) value = x[(pixel * groups + rest) * width.value + channel];
    columns[i] = value;
}
"""
)

# Each thread adds the values of all windows for V channels of one element, in the order of places.
SPREAD = (
    WINDOWS
    + r"""
typedef Wider<T>::type A;

extern "C" __global__ void __launch_bounds__(256) add_patches(
    const T* __restrict__ columns, T* __restrict__ g, i64 total, i64 rows, int places,
    Divider width, Divider groups, Windows by
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    K group = split(rest, groups);
    int at[RANK], place[RANK];
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        at[k] = (int)split(rest, by.spatial[k]) + by.low[k];
        place[k] = 0;
    }
    const Vec<T, V>* from = (const Vec<T, V>*)columns;
    A sum[V] = {};
    for (int p = 0; p < places; ++p) {
        i64 row = rest;
        if (is_seen(row, at, place, by)) {
            Vec<T, V> part = from[((group * rows + row) * places + p) * width.value + channel];
#pragma unroll
            for (int v = 0; v < V; ++v) sum[v] += widen(part.v[v]);
        }
        advance(place, by);
    }
    Vec<T, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) out.v[v] = narrow<T>(sum[v]);
    ((Vec<T, V>*)g)[i] = out;
}
"""
)

# Transpose filters between [place * channel][output] and [output][place * channel] by tiles.
TRANSPOSE = r"""
typedef UNIT U;

extern "C" __global__ void __launch_bounds__(256) transpose(
    const U* __restrict__ x, U* __restrict__ y, i64 rows, i64 columns, i64 tiles
) {
    __shared__ U tile[32][33];
    i64 top = blockIdx.x / tiles * 32, left = blockIdx.x % tiles * 32;
    int lane = threadIdx.x % 32, line = threadIdx.x / 32;
    for (int k = line; k < 32; k += 8)
        if (top + k < rows && left + lane < columns)
            tile[k][lane] = x[(top + k) * columns + left + lane];
    __syncthreads();
    for (int k = line; k < 32; k += 8)
        if (left + k < columns && top + lane < rows)
            y[(left + k) * rows + top + lane] = tile[lane][k];
}
"""
