"""CUDA source of reductions down columns in two stages, and of batch normalisation by them.

The threads of a block form `blockDim.x` columns of N neighbours by `blockDim.y` rows. `gridDim.y`
blocks share the rows, `size` rows each. The order in which partial results are joined depends only
on these sizes.
"""

from __future__ import annotations

PLACES = r"""
DEVICE i64 first_column() { return ((i64)blockIdx.x * blockDim.x + threadIdx.x) * N; }
DEVICE i64 end_row(i64 rows, i64 size) {
    i64 end = (blockIdx.y + 1) * size;
    return end < rows ? end : rows;
}

#define LOOP(e) _Pragma("unroll") for (int e = 0; e < N; ++e)

DEVICE A scale_of(A variance, double epsilon) { return inverse_root(variance + A(epsilon)); }

// Some rows at the columns of a thread, in their stored type. All are read before the first is used
// and before anything is written, so that the reads overlap.
template <int COUNT> struct Batch {
    Pack<T, N> packs[COUNT];
    DEVICE void fetch(const T* from, i64 row, i64 end, i64 columns) {
        #pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            i64 r = row + k * blockDim.y;
            typedef decltype(packs[k].word) W;
            if (r < end) packs[k].word = *reinterpret_cast<const W*>(from + r * columns);
        }
    }
};
// Cotangents of some rows. If a ReLU follows the normalisation, y is its output, and the cotangent
// is 0 where y is not positive.
template <int COUNT> DEVICE void fetch_pulled(
    Batch<COUNT>& ts, const T* t, const T* y, i64 row, i64 end, i64 columns
) {
    ts.fetch(t, row, end, columns);
    if (!RELU) return;
    Batch<COUNT> ys;
    ys.fetch(y, row, end, columns);
    #pragma unroll
    for (int k = 0; k < COUNT; ++k) LOOP(e) {
        if (!(widen(ys.packs[k].v[e]) > A(0))) narrow(ts.packs[k].v[e], A(0));
    }
}

// For each row r of a batch, the k-th of it.
#define BATCHED(k, r, row, end, count) _Pragma("unroll") for (int k = 0; k < count; ++k) \
    if (i64 r = row + k * blockDim.y; r < end)
"""

# Add the results of all rows of a block: each thread adds one column and calls `finish` with it.
JOIN_ROWS = r"""
template <class Finish> DEVICE void join_rows(const A* first, const A* second, Finish finish) {
    __shared__ __align__(16) A box[2][THREADS * N];
    int wide = blockDim.x * N, place = threadIdx.y * wide + threadIdx.x * N;
    store<N>(box[0] + place, first);
    store<N>(box[1] + place, second);
    __syncthreads();
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < wide; i += THREADS) {
        A x = 0, y = 0;
        #pragma unroll 4
        for (int k = i; k < THREADS * N; k += wide) {
            x += box[0][k];
            y += box[1][k];
        }
        finish((i64)blockIdx.x * wide + i, x, y);
    }
}
"""

