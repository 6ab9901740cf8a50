"""CUDA sources for stacks of small matrices, and for the arrays around calls of libraries.

Macros: T is the type of elements and R that of their real parts; IS_COMPLEX. N is the largest
order: a matrix of a lower order is extended by rows of the identity. A block is one warp, or part
of one, so that a barrier is cheap.
"""

from __future__ import annotations

_HELPERS = r"""
#define NOT_A_NUMBER ((R)__int_as_float(0x7fffffff))
#if IS_COMPLEX
__device__ __forceinline__ R real_of(T x) { return x.real(); }
__device__ __forceinline__ T conjugate(T x) { return T(x.real(), -x.imag()); }
__device__ __forceinline__ R size_of(T x) { return fabs(x.real()) + fabs(x.imag()); }
__device__ __forceinline__ R length_of(T x) { return hypot(x.real(), x.imag()); }
#else
__device__ __forceinline__ R real_of(T x) { return x; }
__device__ __forceinline__ T conjugate(T x) { return x; }
__device__ __forceinline__ R size_of(T x) { return fabs(x); }
__device__ __forceinline__ R length_of(T x) { return fabs(x); }
#endif
"""

CHOLESKY = (
    _HELPERS
    + r"""
// A thread has one row in registers, and 32 / N matrices share a block.
extern "C" __global__ void __launch_bounds__(32) small_cholesky(
    const T* __restrict__ x, T* __restrict__ y, i64 n, i64 count, i64 stack_step, i64 row_step,
    i64 column_step
) {
    __shared__ T columns[32 / N][N];
    const int i = threadIdx.x % N, own = threadIdx.x / N;
    const i64 matrix = (i64)blockIdx.x * (32 / N) + own;
    const bool is_there = matrix < count && i < n;
    T row[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
        row[j] = (T)(R)(i == j);
        if (is_there && j <= i) row[j] = x[matrix * stack_step + i * row_step + j * column_step];
    }
    bool failed = false;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        columns[own][i] = row[k];
        __syncthreads();
        const R pivot = real_of(columns[own][k]);
        failed = failed || !(pivot > 0);
        const R root = sqrt(pivot);
        const T scaled = row[k] / root;
        row[k] = i == k ? (T)root : scaled;
        const T factor = scaled / root;
#pragma unroll
        for (int j = k + 1; j < N; ++j) {
            if (j <= i) row[j] = row[j] - factor * conjugate(columns[own][j]);
        }
        __syncthreads();
    }
    if (!is_there) return;
    T* result = y + (matrix * n + i) * n;
#pragma unroll
    for (int j = 0; j < N; ++j) {
        if (j < n) result[j] = j > i ? (T)(R)0 : failed ? (T)NOT_A_NUMBER : row[j];
    }
}
"""
)

TRIANGULAR = (
    _HELPERS
    + r"""
// Solve lower triangular systems. The steps may be negative: reversed rows and columns make an
// upper triangle a lower one. MATRICES share a block, and COLUMNS threads solve for as many
// columns of one of them.
extern "C" __global__ void __launch_bounds__(MATRICES * COLUMNS) small_triangular(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ x, i64 n, i64 width,
    i64 count, i64 chunks, i64 conjugated, i64 a_stack, i64 a_row, i64 a_column, i64 b_stack,
    i64 b_row, i64 b_column, i64 x_stack, i64 x_row, i64 x_column
) {
    __shared__ T factors[MATRICES][N][N + 1];
    const i64 first = (i64)blockIdx.x / chunks * MATRICES;
    for (int e = threadIdx.x; e < MATRICES * N * N; e += MATRICES * COLUMNS) {
        const int own = e / (N * N), i = e / N % N, j = e % N;
        T value = (T)(R)(i == j);
        if (i < n && j <= i && first + own < count) {
            value = a[(first + own) * a_stack + i * a_row + j * a_column];
            if (conjugated) value = conjugate(value);
        }
        factors[own][i][j] = value;
    }
    __syncthreads();
    const int own = threadIdx.x / COLUMNS;
    const i64 matrix = first + own;
    const i64 column = (i64)blockIdx.x % chunks * COLUMNS + threadIdx.x % COLUMNS;
    if (matrix >= count || column >= width) return;
    T v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        v[i] = i < n ? b[matrix * b_stack + i * b_row + column * b_column] : (T)(R)0;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
        T sum = v[i];
#pragma unroll
        for (int j = 0; j < i; ++j) sum = sum - factors[own][i][j] * v[j];
        v[i] = sum / factors[own][i][i];
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i < n) x[matrix * x_stack + i * x_row + column * x_column] = v[i];
    }
}
"""
)

