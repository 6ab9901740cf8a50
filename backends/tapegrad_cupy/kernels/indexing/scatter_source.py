"""CUDA source that combines entries of equal index.

Sums are added by atomic operations (`add`), in an order that changes from run to run, unless the
same bits are wanted each time, few positions get very many entries, or the dtype has no fast atomic
addition. All other kernels combine entries in their order and without atomics.

The entries are rows `x[outer][n][width]`, and row `j` belongs to position `index[j]` of
`out[outer][size][width]`. If there are few entries, every position searches all of them (`direct`).
Otherwise entries are sorted by index, and each thread processes a *chunk* of the sorted entries. A
run of equal indices within a chunk is finished there (`chunks`). The parts of a run that spans
several chunks are stored, then added in order (`joins`). So long runs are cheap, and results are
deterministic.

Macros: T is the type of elements, R that of the learning rate, V the elements per access, and those
below.
"""

from __future__ import annotations

OPERATIONS = {
    "sum": "(a) + (b)",
    "prod": "(a) * (b)",
    # NaN wins over all numbers.
    "max": "((b) > (a) || (b) != (b) ? (b) : (a))",
    "min": "((b) < (a) || (b) != (b) ? (b) : (a))",
}
"""The macro COMBINE(a, b) of each reduction."""

FINISHES = {
    "store": "(value)",
    "merge": "COMBINE(old, value)",
    "descend": "(old) - (W)*rate * (value)",
}
"""The macro FINISH(old, value), which computes the result of a run."""

HELPERS = r"""
typedef Wider<T>::type W;
typedef Vec<T, V> Ts;
typedef Vec<W, V> Ws;

__device__ __forceinline__ void widen_all(Ws& to, const Ts& from) {
    #pragma unroll
    for (int e = 0; e < V; ++e) to.v[e] = widen(from.v[e]);
}

__device__ __forceinline__ void add_all(Ws& total, const Ws& more) {
    #pragma unroll
    for (int e = 0; e < V; ++e) total.v[e] = (W)(COMBINE(total.v[e], more.v[e]));
}

// Write the value of a run; indices out of range are ignored.
__device__ __forceinline__ void finish(
    Ts* out, i64 key, i64 size, i64 width, const Ws& total, const R* rate
) {
    if (key < 0 || key >= size) return;
    Ts result;
    if (READS_OLD) result = out[key * width];
    #pragma unroll
    for (int e = 0; e < V; ++e) {
        W value = total.v[e];
        if (READS_OLD) {
            W old = widen(result.v[e]);
            value = (W)(FINISH(old, value));
        }
        result.v[e] = narrow<T>(value);
    }
    out[key * width] = result;
}

// From here on, the width counts accesses of V elements.
struct Item { i64 column, chunk, outer; };

__device__ __forceinline__ Item item_of_thread(i64 width, i64 chunks) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, rest = i / width;
    return {i % width, rest % chunks, rest / chunks};
}
"""

DIRECT = r"""
extern "C" __global__ void __launch_bounds__(256) direct(
    const Ts* __restrict__ x, const i64* __restrict__ index, Ts* __restrict__ out,
    const R* __restrict__ rate, i64 outer, i64 n, i64 size, i64 width
) {
    Item item = item_of_thread(width, size);
    if (item.outer >= outer) return;
    const Ts* rows = x + item.outer * n * width + item.column;
    Ws total;
    #pragma unroll
    for (int e = 0; e < V; ++e) total.v[e] = (W)0;
    bool found = false;
    #pragma unroll 4
    for (i64 j = 0; j < n; ++j) {
        if (index[j] != item.chunk) continue;
        Ws value;
        widen_all(value, rows[j * width]);
        if (found) add_all(total, value);
        else total = value;
        found = true;
    }
    if (found || FILLS) {
        finish(out + item.outer * size * width + item.column, item.chunk, size, width, total, rate);
    }
}
"""

ORDER = r"""
// A stable sort in one launch, for short lists: count the entries before each entry.
extern "C" __global__ void __launch_bounds__(256) rank(
    const i64* __restrict__ index, i64* __restrict__ order, i64* __restrict__ keys, i64 n
) {
    __shared__ i64 tile[256];
    i64 i = (i64)blockIdx.x * 256 + threadIdx.x, own = i < n ? index[i] : 0, before = 0;
    for (i64 base = 0; base < n; base += 256) {
        if (base + threadIdx.x < n) tile[threadIdx.x] = index[base + threadIdx.x];
        __syncthreads();
        int count = (int)(n - base < 256 ? n - base : 256);
        #pragma unroll 8
        for (int k = 0; k < count; ++k) {
            before += tile[k] < own || (tile[k] == own && base + k < i);
        }
        __syncthreads();
    }
    if (i < n) {
        order[before] = i;
        keys[before] = own;
    }
}
"""

