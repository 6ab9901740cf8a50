"""CUDA sources of convolution in groups of few channels."""

from __future__ import annotations

from tapegrad_cupy.kernels.convolution.window_source import WINDOWS

# Filters are w[place][channel of the group][output]; each group has `share` consecutive outputs.
GROUPED = (
    WINDOWS
    + r"""
typedef Wider<T>::type A;

extern "C" __global__ void __launch_bounds__(256) conv(
    const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y, i64 total, int places,
    int c_in, Divider fan_in, Divider c_out, Divider share, Windows by
) {
    EACH(i, total)
    K rest = i;
    K out = split(rest, c_out);
    i64 first = (i64)quotient(out, share) * fan_in.value;
    int from[RANK], place[RANK];
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        from[k] = (int)split(rest, by.counts[k]) * (int)by.stride[k].value - by.low[k];
        place[k] = 0;
    }
    A sum = 0;
    for (int p = 0; p < places; ++p) {
        i64 pixel = rest;
        bool is_real = true;
#pragma unroll
        for (int k = 0; k < RANK; ++k) {
            int at = from[k] + place[k] * by.step[k];
            is_real = is_real && (unsigned int)at < by.spatial[k].value;
            pixel = pixel * by.spatial[k].value + at;
        }
        for (int c = 0; is_real && c < (int)fan_in.value; ++c) {
            i64 weight = ((i64)p * fan_in.value + c) * c_out.value + out;
            sum += widen(x[pixel * c_in + first + c]) * widen(w[weight]);
        }
        advance(place, by);
    }
    y[i] = narrow<T>(sum);
}

// Four blocks leave enough registers; without the bound the compiler spills to fit a fifth.
extern "C" __global__ void __launch_bounds__(256, 4) conv_input_gradient(
    const T* __restrict__ t, const T* __restrict__ w, T* __restrict__ g, i64 total, int places,
    Divider c_in, Divider fan_in, Divider c_out, Divider share, Windows by
) {
    EACH(i, total)
    K rest = i;
    K group = split(rest, c_in);
    K channel = split(group, fan_in);
    i64 first = (i64)group * share.value;
    int at[RANK], place[RANK];
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        at[k] = (int)split(rest, by.spatial[k]) + by.low[k];
        place[k] = 0;
    }
    A sum = 0;
    for (int p = 0; p < places; ++p) {
        i64 row = rest;
        bool is_there = is_seen(row, at, place, by);
        i64 weight = ((i64)p * fan_in.value + channel) * c_out.value + first;
        for (int j = 0; is_there && j < (int)share.value; ++j)
            sum += widen(t[row * c_out.value + first + j]) * widen(w[weight + j]);
        advance(place, by);
    }
    g[i] = narrow<T>(sum);
}

// Each thread has one filter element and a part of the windows; the parts are added afterwards.
extern "C" __global__ void __launch_bounds__(256) conv_filter_gradient(
    const T* __restrict__ x, const T* __restrict__ t, A* __restrict__ parts, i64 total, i64 rows,
    i64 rows_per_part, int c_in, Divider fan_in, Divider c_out, Divider share, Windows by
) {
    EACH(i, total)
    K rest = i;
    K out = split(rest, c_out);
    i64 channel = (i64)quotient(out, share) * fan_in.value + split(rest, fan_in);
    int from[RANK], o[RANK];
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k)
        from[k] = (int)split(rest, by.window[k]) * by.step[k] - by.low[k];
    i64 begin = (i64)rest * rows_per_part, end = min(begin + rows_per_part, rows);
    K image = begin;
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) o[k] = (int)split(image, by.counts[k]);
    A sum = 0;
    for (i64 row = begin; row < end; ++row) {
        i64 pixel = image;
        bool is_real = true;
#pragma unroll
        for (int k = 0; k < RANK; ++k) {
            int at = from[k] + o[k] * (int)by.stride[k].value;
            is_real = is_real && (unsigned int)at < by.spatial[k].value;
            pixel = pixel * by.spatial[k].value + at;
        }
        if (is_real) sum += widen(x[pixel * c_in + channel]) * widen(t[row * c_out.value + out]);
        bool is_carried = true;
#pragma unroll
        for (int k = RANK - 1; k >= 0; --k) {
            o[k] += is_carried;
            is_carried = is_carried && o[k] == (int)by.counts[k].value;
            if (is_carried) o[k] = 0;
        }
        image += is_carried;
    }
    parts[i] = sum;
}
"""
)