# The moments are those of rows (layer normalisation) or of columns (batch normalisation).
COLUMN_PRODUCTS = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 4)
column_products(
    const T* t, const T* x, const T* y, const A* means, const A* variances, A* gain_parts,
    A* bias_parts, i64 rows, i64 columns, i64 size, double epsilon) {
    constexpr int COUNT = 2;
    i64 c = first_column(), end = end_row(rows, size), row = blockIdx.y * size + threadIdx.y;
    A products[N], sums[N], mean[N];
    LOOP(e) products[e] = sums[e] = mean[e] = 0;
    if (c >= columns) end = 0;
    Batch<COUNT> ts, xs;
    xs.fetch(x + c, row, end, columns);
    fetch_pulled(ts, t + c, y + c, row, end, columns);
    if (BY_COLUMN && c < columns) load<N>(mean, means + c);
    while (row < end) {
        BATCHED(k, r, row, end, COUNT) {
            A m = BY_COLUMN ? A(0) : means[r];
            A s = BY_COLUMN ? A(1) : scale_of(variances[r], epsilon);
            LOOP(e) {
                A a = widen(ts.packs[k].v[e]), b = widen(xs.packs[k].v[e]);
                products[e] += a * (BY_COLUMN ? b - mean[e] : (b - m) * s);
                sums[e] += a;
            }
        }
        row += COUNT * blockDim.y;
        xs.fetch(x + c, row, end, columns);
        fetch_pulled(ts, t + c, y + c, row, end, columns);
    }
    join_rows(products, sums, [&](i64 column, A product, A sum) {
        if (column >= columns) return;
        // The scale of a column is a common factor of all its products.
        A scale = BY_COLUMN ? scale_of(variances[column], epsilon) : A(1);
        gain_parts[blockIdx.y * columns + column] = product * scale;
        bias_parts[blockIdx.y * columns + column] = sum;
    });
}
"""

# One thread per column and slice of the parts. The sums are rounded to the types of gain and bias,
# and also written unrounded if `gain_sums` and `bias_sums` are not null.
FINISH_SUMS = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
finish_sums(const A* gain_parts, const A* bias_parts, GAIN* for_gain, BIAS* for_bias,
            A* gain_sums, A* bias_sums, i64 parts, i64 columns) {
    __shared__ A box[2][THREADS / 16][16];
    i64 c = (i64)blockIdx.x * 16 + threadIdx.x;
    A first = 0, second = 0;
    if (c < columns) {
        #pragma unroll 8
        for (i64 p = threadIdx.y; p < parts; p += THREADS / 16) {
            first += gain_parts[p * columns + c];
            second += bias_parts[p * columns + c];
        }
    }
    box[0][threadIdx.y][threadIdx.x] = first;
    box[1][threadIdx.y][threadIdx.x] = second;
    __syncthreads();
    if (threadIdx.y < 2 && c < columns) {
        A sum = 0;
        #pragma unroll
        for (int k = 0; k < THREADS / 16; ++k) sum += box[threadIdx.y][k][threadIdx.x];
        A* unrounded = threadIdx.y == 0 ? gain_sums : bias_sums;
        if (unrounded) unrounded[c] = sum;
        if (threadIdx.y == 0) narrow(for_gain[c], sum);
        else narrow(for_bias[c], sum);
    }
}
"""

# A block subtracts its first row, so that a large mean costs no digits. If that row is far from the
# mean, it also makes the variance of the n rows large: the square of its distance is at most n
# times the variance, which bounds the cancellation at the end.
COLUMN_MOMENTS = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 4)
column_moments(
    const T* x, A* mean_parts, A* spread_parts, i64 rows, i64 columns, i64 size) {
    constexpr int COUNT = 4;
    i64 c = first_column(), top = blockIdx.y * size, end = end_row(rows, size);
    i64 row = top + threadIdx.y;
    A base[N], sums[N], squares[N], count = A(end - top);
    LOOP(e) base[e] = sums[e] = squares[e] = 0;
    if (c < columns) load<N>(base, x + top * columns + c);
    else end = 0;
    for (; row < end; row += COUNT * blockDim.y) {
        Batch<COUNT> xs;
        xs.fetch(x + c, row, end, columns);
        BATCHED(k, r, row, end, COUNT) LOOP(e) {
            A rest = widen(xs.packs[k].v[e]) - base[e];
            sums[e] += rest;
            squares[e] += rest * rest;
        }
    }
    join_rows(sums, squares, [&](i64 column, A sum, A square) {
        if (column >= columns) return;
        A mean = sum / count, spread = square - sum * mean;
        mean_parts[blockIdx.y * columns + column] = widen(x[top * columns + column]) + mean;
        spread_parts[blockIdx.y * columns + column] = spread < A(0) ? A(0) : spread;
    });
}
"""

# The first mean is subtracted from all means. All parts but the last have `size` rows.
FINISH_MOMENTS = r"""
extern "C" __global__ void __launch_bounds__(THREADS)
finish_moments(const A* mean_parts, const A* spread_parts, A* means, A* variances,
               i64 parts, i64 columns, i64 rows, i64 size, i64 center) {
    __shared__ A box[2][THREADS / 16][16];
    i64 c = (i64)blockIdx.x * 16 + threadIdx.x;
    A base = 0, sum = 0, square = 0;
    if (c < columns) {
        base = mean_parts[c];
        #pragma unroll 8
        for (i64 p = threadIdx.y; p < parts; p += THREADS / 16) {
            A count = A(p + 1 < parts ? size : rows - p * size);
            A gap = mean_parts[p * columns + c] - base, part = gap * count;
            sum += part;
            square += spread_parts[p * columns + c] + part * gap;
        }
    }
    box[0][threadIdx.y][threadIdx.x] = sum;
    box[1][threadIdx.y][threadIdx.x] = square;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        sum = square = 0;
        #pragma unroll
        for (int k = 0; k < THREADS / 16; ++k) {
            sum += box[0][k][threadIdx.x];
            square += box[1][k][threadIdx.x];
        }
        A rest = sum / A(rows), mean = base + rest, variance = (square - sum * rest) / A(rows);
        variance = variance < A(0) ? A(0) : variance;
        means[c] = center ? mean : A(0);
        variances[c] = center ? variance : variance + mean * mean;
    }
}
"""

COLUMN_NORMALIZE = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 4)
column_normalize(
    const T* x, const GAIN* gain, const GAIN* bias, const A* means, const A* variances, T* y,
    i64 rows, i64 columns, i64 size, double epsilon) {
    constexpr int COUNT = 4;
    i64 c = first_column(), end = end_row(rows, size), row = blockIdx.y * size + threadIdx.y;
    if (c >= columns) return;
    Batch<COUNT> xs;
    xs.fetch(x + c, row, end, columns);
    A mean[N], factor[N], shift[N], given[N];
    load<N>(mean, means + c);
    load<N>(factor, variances + c);
    LOOP(e) given[e] = A(1), shift[e] = A(0);
    if (gain) load<N>(given, gain + c);
    if (bias) load<N>(shift, bias + c);
    LOOP(e) factor[e] = scale_of(factor[e], epsilon) * given[e];
    while (row < end) {
        BATCHED(k, r, row, end, COUNT) {
            A a[N];
            LOOP(e) {
                a[e] = (widen(xs.packs[k].v[e]) - mean[e]) * factor[e] + shift[e];
                if (RELU && a[e] < A(0)) a[e] = 0;
            }
            store<N>(y + r * columns + c, a);
        }
        row += COUNT * blockDim.y;
        xs.fetch(x + c, row, end, columns);
    }
}
"""