ELIMINATION = (
    _HELPERS
    + r"""
// Gaussian elimination with partial pivoting; a thread has every 32nd column of [A, B]. Several
// blocks share the columns of B if there are more than WIDTH, and each eliminates A. Without
// right-hand sides (b is null) B is the identity if `x` is given. The sign and the logarithm of
// the determinant, or the determinant itself, are written where addresses are given.
extern "C" __global__ void __launch_bounds__(32) small_elimination(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ x, T* __restrict__ signs,
    R* __restrict__ logarithms, T* __restrict__ determinants, i64 n, i64 width, i64 chunks,
    i64 conjugated, i64 a_stack, i64 a_row, i64 a_column, i64 b_stack, i64 b_row, i64 b_column
) {
    __shared__ T work[N][N + WIDTH + 1];
    const i64 matrix = (i64)blockIdx.x / chunks, first = (i64)blockIdx.x % chunks * WIDTH;
    const i64 own = width - first < WIDTH ? width - first : WIDTH;
    const int order = (int)n, total = (int)(n + own), lane = threadIdx.x;
    for (int e = lane; e < order * total; e += 32) {
        const int i = e / total, j = e % total;
        T value;
        if (j < order) {
            value = a[matrix * a_stack + i * a_row + j * a_column];
            if (conjugated) value = conjugate(value);
        } else if (b) {
            value = b[matrix * b_stack + i * b_row + (first + j - order) * b_column];
        } else {
            value = (T)(R)(i == first + j - order);
        }
        work[i][j] = value;
    }
    bool is_odd = false;
    for (int p = 0; p < order; ++p) {
        __syncthreads();
        int pivot = p;
        R largest = size_of(work[p][p]);
        for (int i = p + 1; i < order; ++i) {
            const R size = size_of(work[i][p]);
            if (size > largest) {
                largest = size;
                pivot = i;
            }
        }
        is_odd = is_odd != (pivot != p);
        __syncthreads();
        for (int j = p + lane; pivot != p && j < total; j += 32) {
            const T upper = work[p][j];
            work[p][j] = work[pivot][j];
            work[pivot][j] = upper;
        }
        __syncthreads();
        for (int i = p + 1 + lane; i < order; i += 32) work[i][p] = work[i][p] / work[p][p];
        __syncthreads();
        for (int j = p + 1 + lane; j < total; j += 32) {
            const T upper = work[p][j];
            for (int i = p + 1; i < order; ++i) work[i][j] = work[i][j] - work[i][p] * upper;
        }
    }
    __syncthreads();
    for (int j = order + lane; x && j < total; j += 32) {
        for (int i = order - 1; i >= 0; --i) {
            T sum = work[i][j];
            for (int k = i + 1; k < order; ++k) sum = sum - work[i][k] * work[k][j];
            sum = sum / work[i][i];
            work[i][j] = sum;
            x[(matrix * n + i) * width + first + j - order] = sum;
        }
    }
    if (lane || x) return;
    T sign = (T)(R)(is_odd ? -1 : 1), product = sign;
    R logarithm = 0;
    for (int i = 0; i < order; ++i) {
        const T pivot = work[i][i];
        const R length = length_of(pivot);
        product = product * pivot;
        sign = length == 0 ? (T)(R)0 : sign * (pivot / length);
        logarithm += log(length);
    }
    if (signs) signs[matrix] = sign;
    if (logarithms) logarithms[matrix] = logarithm;
    if (determinants) determinants[matrix] = product;
}
"""
)

