"""CUDA sources of pooling: each thread processes V channels of one window or element."""

from __future__ import annotations

from tapegrad_cupy.kernels.convolution.window_source import WINDOWS

MAXIMUM = (
    WINDOWS
    + r"""
typedef Wider<T>::type A;

// The first of equal elements wins, and NaN beats any number. Padding never wins over an element.
extern "C" __global__ void __launch_bounds__(256) max_pool(
    const T* __restrict__ x, T* __restrict__ y, i64* __restrict__ index, i64 total, int places,
    Divider width, Windows by
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    int from[RANK], place[RANK];
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        from[k] = (int)split(rest, by.counts[k]) * (int)by.stride[k].value - by.low[k];
        place[k] = 0;
    }
    i64 area = 1;
#pragma unroll
    for (int k = 0; k < RANK; ++k) area *= by.spatial[k].value;
    const Vec<T, V>* image = (const Vec<T, V>*)x + (i64)rest * area * width.value + channel;
    A best[V];
    i64 found[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
        best[v] = LOWEST;
        found[v] = -1;
    }
    for (int p = 0; p < places; ++p) {
        i64 pixel = 0;
        bool is_real = true;
#pragma unroll
        for (int k = 0; k < RANK; ++k) {
            int at = from[k] + place[k] * by.step[k];
            is_real = is_real && (unsigned int)at < by.spatial[k].value;
            pixel = pixel * by.spatial[k].value + at;
        }
        if (is_real) {
            Vec<T, V> seen = image[pixel * width.value];
#pragma unroll
            for (int v = 0; v < V; ++v) {
                A value = widen(seen.v[v]);
                bool is_first_nan = value != value && best[v] == best[v];
                if (value > best[v] || found[v] < 0 || is_first_nan) {
                    best[v] = value;
                    found[v] = pixel;
                }
            }
        }
        advance(place, by);
    }
    Vec<T, V> out;
    Vec<i64, V> where;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        out.v[v] = narrow<T>(best[v]);
        where.v[v] = found[v];
    }
    ((Vec<T, V>*)y)[i] = out;
    ((Vec<i64, V>*)index)[i] = where;
}
"""
)

# Positions are flat indices into the spatial dimensions. A negative one, of a window without
# elements, gathers 0 and scatters nothing.
PICKED = (
    WINDOWS
    + r"""
typedef UNIT U;

extern "C" __global__ void __launch_bounds__(256) pool_gather(
    const U* __restrict__ x, const i64* __restrict__ index, U* __restrict__ y, i64 total, i64 area,
    Divider width, Divider windows
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    i64 image = quotient(rest, windows), at = index[i];
    U value = U();
    if (at >= 0 && at < area) value = x[(image * area + at) * width.value + channel];
    y[i] = value;
}

// No position was picked twice.
extern "C" __global__ void __launch_bounds__(256) pool_place(
    const U* __restrict__ t, const i64* __restrict__ index, U* __restrict__ g, i64 total, i64 area,
    Divider width, Divider windows
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    i64 image = quotient(rest, windows), at = index[i];
    if (at >= 0 && at < area) g[(image * area + at) * width.value + channel] = t[i];
}

// All windows of one position become a linked list, in the order in which the threads arrive ...
extern "C" __global__ void __launch_bounds__(256) pool_link(
    const i64* __restrict__ index, K* __restrict__ heads, K* __restrict__ next, i64 total, i64 area,
    Divider width, Divider windows
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    i64 image = quotient(rest, windows), at = index[i];
    if (at < 0 || at >= area) return;
    next[i] = atomicExch(heads + (image * area + at) * width.value + channel, i + 1);
}
"""
)

