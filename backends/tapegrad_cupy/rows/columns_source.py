"""CUDA source of reductions down columns in two stages, and of batch normalisation by them.

Threads stand in a block as `blockDim.x` columns of N neighbours by `blockDim.y` rows; `gridDim.y`
blocks share the rows. Partial results are joined in an order that depends on these sizes alone.
"""

from __future__ import annotations

PLACES = r"""
DEVICE i64 first_column() { return ((i64)blockIdx.x * blockDim.x + threadIdx.x) * N; }
DEVICE i64 top_row() { return (i64)blockIdx.y * blockDim.y + threadIdx.y; }
DEVICE i64 rows_apart() { return (i64)gridDim.y * blockDim.y; }

#define LOOP(e) _Pragma("unroll") for (int e = 0; e < N; ++e)

DEVICE A inverse_root(A variance, double epsilon) { return A(1) / root(variance + A(epsilon)); }
"""

# With the moments of each row (layer normalisation) or of each column (batch normalisation).
COLUMN_PRODUCTS = r"""
template <class Join> DEVICE void join_rows(A* first, A* second) {
    __shared__ A box[2][THREADS * N];
    int place = (threadIdx.y * blockDim.x + threadIdx.x) * N;
    LOOP(e) { box[0][place + e] = first[e]; box[1][place + e] = second[e]; }
    for (int half = blockDim.y >> 1; half; half >>= 1) {
        __syncthreads();
        int other = place + half * blockDim.x * N;
        if (threadIdx.y < half) LOOP(e) {
            box[0][place + e] += box[0][other + e];
            box[1][place + e] += box[1][other + e];
        }
    }
    LOOP(e) { first[e] = box[0][place + e]; second[e] = box[1][place + e]; }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
column_products(
    const T* t, const T* x, const A* means, const A* variances, A* gain_parts, A* bias_parts,
    i64 rows, i64 columns, double epsilon, i64 by_column) {
    i64 c = first_column();
    A products[N], sums[N], mean[N], scale[N];
    LOOP(e) {
        products[e] = sums[e] = 0;
        bool known = by_column && c < columns;
        mean[e] = known ? means[c + e] : A(0);
        scale[e] = known ? inverse_root(variances[c + e], epsilon) : A(1);
    }
    if (c < columns) {
        #pragma unroll 4
        for (i64 r = top_row(); r < rows; r += rows_apart()) {
            A a[N], b[N];
            load<N>(a, t + r * columns + c);
            load<N>(b, x + r * columns + c);
            A m = by_column ? A(0) : means[r];
            A s = by_column ? A(1) : inverse_root(variances[r], epsilon);
            LOOP(e) {
                A unit = by_column ? (b[e] - mean[e]) * scale[e] : (b[e] - m) * s;
                products[e] += a[e] * unit;
                sums[e] += a[e];
            }
        }
    }
    join_rows<Sum>(products, sums);
    if (threadIdx.y == 0 && c < columns) {
        store<N>(gain_parts + blockIdx.y * columns + c, products);
        store<N>(bias_parts + blockIdx.y * columns + c, sums);
    }
}
"""

# One thread per column and slice of the parts; y has the type of what it is the gradient of.
FINISH_SUMS = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
finish_sums(const A* gain_parts, const A* bias_parts, GAIN* for_gain, BIAS* for_bias,
            i64 parts, i64 columns) {
    __shared__ A box[2][THREADS / 32][32];
    i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
    A first = 0, second = 0;
    if (c < columns) {
        #pragma unroll 4
        for (i64 p = threadIdx.y; p < parts; p += THREADS / 32) {
            first += gain_parts[p * columns + c];
            second += bias_parts[p * columns + c];
        }
    }
    box[0][threadIdx.y][threadIdx.x] = first;
    box[1][threadIdx.y][threadIdx.x] = second;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        for (int k = 1; k < THREADS / 32; ++k) {
            first += box[0][k][threadIdx.x];
            second += box[1][k][threadIdx.x];
        }
        narrow(for_gain[c], first);
        narrow(for_bias[c], second);
    }
}
"""

MOMENTS = r"""
// Count, mean and sum of squared distances from it, which join without cancellation.
struct Moments {
    A count, mean, spread;
    DEVICE void join(const Moments& other) {
        A total = count + other.count;
        if (total == A(0)) return;
        A gap = other.mean - mean, share = other.count / total;
        mean += gap * share;
        spread += other.spread + gap * gap * (count * share);
        count = total;
    }
};
"""

# Each thread measures from its first element, so that a large mean costs no digits.
COLUMN_MOMENTS = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
column_moments(const T* x, A* mean_parts, A* spread_parts, i64 rows, i64 columns) {
    __shared__ A box[2][THREADS * N];
    __shared__ A counts[THREADS];
    i64 c = first_column(), r = top_row();
    A base[N], sums[N], squares[N], count = 0;
    LOOP(e) base[e] = sums[e] = squares[e] = 0;
    if (c < columns && r < rows) {
        load<N>(base, x + r * columns + c);
        #pragma unroll 4
        for (; r < rows; r += rows_apart()) {
            A a[N];
            load<N>(a, x + r * columns + c);
            LOOP(e) {
                A rest = a[e] - base[e];
                sums[e] += rest;
                squares[e] += rest * rest;
            }
            count += A(1);
        }
    }
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    A known = count == A(0) ? A(1) : count;
    counts[thread] = count;
    LOOP(e) {
        box[0][thread * N + e] = base[e] + sums[e] / known;
        box[1][thread * N + e] = squares[e] - sums[e] * (sums[e] / known);
    }
    for (int half = blockDim.y >> 1; half; half >>= 1) {
        __syncthreads();
        int other = thread + half * blockDim.x;
        if (threadIdx.y >= half) continue;
        A total = counts[thread];
        LOOP(e) {
            int i = thread * N + e, k = other * N + e;
            Moments mine = {counts[thread], box[0][i], box[1][i]};
            mine.join({counts[other], box[0][k], box[1][k]});
            box[0][i] = mine.mean;
            box[1][i] = mine.spread;
            total = mine.count;
        }
        counts[thread] = total;
    }
    if (threadIdx.y == 0 && c < columns) {
        store<N>(mean_parts + blockIdx.y * columns + c, box[0] + thread * N);
        store<N>(spread_parts + blockIdx.y * columns + c, box[1] + thread * N);
    }
}
"""

