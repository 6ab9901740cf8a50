"""CUDA source of attention without tensor cores, for float32 and float64.

A block of 16 x 16 threads owns 16 RI rows, queries or keys, and processes the columns 16 RJ at a
time. A thread computes RI x RJ scores, and RI rows of DP / 16 features of the result. Rows of tiles
are padded by 16 bytes, so that accesses of 16 bytes have no bank conflicts.

Macros: T, DP (the padded depth, a multiple of 16), RI, RJ, CAUSAL, VECTOR (whether rows can be read
16 bytes at a time).
"""

from __future__ import annotations

TILES = r"""
#define DEVICE __device__ __forceinline__
#define THREADS 256
#define BM (16 * RI)
#define BN (16 * RJ)
#define WIDE (16 / (int)sizeof(T))
#define LD (DP + WIDE)
#define LP (BN + WIDE)
#define OWN (DP / 16)
#define RUN (OWN < WIDE ? OWN : WIDE)
#define NOTHING ((T)__int_as_float(0xff800000))

typedef Vec<T, WIDE> Several;
struct Steps { i64 of[STEPS][3]; };  // Elements from one example, head and row to the next.

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE float logarithm(float x) { return logf(x); }
DEVICE double logarithm(double x) { return log(x); }
DEVICE T larger(T a, T b) { return a > b ? a : b; }

// Copy ROWS rows, starting at `first`, into a tile; elements outside the array become 0.
template <int ROWS>
DEVICE void load_tile(T* tile, const T* array, i64 step, int first, int rows, int width) {
    constexpr int CHUNKS = DP / WIDE;
    for (int c = threadIdx.x; c < ROWS * CHUNKS; c += THREADS) {
        int row = c / CHUNKS, column = c % CHUNKS * WIDE;
        bool there = first + row < rows && column < width;
        const T* from = there ? array + (first + row) * step + column : array;
        Several values;
#if VECTOR
        if (there) values = *(const Several*)from;
#pragma unroll
        for (int e = 0; e < WIDE; e++) values.v[e] = there ? values.v[e] : (T)0;
#else
#pragma unroll
        for (int e = 0; e < WIDE; e++) {
            values.v[e] = there && column + e < width ? from[e] : (T)0;
        }
#endif
        *(Several*)(tile + row * LD + column) = values;
    }
}

// Add the products of rows of `left` and rows of `right` along the depth.
DEVICE void add_products(T (&sums)[RI][RJ], const T* left, const T* right) {
    left += threadIdx.x / 16 * LD;
    right += threadIdx.x % 16 * LD;
#pragma unroll 4
    for (int k = 0; k < DP; k += WIDE) {
        Several a[RI], b[RJ];
#pragma unroll
        for (int i = 0; i < RI; i++) a[i] = *(const Several*)(left + i * 16 * LD + k);
#pragma unroll
        for (int j = 0; j < RJ; j++) b[j] = *(const Several*)(right + j * 16 * LD + k);
#pragma unroll
        for (int e = 0; e < WIDE; e++) {
#pragma unroll
            for (int i = 0; i < RI; i++) {
#pragma unroll
                for (int j = 0; j < RJ; j++) sums[i][j] += a[i].v[e] * b[j].v[e];
            }
        }
    }
}

// Add the product of the weights and the rows of `right`.
DEVICE void add_weighted(T (&sums)[RI][OWN], const T* weights, const T* right) {
    typedef Vec<T, RUN> Few;
    weights += threadIdx.x / 16 * LP;
    right += threadIdx.x % 16 * RUN;
#pragma unroll 2
    for (int k = 0; k < BN; k += WIDE) {
        Several a[RI];
#pragma unroll
        for (int i = 0; i < RI; i++) a[i] = *(const Several*)(weights + i * 16 * LP + k);
#pragma unroll
        for (int e = 0; e < WIDE; e++) {
#pragma unroll
            for (int j = 0; j < OWN / RUN; j++) {
                Few b = *(const Few*)(right + (k + e) * LD + j * 16 * RUN);
#pragma unroll
                for (int i = 0; i < RI; i++) {
#pragma unroll
                    for (int f = 0; f < RUN; f++) sums[i][j * RUN + f] += a[i].v[e] * b.v[f];
                }
            }
        }
    }
}

DEVICE void put_weights(T* tile, const T (&weights)[RI][RJ]) {
    tile += threadIdx.x / 16 * LP + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < RI; i++) {
#pragma unroll
        for (int j = 0; j < RJ; j++) tile[i * 16 * LP + j * 16] = weights[i][j];
    }
}

DEVICE void store_rows(
    const T (&sums)[RI][OWN], const T (&factors)[RI], T* array, i64 step, int first, int rows,
    int width) {
#pragma unroll
    for (int i = 0; i < RI; i++) {
        int row = first + threadIdx.x / 16 + 16 * i;
        if (row >= rows) continue;
#pragma unroll
        for (int c = 0; c < OWN; c++) {
            int column = (c / RUN * 16 + threadIdx.x % 16) * RUN + c % RUN;
            if (column < width) array[row * step + column] = sums[i][c] * factors[i];
        }
    }
}
"""