# ... and are added in the order of the windows, so that the result is deterministic.
LISTED = (
    WINDOWS
    + r"""
typedef Wider<T>::type A;

extern "C" __global__ void __launch_bounds__(256) pool_scatter(
    const T* __restrict__ t, const K* __restrict__ heads, const K* __restrict__ next,
    T* __restrict__ g, i64 total
) {
    EACH(i, total)
    K head = heads[i], last = 0;
    A sum = 0;
    while (head) {
        K least = 0;
        for (K at = head; at; at = next[at - 1])
            if (at > last && (!least || at < least)) least = at;
        if (!least) break;
        sum += widen(t[least - 1]);
        last = least;
    }
    g[i] = narrow<T>(sum);
}
"""
)

# The mean of a window excludes the padding; `real_along` counts its elements in each dimension.
MEAN = (
    WINDOWS
    + r"""
typedef Wider<T>::type A;

__device__ __forceinline__ int real_along(int o, int k, const Windows& by) {
    int from = o * (int)by.stride[k].value - by.low[k], to = from + (int)by.window[k].value;
    return max(min(to, (int)by.spatial[k].value) - max(from, 0), 0);
}

extern "C" __global__ void __launch_bounds__(256) avg_pool(
    const T* __restrict__ x, T* __restrict__ y, i64 total, int places, int count_padding,
    Divider width, Windows by
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    int from[RANK], place[RANK];
    i64 area = 1, real = 1;
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        int o = (int)split(rest, by.counts[k]);
        from[k] = o * (int)by.stride[k].value - by.low[k];
        place[k] = 0;
        area *= by.spatial[k].value;
        real *= real_along(o, k, by);
    }
    const Vec<T, V>* image = (const Vec<T, V>*)x + (i64)rest * area * width.value + channel;
    A sum[V] = {};
    for (int p = 0; p < places; ++p) {
        i64 pixel = 0;
        bool is_real = true;
#pragma unroll
        for (int k = 0; k < RANK; ++k) {
            int at = from[k] + place[k];
            is_real = is_real && (unsigned int)at < by.spatial[k].value;
            pixel = pixel * by.spatial[k].value + at;
        }
        if (is_real) {
            Vec<T, V> seen = image[pixel * width.value];
#pragma unroll
            for (int v = 0; v < V; ++v) sum[v] += widen(seen.v[v]);
        }
        advance(place, by);
    }
    A divisor = count_padding ? places : real ? real : 1;
    Vec<T, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) out.v[v] = narrow<T>(sum[v] / divisor);
    ((Vec<T, V>*)y)[i] = out;
}

// Each element adds its shares of the windows that contain it, which form a box.
extern "C" __global__ void __launch_bounds__(256) avg_pool_gradient(
    const T* __restrict__ t, T* __restrict__ g, i64 total, int places, int count_padding,
    Divider width, Windows by
) {
    EACH(i, total)
    K rest = i;
    K channel = split(rest, width);
    int first[RANK], last[RANK], o[RANK];
    bool is_seen = true;
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        int at = (int)split(rest, by.spatial[k]) + by.low[k], before = at - (int)by.window[k].value;
        first[k] = before < 0 ? 0 : (int)quotient(before, by.stride[k]) + 1;
        last[k] = min((int)quotient(at, by.stride[k]), (int)by.counts[k].value - 1);
        is_seen = is_seen && first[k] <= last[k];
        o[k] = first[k];
    }
    const Vec<T, V>* from = (const Vec<T, V>*)t;
    A sum[V] = {};
    while (is_seen) {
        i64 row = rest, real = 1;
#pragma unroll
        for (int k = 0; k < RANK; ++k) {
            row = row * by.counts[k].value + o[k];
            real *= real_along(o[k], k, by);
        }
        A divisor = count_padding ? places : real;
        Vec<T, V> part = from[row * width.value + channel];
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += widen(part.v[v]) / divisor;
        is_seen = false;
#pragma unroll
        for (int k = RANK - 1; k >= 0; --k) {
            if (is_seen) continue;
            is_seen = ++o[k] <= last[k];
            if (!is_seen) o[k] = first[k];
        }
    }
    Vec<T, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) out.v[v] = narrow<T>(sum[v]);
    ((Vec<T, V>*)g)[i] = out;
}
"""
)
