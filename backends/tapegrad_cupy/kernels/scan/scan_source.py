"""CUDA source of scans: an associative combination of all elements before each element.

Macros: T is the type of the elements and W the type that they are computed in, O that of the
results. KIND chooses the combination. REVERSE begins with the last element. EXCLUSIVE leaves an
element out of its own result. THREADS is the size of a block, and EACH the number of neighbouring
elements of a thread; UNROLLED elements of a line are read at a time.

A line is cut into segments if there are few lines. The first launch then combines each segment, and
the second scans it, after the totals of the segments before it.
"""

from __future__ import annotations

SUM, PRODUCT, LOGSUMEXP, LARGEST, SMALLEST, RECURRENCE = range(6)

_ELEMENT = r"""
#if KIND == 0 || KIND == 1  // sums and products
struct E { W value; };
__device__ __forceinline__ E neutral() { return {(W)(float)KIND}; }
__device__ __forceinline__ E combine(const E& a, const E& b) {
    return {KIND == 0 ? (W)(a.value + b.value) : (W)(a.value * b.value)};
}
__device__ __forceinline__ E lift(const T* x, const T* a, i64 at, i64 i) { return {widen(x[at])}; }
__device__ __forceinline__ O finished(const E& e) { return narrow<O>(e.value); }

#elif KIND == 2  // the logarithm of a sum: the largest term, and the sum of exp(term - largest)
struct E { W largest; W sum; };
__device__ __forceinline__ E neutral() { return {(W)-__int_as_float(0x7f800000), (W)0}; }
__device__ __forceinline__ W scaled(const E& e, W to) {
    return e.largest == to ? e.sum : e.sum * exp(e.largest - to);  // also for infinities
}
__device__ __forceinline__ E combine(const E& a, const E& b) {
    const W largest = a.largest > b.largest || a.largest != a.largest ? a.largest : b.largest;
    return {largest, scaled(a, largest) + scaled(b, largest)};
}
__device__ __forceinline__ E lift(const T* x, const T* a, i64 at, i64 i) {
    return {widen(x[at]), (W)1};
}
__device__ __forceinline__ O finished(const E& e) { return narrow<O>(e.largest + log(e.sum)); }

#elif KIND == 3 || KIND == 4  // the position of the largest or smallest element, or of a NaN
struct E { W value; int place; };
__device__ __forceinline__ E neutral() { return {(W)0, -1}; }
__device__ __forceinline__ E combine(const E& a, const E& b) {
    if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
    const bool keeps = KIND == 3 ? a.value >= b.value : a.value <= b.value;
    return keeps || a.value != a.value ? a : b;
}
__device__ __forceinline__ E lift(const T* x, const T* a, i64 at, i64 i) {
    return {widen(x[at]), (int)i};
}
__device__ __forceinline__ O finished(const E& e) { return e.place; }

#else  // y[i] = a[i] y[i - 1] + x[i]; the first factor has no effect
struct E { W factor; W value; };
__device__ __forceinline__ E neutral() { return {(W)1.0f, (W)0.0f}; }
__device__ __forceinline__ E combine(const E& a, const E& b) {
    return {b.factor * a.factor, b.factor * a.value + b.value};
}
__device__ __forceinline__ E lift(const T* x, const T* a, i64 at, i64 i) {
    return {i ? (W)widen(a[at]) : (W)0.0f, widen(x[at])};
}
__device__ __forceinline__ O finished(const E& e) { return narrow<O>(e.value); }
#endif
"""

ROWS = (
    _ELEMENT
    + r"""
__device__ __forceinline__ E shifted_up(const E& e, int step) {
    union Parts { E e; int words[sizeof(E) / 4]; __device__ Parts() {} } parts;
    parts.e = e;
#pragma unroll
    for (int k = 0; k < (int)(sizeof(E) / 4); ++k) {
        parts.words[k] = __shfl_up_sync(0xffffffffu, parts.words[k], step);
    }
    return parts.e;
}

// Return the combination of the elements of all threads before this one; `total` is that of all.
__device__ __forceinline__ E before(const E& own, E& total) {
    __shared__ E warps[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    E sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const E other = shifted_up(sum, step);
        if (lane >= step) sum = combine(other, sum);
    }
    if (lane == 31) warps[warp] = sum;
    E earlier = shifted_up(sum, 1);
    if (lane == 0) earlier = neutral();
    __syncthreads();
    total = neutral();
    E prefix = neutral();
    for (int k = 0; k < THREADS / 32; ++k) {
        if (k == warp) prefix = total;
        total = combine(total, warps[k]);
    }
    __syncthreads();
    return combine(prefix, earlier);
}

// A block scans a segment of `per` elements of a row. Without `y` it only writes the total.
extern "C" __global__ void __launch_bounds__(THREADS) scan_rows(
    const T* __restrict__ x, const T* __restrict__ a, O* __restrict__ y, E* __restrict__ totals,
    i64 n, i64 per, i64 segments
) {
    const i64 row = (i64)blockIdx.x / segments, segment = (i64)blockIdx.x % segments;
    const i64 begin = segment * per, end = begin + per < n ? begin + per : n;
    E carry = neutral(), total;
    if (y && segment) {
        E earlier = neutral();
        if (threadIdx.x < segment) earlier = totals[row * segments + threadIdx.x];
        before(earlier, carry);
    }
    for (i64 tile = begin; tile < end; tile += THREADS * EACH) {
        const i64 first = tile + (i64)threadIdx.x * EACH;
        E own[EACH];
        E sum = neutral();
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const i64 i = first + k;
            own[k] = neutral();
            if (i < end) own[k] = lift(x, a, row * n + (REVERSE ? n - 1 - i : i), i);
            sum = k ? combine(sum, own[k]) : own[k];
        }
        E running = combine(carry, before(sum, total));
        carry = combine(carry, total);
        if (!y) continue;
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const i64 i = first + k;
            const E next = combine(running, own[k]);
            const i64 place = row * n + (REVERSE ? n - 1 - i : i);
            if (i < end) y[place] = finished(EXCLUSIVE ? running : next);
            running = next;
        }
    }
    if (!y && threadIdx.x == 0) totals[blockIdx.x] = carry;
}
"""
)

COLUMNS = (
    _ELEMENT
    + r"""
// A thread scans a segment of `per` elements, `inner` apart; neighbours have neighbouring lines.
extern "C" __global__ void __launch_bounds__(THREADS) scan_columns(
    const T* __restrict__ x, const T* __restrict__ a, O* __restrict__ y, E* __restrict__ totals,
    i64 n, i64 per, i64 segments, i64 inner, i64 lines
) {
    const i64 at = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (at >= lines * segments) return;
    const i64 line = at % lines, segment = at / lines;
    const i64 base = line / inner * n * inner + line % inner;
    const i64 begin = segment * per, end = begin + per < n ? begin + per : n;
    E running = neutral();
    for (i64 k = 0; y && k < segment; ++k) running = combine(running, totals[k * lines + line]);
#pragma unroll UNROLLED
    for (i64 i = begin; i < end; ++i) {
        const i64 place = base + (REVERSE ? n - 1 - i : i) * inner;
        const E next = combine(running, lift(x, a, place, i));
        if (y) y[place] = finished(EXCLUSIVE ? running : next);
        running = next;
    }
    if (!y) totals[at] = running;
}
"""
)