FORWARD = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention(const T* q, const T* k, const T* v, T* y, T* log_total, Steps steps,
          int heads, int groups, int n, int m, int d, int width, T scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    T *queries = (T*)memory, *tile = queries + BM * LD, *shares = tile + BN * LD;
    int tiles = (n + BM - 1) / BM;
    int first = (tiles - 1 - blockIdx.x % tiles) * BM;  // Later causal queries have more work.
    i64 head = blockIdx.x / tiles % heads, example = blockIdx.x / tiles / heads;
    q += example * steps.of[0][0] + head * steps.of[0][1];
    k += example * steps.of[1][0] + head / groups * steps.of[1][1];
    v += example * steps.of[2][0] + head / groups * steps.of[2][1];
    y += example * steps.of[3][0] + head * steps.of[3][1];
    log_total += (example * heads + head) * n;
    int seen = CAUSAL ? min(m, min(first + BM, n) + m - n) : m;
    T out[RI][OWN] = {}, top[RI], total[RI] = {};
#pragma unroll
    for (int i = 0; i < RI; i++) top[i] = NOTHING;

    load_tile<BM>(queries, q, steps.of[0][2], first, n, d);
    for (int key = 0; key < seen; key += BN) {
        __syncthreads();
        load_tile<BN>(tile, k, steps.of[1][2], key, seen, d);
        __syncthreads();
        T scores[RI][RJ] = {};
        add_products(scores, queries, tile);
#pragma unroll
        for (int i = 0; i < RI; i++) {
            int row = first + threadIdx.x / 16 + 16 * i;
            T most = top[i], sum = 0;
#pragma unroll
            for (int j = 0; j < RJ; j++) {
                int column = key + threadIdx.x % 16 + 16 * j;
                bool hidden = column >= m || (CAUSAL && column > row + m - n);
                scores[i][j] = hidden ? NOTHING : scores[i][j] * scale;
                most = larger(most, scores[i][j]);
            }
#pragma unroll
            for (int lane = 8; lane; lane /= 2) {
                most = larger(most, __shfl_xor_sync(0xffffffff, most, lane));
            }
            T base = most == NOTHING ? (T)0 : most, factor = exponential(top[i] - base);
            top[i] = most;
#pragma unroll
            for (int j = 0; j < RJ; j++) {
                scores[i][j] = exponential(scores[i][j] - base);
                sum += scores[i][j];
            }
            total[i] = total[i] * factor + sum;
#pragma unroll
            for (int c = 0; c < OWN; c++) out[i][c] *= factor;
        }
        put_weights(shares, scores);
        __syncthreads();
        load_tile<BN>(tile, v, steps.of[2][2], key, seen, width);
        __syncthreads();
        add_weighted(out, shares, tile);
    }
    T factors[RI];
#pragma unroll
    for (int i = 0; i < RI; i++) {
        T sum = total[i];
#pragma unroll
        for (int lane = 8; lane; lane /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lane);
        int row = first + threadIdx.x / 16 + 16 * i;
        bool blind = sum == 0;
        if (threadIdx.x % 16 == 0 && row < n) log_total[row] = blind ? 0 : logarithm(sum) + top[i];
        factors[i] = blind ? 0 : 1 / sum;
    }
    store_rows(out, factors, y, steps.of[3][2], first, n, width);
}
"""

# With KEYS the rows are keys and the columns queries, otherwise the reverse. Each kind has two
# arrays: keys and values, queries and cotangents. The kernel computes FIRST, the gradient of the
# queries or keys, and SECOND, that of the values.
PLACES = r"""    int rows = KEYS ? m : n, columns = KEYS ? n : m, shift = m - n;
    int owners = KEYS ? heads / groups : heads, members = KEYS ? groups : 1;
    int tiles = (rows + BM - 1) / BM, tile = blockIdx.x % tiles;
    int first = (KEYS ? tile : tiles - 1 - tile) * BM;
    i64 head = blockIdx.x / tiles % owners, example = blockIdx.x / tiles / owners;
    i64 q_head = KEYS ? head * groups : head, k_head = KEYS ? head : head / groups;
    q += example * steps.of[0][0] + q_head * steps.of[0][1];
    k += example * steps.of[1][0] + k_head * steps.of[1][1];
    v += example * steps.of[2][0] + k_head * steps.of[2][1];
    t += example * steps.of[3][0] + q_head * steps.of[3][1];
    for_first += example * steps.of[4][0] + head * steps.of[4][1];
    for_second += example * steps.of[5][0] + head * steps.of[5][1];
    log_total += (example * heads + q_head) * n;
    product += (example * heads + q_head) * n;
    int start = KEYS && CAUSAL ? max(first - shift, 0) / BN * BN : 0;
    int end = !KEYS && CAUSAL ? min(m, min(first + BM, n) + shift) : columns;