# g = (t - unit * product - sum) * factor, with the common factors of a column precomputed.
COLUMN_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 4)
column_gradient(
    const T* t, const T* x, const T* y, const GAIN* gain, const A* means, const A* variances,
    const A* products, const A* sums, T* g, i64 rows, i64 columns, i64 size, double epsilon,
    i64 center) {
    constexpr int COUNT = RELU ? 1 : 2;  // limited by registers
    i64 c = first_column(), end = end_row(rows, size), row = blockIdx.y * size + threadIdx.y;
    if (c >= columns) return;
    Batch<COUNT> ts, xs;
    xs.fetch(x + c, row, end, columns);
    fetch_pulled(ts, t + c, y + c, row, end, columns);
    A mean[N], factor[N], slope[N], shift[N], given[N], share = A(1) / A(rows);
    load<N>(mean, means + c);
    load<N>(factor, variances + c);
    load<N>(slope, products + c);
    load<N>(shift, sums + c);
    LOOP(e) given[e] = A(1);
    if (gain) load<N>(given, gain + c);
    LOOP(e) {
        A scale = scale_of(factor[e], epsilon);
        factor[e] = scale * given[e];
        slope[e] = -slope[e] * share * scale * factor[e];
        shift[e] = center ? -shift[e] * share * factor[e] : A(0);
    }
    while (row < end) {
        BATCHED(k, r, row, end, COUNT) {
            A a[N];
            LOOP(e) {
                A rest = widen(xs.packs[k].v[e]) - mean[e];
                a[e] = widen(ts.packs[k].v[e]) * factor[e] + (rest * slope[e] + shift[e]);
            }
            store<N>(g + r * columns + c, a);
        }
        row += COUNT * blockDim.y;
        xs.fetch(x + c, row, end, columns);
        fetch_pulled(ts, t + c, y + c, row, end, columns);
    }
}
"""

SOURCES = {
    "column_products": PLACES + JOIN_ROWS + COLUMN_PRODUCTS,
    "finish_sums": FINISH_SUMS,
    "column_moments": PLACES + JOIN_ROWS + COLUMN_MOMENTS,
    "finish_moments": FINISH_MOMENTS,
    "column_normalize": PLACES + COLUMN_NORMALIZE,
    "column_gradient": PLACES + COLUMN_GRADIENT,
}
