"""CUDA code that kernels over windows share: fast division and the geometry of windows."""

from __future__ import annotations

WINDOWS = r"""
typedef COUNT K;  // an integer that can count all threads of a launch

// Division by a number known to the host; `magic` is valid for dividends below 2^31.
struct Divider { unsigned int value, magic, shift; };

__device__ __forceinline__ K quotient(K n, Divider by) {
    if (sizeof(K) == 8) return n / by.value;
    return (__umulhi((unsigned int)n, by.magic) + (unsigned int)n) >> by.shift;
}

// Split the last coordinate off a flat position.
__device__ __forceinline__ K split(K& rest, Divider by) {
    K above = quotient(rest, by);
    K last = rest - above * by.value;
    rest = above;
    return last;
}

// Window o sees element o * stride + place * step - low along each dimension.
struct Windows {
    Divider counts[RANK], window[RANK], spatial[RANK], stride[RANK];
    int low[RANK], step[RANK];
};

// Advance to the next place of the window in row-major order.
__device__ __forceinline__ void advance(int (&place)[RANK], const Windows& by) {
#pragma unroll
    for (int k = RANK - 1; k >= 0; --k) {
        if (++place[k] < (int)by.window[k].value) return;
        place[k] = 0;
    }
}

// Whether a window has an element, shifted by `low`, at this place; appends its index to `row`.
__device__ __forceinline__ bool is_seen(
    i64& row, const int (&at)[RANK], const int (&place)[RANK], const Windows& by
) {
    bool is_there = true;
#pragma unroll
    for (int k = 0; k < RANK; ++k) {
        int reach = at[k] - place[k] * by.step[k];
        int o = (int)quotient((K)(reach < 0 ? 0 : reach), by.stride[k]);
        is_there = is_there && o * (int)by.stride[k].value == reach;
        is_there = is_there && o < (int)by.counts[k].value;
        row = row * by.counts[k].value + o;
    }
    return is_there;
}

#define EACH(i, total) \
    K i = (K)blockIdx.x * 256 + threadIdx.x; \
    if (i >= (K)(total)) return;
"""