# `height` is the number of rows that a block takes at a time: it tells how many each part has.
FINISH_MOMENTS = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
finish_moments(const A* mean_parts, const A* spread_parts, A* means, A* variances,
               i64 parts, i64 columns, i64 rows, i64 height, i64 center) {
    __shared__ Moments box[THREADS / 32][32];
    i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
    i64 turns = rows / (parts * height), rest = rows % (parts * height);
    Moments mine = {0, 0, 0};
    if (c < columns) {
        for (i64 p = threadIdx.y; p < parts; p += THREADS / 32) {
            i64 extra = rest - p * height;
            extra = extra < 0 ? 0 : extra > height ? height : extra;
            mine.join({A(turns * height + extra), mean_parts[p * columns + c],
                       spread_parts[p * columns + c]});
        }
    }
    box[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        for (int k = 1; k < THREADS / 32; ++k) mine.join(box[k][threadIdx.x]);
        A variance = mine.spread / mine.count;
        means[c] = center ? mine.mean : A(0);
        variances[c] = center ? variance : variance + mine.mean * mine.mean;
    }
}
"""

COLUMN_NORMALIZE = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
column_normalize(
    const T* x, const GAIN* gain, const GAIN* bias, const A* means, const A* variances, T* y,
    i64 rows, i64 columns, double epsilon) {
    i64 c = first_column();
    if (c >= columns) return;
    A mean[N], factor[N], shift[N];
    LOOP(e) {
        A scale = inverse_root(variances[c + e], epsilon);
        mean[e] = means[c + e];
        factor[e] = gain ? scale * widen(gain[c + e]) : scale;
        shift[e] = bias ? widen(bias[c + e]) : A(0);
    }
    #pragma unroll 4
    for (i64 r = top_row(); r < rows; r += rows_apart()) {
        A a[N];
        load<N>(a, x + r * columns + c);
        LOOP(e) a[e] = (a[e] - mean[e]) * factor[e] + shift[e];
        store<N>(y + r * columns + c, a);
    }
}
"""

COLUMN_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
column_gradient(
    const T* t, const T* x, const GAIN* gain, const A* means, const A* variances,
    const A* products, const A* sums, T* g, i64 rows, i64 columns, double epsilon, i64 center) {
    i64 c = first_column();
    if (c >= columns) return;
    A mean[N], scale[N], factor[N], product[N], sum[N];
    LOOP(e) {
        mean[e] = means[c + e];
        scale[e] = inverse_root(variances[c + e], epsilon);
        factor[e] = gain ? scale[e] * widen(gain[c + e]) : scale[e];
        product[e] = products[c + e] / A(rows);
        sum[e] = center ? sums[c + e] / A(rows) : A(0);
    }
    #pragma unroll 4
    for (i64 r = top_row(); r < rows; r += rows_apart()) {
        A a[N], b[N];
        load<N>(a, t + r * columns + c);
        load<N>(b, x + r * columns + c);
        LOOP(e) {
            A unit = (b[e] - mean[e]) * scale[e];
            a[e] = (a[e] - unit * product[e] - sum[e]) * factor[e];
        }
        store<N>(g + r * columns + c, a);
    }
}
"""

SOURCES = {
    "column_products": PLACES + COLUMN_PRODUCTS,
    "finish_sums": FINISH_SUMS,
    "column_moments": PLACES + MOMENTS + COLUMN_MOMENTS,
    "finish_moments": MOMENTS + FINISH_MOMENTS,
    "column_normalize": PLACES + COLUMN_NORMALIZE,
    "column_gradient": PLACES + COLUMN_GRADIENT,
}