DETERMINANTS = (
    _HELPERS
    + r"""
// Determinants from LU factors and their pivots, which count from 1: one warp per matrix.
extern "C" __global__ void __launch_bounds__(32) lu_determinants(
    const T* __restrict__ factors, const int* __restrict__ pivots, T* __restrict__ signs,
    R* __restrict__ logarithms, T* __restrict__ determinants, i64 n
) {
    __shared__ T all_signs[32], products[32];
    __shared__ R sums[32];
    const i64 matrix = blockIdx.x;
    T sign = (T)(R)1, product = (T)(R)1;
    R sum = 0;
    for (i64 i = threadIdx.x; i < n; i += 32) {
        T pivot = factors[(matrix * n + i) * n + i];
        const R length = length_of(pivot);
        if (pivots[matrix * n + i] != i + 1) {
            sign = (T)(R)0 - sign;
            product = (T)(R)0 - product;
        }
        product = product * pivot;
        sign = length == 0 ? (T)(R)0 : sign * (pivot / length);
        sum += log(length);
    }
    all_signs[threadIdx.x] = sign;
    products[threadIdx.x] = product;
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int k = 1; k < 32; ++k) {
        sign = sign * all_signs[k];
        product = product * products[k];
        sum += sums[k];
    }
    if (signs) signs[matrix] = sign;
    if (logarithms) logarithms[matrix] = sum;
    if (determinants) determinants[matrix] = product;
}
"""
)

ADJUGATE = (
    _HELPERS
    + r"""
#if IS_COMPLEX
typedef T Wide;
#else
typedef double Wide;
#endif
// A thread computes one cofactor of a matrix of order N, which is at most 4.
extern "C" __global__ void __launch_bounds__(256) small_adjugate(
    const T* __restrict__ x, T* __restrict__ y, i64 elements, i64 stack_step, i64 row_step,
    i64 column_step
) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= elements) return;
    const i64 matrix = at / (N * N);
    const int row = (int)(at / N % N), column = (int)(at % N);
    Wide m[4][4];
#pragma unroll
    for (int i = 0; i < N - 1; ++i) {
#pragma unroll
        for (int j = 0; j < N - 1; ++j) {
            const int from_row = i + (i >= column), from_column = j + (j >= row);
            const i64 from = from_row * row_step + from_column * column_step;
            m[i][j] = (Wide)x[matrix * stack_step + from];
        }
    }
    Wide minor = (Wide)(R)1;
    if (N == 2) minor = m[0][0];
    if (N == 3) minor = m[0][0] * m[1][1] - m[0][1] * m[1][0];
    if (N == 4) {
        minor = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
    }
    y[at] = (T)((row + column) % 2 ? -minor : minor);
}
"""
)

AROUND = (
    _HELPERS
    + r"""
// The lower triangles of matrices by columns, with zeros above, in tiles of 32 x 32.
extern "C" __global__ void __launch_bounds__(256) lower_triangles(
    const T* __restrict__ x, T* __restrict__ y, i64 n, i64 tiles, i64 stack_step, i64 row_step,
    i64 column_step
) {
    __shared__ T tile[32][33];
    const i64 matrix = (i64)blockIdx.x / (tiles * tiles);
    const i64 first_row = (i64)blockIdx.x / tiles % tiles * 32;
    const i64 first_column = (i64)blockIdx.x % tiles * 32;
    const int across = threadIdx.x % 32, along = threadIdx.x / 32;
    for (int k = along; k < 32; k += 8) {
        const i64 i = first_row + k, j = first_column + across;
        T value = (T)(R)0;
        if (i < n && j <= i) value = x[matrix * stack_step + i * row_step + j * column_step];
        tile[k][across] = value;
    }
    __syncthreads();
    for (int k = along; k < 32; k += 8) {
        const i64 i = first_row + across, j = first_column + k;
        if (i < n && j < n) y[(matrix * n + j) * n + i] = tile[across][k];
    }
}

// NaN in the lower triangles, by columns, of matrices that are not positive definite.
extern "C" __global__ void __launch_bounds__(256) spoil_failed(
    T* __restrict__ y, const int* __restrict__ info, i64 n, i64 blocks_each
) {
    const i64 matrix = (i64)blockIdx.x / blocks_each;
    if (!info[matrix]) return;
    const i64 part = (i64)blockIdx.x % blocks_each;
    for (i64 at = part * 256 + threadIdx.x; at < n * n; at += blocks_each * 256) {
        if (at % n >= at / n) y[matrix * n * n + at] = (T)NOT_A_NUMBER;
    }
}

extern "C" __global__ void __launch_bounds__(256) identities(
    T* __restrict__ y, i64 n, i64 elements
) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at < elements) y[at] = (T)(R)(at % n == at / n % n);
}

// The addresses of the matrices of two stacks.
extern "C" __global__ void __launch_bounds__(256) addresses(
    const T* a, const T* b, const T** __restrict__ all, i64 count, i64 a_step, i64 b_step
) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x;
    if (at >= count) return;
    all[at] = a + at * a_step;
    all[count + at] = b + at * b_step;
}
"""
)