"""
"""The rows and columns of a block of the backward pass, and their addresses."""

BACKWARD = (
    r"""
extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_gradient(
    const T* q, const T* k, const T* v, const T* t, const T* log_total, const T* product,
    T* for_first, T* for_second, Steps steps,
    int heads, int groups, int n, int m, int d, int width, T scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    T *rows_1 = (T*)memory, *rows_2 = rows_1 + BM * LD, *tile_1 = rows_2 + BM * LD;
    T *tile_2 = tile_1 + BN * LD, *shares = tile_2 + BN * LD;
"""
    + PLACES
    + r"""
    T sums_1[RI][OWN] = {}, sums_2[RI][OWN] = {};
    load_tile<BM>(rows_1, KEYS ? k : q, steps.of[KEYS ? 1 : 0][2], first, rows, d);
    load_tile<BM>(rows_2, KEYS ? v : t, steps.of[KEYS ? 2 : 3][2], first, rows, width);
    for (int member = 0; member < members; member++) {
        const T *one = KEYS ? q + member * steps.of[0][1] : k;
        const T *other = KEYS ? t + member * steps.of[3][1] : v;
        const T *logs = log_total + (i64)member * n, *products = product + (i64)member * n;
        for (int column = start; column < end; column += BN) {
            __syncthreads();
            load_tile<BN>(tile_1, one, steps.of[KEYS ? 0 : 1][2], column, end, d);
            load_tile<BN>(tile_2, other, steps.of[KEYS ? 3 : 2][2], column, end, width);
            __syncthreads();
            T weights[RI][RJ] = {}, scores[RI][RJ] = {};
            add_products(weights, rows_1, tile_1);
            if (FIRST) add_products(scores, rows_2, tile_2);
#pragma unroll
            for (int i = 0; i < RI; i++) {
#pragma unroll
                for (int j = 0; j < RJ; j++) {
                    int row = first + threadIdx.x / 16 + 16 * i;
                    int place = column + threadIdx.x % 16 + 16 * j;
                    int query = KEYS ? place : row, key = KEYS ? row : place;
                    bool seen = query < n && key < m && (!CAUSAL || key <= query + shift);
                    T weight = seen ? exponential(weights[i][j] * scale - logs[query]) : (T)0;
                    weights[i][j] = weight;
                    scores[i][j] = FIRST && seen ? weight * (scores[i][j] - products[query]) : (T)0;
                }
            }
            if (SECOND) {
                put_weights(shares, weights);
                __syncthreads();
                add_weighted(sums_2, shares, tile_2);
                __syncthreads();
            }
            if (FIRST) {
                put_weights(shares, scores);
                __syncthreads();
                add_weighted(sums_1, shares, tile_1);
            }
        }
    }
    T factors[RI];
    if (FIRST) {
#pragma unroll
        for (int i = 0; i < RI; i++) factors[i] = scale;
        store_rows(sums_1, factors, for_first, steps.of[4][2], first, rows, d);
    }
    if (SECOND) {
#pragma unroll
        for (int i = 0; i < RI; i++) factors[i] = 1;
        store_rows(sums_2, factors, for_second, steps.of[5][2], first, rows, width);
    }
}
"""
)

# The dot product of cotangent and result in every row, which the backward pass subtracts. One warp
# per row.
PRODUCTS = r"""
typedef Wider<T>::type A;
struct Steps { i64 of[2][3]; };

extern "C" __global__ void __launch_bounds__(WARPS * 32)
attention_products(const T* t, const T* y, A* product, Steps steps,
                   i64 rows, int heads, int n, int width) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;
    i64 example = row / n / heads, head = row / n % heads, place = row % n;
    t += example * steps.of[0][0] + head * steps.of[0][1] + place * steps.of[0][2];
    y += example * steps.of[1][0] + head * steps.of[1][1] + place * steps.of[1][2];
    A sum = 0;
    for (int c = threadIdx.x % 32; c < width; c += 32) sum += widen<T>(t[c]) * widen<T>(y[c]);
    for (int lane = 16; lane; lane /= 2) sum += __shfl_xor_sync(0xffffffff, sum, lane);
    if (threadIdx.x % 32 == 0) product[row] = sum;
}
"""