CHUNKS = r"""
extern "C" __global__ void __launch_bounds__(256, 2) chunks(
    const Ts* __restrict__ x, const i64* __restrict__ order, const i64* __restrict__ keys,
    Ts* __restrict__ out, Ws* __restrict__ parts, const R* __restrict__ rate,
    i64 outer, i64 n, i64 size, i64 width, i64 length, i64 count
) {
    Item item = item_of_thread(width, count);
    if (item.outer >= outer) return;
    const Ts* rows = x + item.outer * n * width + item.column;
    Ts* to = out + item.outer * size * width + item.column;
    Ws* part = parts + (item.outer * count + item.chunk) * 2 * width + item.column;
    i64 start = item.chunk * length, end = start + length < n ? start + length : n;
    i64 key = keys[start];
    bool began_before = start > 0 && keys[start - 1] == key, is_new = true;
    Ws total;
    #pragma unroll
    for (int e = 0; e < V; ++e) total.v[e] = (W)0;
    for (i64 k = start; k < end; k += 4) {
        i64 next[4];
        Ts row[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            i64 at = k + u < end ? k + u : end - 1;
            next[u] = keys[at];
            row[u] = rows[order[at] * width];
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            if (k + u >= end) break;
            Ws value;
            widen_all(value, row[u]);
            if (next[u] == key && !is_new) {
                add_all(total, value);
                continue;
            }
            if (!is_new) {
                if (began_before) part[0] = total;
                else finish(to, key, size, width, total, rate);
                began_before = false;
            }
            is_new = false;
            key = next[u];
            total = value;
        }
    }
    if (began_before) part[0] = total;
    else if (end < n && keys[end] == key) part[width] = total;
    else finish(to, key, size, width, total, rate);
}
"""

JOINS = r"""
extern "C" __global__ void __launch_bounds__(256) joins(
    const i64* __restrict__ keys, Ts* __restrict__ out, const Ws* __restrict__ parts,
    const R* __restrict__ rate, i64 outer, i64 n, i64 size, i64 width, i64 length, i64 count
) {
    Item item = item_of_thread(width, count);
    i64 start = item.chunk * length, end = start + length;
    if (item.outer >= outer || end >= n) return;
    i64 key = keys[end - 1];
    if (keys[end] != key) return;
    if (start > 0 && keys[start - 1] == key) return;  // a run that began before this chunk
    const Ws* part = parts + item.outer * count * 2 * width + item.column;
    Ws total = part[(item.chunk * 2 + 1) * width];
    bool goes_on = true;
    for (i64 c = item.chunk + 1; c < count && goes_on; c += 4) {
        Ws more[4];
        bool belongs[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            i64 at = c + u < count ? c + u : count - 1;
            belongs[u] = c + u < count && keys[at * length] == key;
            if (belongs[u]) more[u] = part[at * 2 * width];
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            goes_on = goes_on && belongs[u];
            if (goes_on) add_all(total, more[u]);
        }
    }
    Ts* to = out + item.outer * size * width + item.column;
    finish(to, key, size, width, total, rate);
}
"""

ATOMICS = r"""
// Add a vector to memory atomically; nobody waits for the old values.
template <class A> __device__ __forceinline__ void add_atomically(A* to, const A* values, int n) {
    #pragma unroll
    for (int e = 0; e < n; ++e) atomicAdd(to + e, values[e]);
}
__device__ __forceinline__ void add_atomically(float* to, const Vec<float, 4>& values) {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(to), "f"(values.v[0]),
                 "f"(values.v[1]), "f"(values.v[2]), "f"(values.v[3]));
#else
    add_atomically(to, values.v, 4);
#endif
}
template <class A, int n>
__device__ __forceinline__ void add_atomically(A* to, const Vec<A, n>& values) {
    add_atomically(to, values.v, n);
}
"""
"""Functions that add a vector to the memory at an address, which is aligned to its size."""

ADD = r"""
#if ADDS
// A thread per vector of `length` neighbouring rows. It adds those of one run of equal indices
// before it changes the memory, so that sorted indices cost few atomic operations. Rows are `step`
// vectors apart.
extern "C" __global__ void __launch_bounds__(256) add(
    const Ts* __restrict__ x, const i64* __restrict__ index, T* __restrict__ out,
    const R* __restrict__ rate, i64 outer, i64 n, i64 size, i64 width, i64 length, i64 step
) {
    Item item = item_of_thread(width, (n + length - 1) / length);
    if (item.outer >= outer) return;
    const Ts* rows = x + item.outer * n * step + item.column;
    T* to = out + (item.outer * size * width + item.column) * V;
    i64 start = item.chunk * length, end = start + length < n ? start + length : n;
    T factor = READS_OLD ? -(T)*rate : (T)1;
    i64 key = -1;
    Ts total;
    for (i64 k = start; k < end; k += 4) {
        i64 next[4];
        Ts row[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            i64 at = k + u < end ? k + u : end - 1;
            next[u] = index[at];
            row[u] = rows[at * step];
        }
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            if (k + u >= end) break;
            if (next[u] != key) {
                if (key >= 0 && key < size) add_atomically(to + key * width * V, total);
                key = next[u];
                #pragma unroll
                for (int e = 0; e < V; ++e) total.v[e] = (T)0;
            }
            #pragma unroll
            for (int e = 0; e < V; ++e) total.v[e] += factor * row[u].v[e];
        }
    }
    if (key >= 0 && key < size) add_atomically(to + key * width * V, total);
}
#endif
"""

COMBINE_SOURCE = HELPERS + DIRECT + CHUNKS + JOINS + ATOMICS + ADD
