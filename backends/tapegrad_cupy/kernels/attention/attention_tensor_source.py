"""CUDA source of attention on tensor cores, for float16 and bfloat16.

A block owns some rows, queries or keys, and processes the columns in tiles. Each warp keeps 16 or
32 rows of its results in registers, in the layout of the results of `mma.sync`. That is also the
layout of a left operand, so weights never leave the registers. Tiles are in shared memory with rows
that are padded by 16 bytes, so that `ldmatrix` has no bank conflicts.

Macros: T, KIND ("f16" or "bf16"), DP (the padded depth, a multiple of 16), WARPS, MT (the rows of a
warp divided by 16), BN (columns per tile), CAUSAL, VECTOR (whether rows can be read 16 bytes at a
time).
"""

from __future__ import annotations

from tapegrad_cupy.kernels.attention.attention_scalar_source import PLACES

TILES = r"""
#define DEVICE __device__ __forceinline__
#define THREADS (WARPS * 32)
#define BM (WARPS * 16 * MT)
#define LD (DP + 8)
#define NOTHING __int_as_float(0xff800000)
#define LOG2E 1.4426950408889634f

struct Steps { i64 of[STEPS][3]; };  // Elements from one example, head and row to the next.

DEVICE unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

DEVICE void load_matrices(unsigned (&r)[4], const T* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p)) : "memory");
}

DEVICE void load_turned(unsigned (&r)[4], const T* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p)) : "memory");
}

DEVICE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

DEVICE void copy_async(T* to, const T* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}

DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

DEVICE unsigned bits(__half2 x) { return *(unsigned*)&x; }
DEVICE unsigned bits(__nv_bfloat162 x) { return *(unsigned*)&x; }
DEVICE unsigned pair(__half, float a, float b) { return bits(__floats2half2_rn(a, b)); }
DEVICE unsigned pair(__nv_bfloat16, float a, float b) { return bits(__floats2bfloat162_rn(a, b)); }
DEVICE unsigned pack(float a, float b) { return pair(T(), a, b); }

// Start to copy ROWS rows, starting at `first`, into a tile; elements outside the array become 0.
template <int ROWS>
DEVICE void load_tile(T* tile, const T* array, i64 step, int first, int rows, int width) {
    constexpr int CHUNKS = DP / 8;
#pragma unroll 2  // More addresses at a time would take registers from the sums.
    for (int c = threadIdx.x; c < ROWS * CHUNKS; c += THREADS) {
        int row = c / CHUNKS, column = c % CHUNKS * 8;
        bool there = first + row < rows && column < width;
        const T* from = there ? array + (first + row) * step + column : array;
        T* to = tile + row * LD + column;
#if VECTOR
        copy_async(to, from, there);
#else
#pragma unroll
        for (int e = 0; e < 8; e++) {
            to[e] = there && column + e < width ? from[e] : narrow<T>(0.0f);
        }
#endif
    }
}

// Write the rows of a warp through its rows of a tile, so that accesses are 16 bytes long.
DEVICE void store_rows(
    float (&values)[MT][DP / 8][4], T* own, T* array, i64 step, int first, int rows, int width) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int j = 0; j < DP / 8; j++) {
            T* at = own + (i * 16 + lane / 4) * LD + j * 8 + lane % 4 * 2;
            *(unsigned*)at = pack(values[i][j][0], values[i][j][1]);
            *(unsigned*)(at + 8 * LD) = pack(values[i][j][2], values[i][j][3]);
        }
    }
    __syncwarp();
    constexpr int CHUNKS = DP / 8;
    for (int c = lane; c < 16 * MT * CHUNKS; c += 32) {
        int row = c / CHUNKS, column = c % CHUNKS * 8;
        if (first + row >= rows || column >= width) continue;
        const T* from = own + row * LD + column;
        T* to = array + (first + row) * step + column;
#if VECTOR
        *(uint4*)to = *(const uint4*)from;
#else
        for (int e = 0; e < 8 && column + e < width; e++) to[e] = from[e];
#endif
    }
}

// The operands of one multiplication, read from tiles.
DEVICE const T* left_place(const T* tile, int k) {
    int lane = threadIdx.x % 32;
    return tile + (lane & 15) * LD + k * 16 + (lane >> 4) * 8;
}

DEVICE const T* right_place(const T* tile, int k) {
    int lane = threadIdx.x % 32;
    return tile + ((lane & 7) + (lane >> 4) * 8) * LD + k * 16 + ((lane >> 3) & 1) * 8;
}

// Add the products of rows of `left` and rows of `right` along the depth.
template <int COLUMNS>
DEVICE void add_products(float (&sums)[MT][COLUMNS / 8][4], const T* left, const T* right) {
#pragma unroll
    for (int k = 0; k < DP / 16; k++) {
        unsigned a[MT][4], b[4];
#pragma unroll
        for (int i = 0; i < MT; i++) load_matrices(a[i], left_place(left + i * 16 * LD, k));
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) {
            load_matrices(b, right_place(right + j * 16 * LD, k));
#pragma unroll
            for (int i = 0; i < MT; i++) {
                multiply(sums[i][2 * j], a[i], b[0], b[1]);
                multiply(sums[i][2 * j + 1], a[i], b[2], b[3]);
            }
        }
    }
}

// Add the product of the weights and the rows of `right`.
template <int COLUMNS>
DEVICE void add_weighted(
    float (&sums)[MT][DP / 8][4], const float (&weights)[MT][COLUMNS / 8][4], const T* right) {
#pragma unroll
    for (int k = 0; k < COLUMNS / 16; k++) {
        unsigned a[MT][4], b[4];
#pragma unroll
        for (int i = 0; i < MT; i++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float* two = &weights[i][2 * k + e / 2][e % 2 * 2];
                a[i][e] = pack(two[0], two[1]);
            }
        }
#pragma unroll
        for (int j = 0; j < DP / 16; j++) {
            load_turned(b, left_place(right + k * 16 * LD, j));
#pragma unroll
            for (int i = 0; i < MT; i++) {
                multiply(sums[i][2 * j], a[i], b[0], b[1]);
                multiply(sums[i][2 * j + 1], a[i], b[2], b[3]);
            }
        }
    }
}
"""

FORWARD = r"""
// Replace scores by exponentials; if the largest score grows, rescale the previous sums.
DEVICE void weigh(
    float (&scores)[MT][BN / 8][4], float (&out)[MT][DP / 8][4],
    float (&top)[MT][2], float (&total)[MT][2], float scale) {
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float most = top[i][r];
#pragma unroll
            for (int j = 0; j < BN / 8; j++) {
                most = fmaxf(most, fmaxf(scores[i][j][2 * r], scores[i][j][2 * r + 1]));
            }
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
            float base = most == NOTHING ? 0.0f : most * scale;
            float factor = exp2f(top[i][r] * scale - base), sum = 0;
            top[i][r] = most;
#pragma unroll
            for (int j = 0; j < BN / 8; j++) {
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    scores[i][j][e] = exp2f(fmaf(scores[i][j][e], scale, -base));
                    sum += scores[i][j][e];
                }
            }
            total[i][r] = total[i][r] * factor + sum;
#pragma unroll
            for (int j = 0; j < DP / 8; j++) {
                out[i][j][2 * r] *= factor;
                out[i][j][2 * r + 1] *= factor;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention(const T* q, const T* k, const T* v, T* y, float* log_total, Steps steps,
          int heads, int groups, int n, int m, int d, int width, float scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    T *queries = (T*)memory, *keys = queries + BM * LD, *values = keys + BN * LD;
    int tiles = (n + BM - 1) / BM;
    int first = (tiles - 1 - blockIdx.x % tiles) * BM;  // Later causal queries have more work.
    i64 head = blockIdx.x / tiles % heads, example = blockIdx.x / tiles / heads;
    q += example * steps.of[0][0] + head * steps.of[0][1];
    k += example * steps.of[1][0] + head / groups * steps.of[1][1];
    v += example * steps.of[2][0] + head / groups * steps.of[2][1];
    y += example * steps.of[3][0] + head * steps.of[3][1];
    log_total += (example * heads + head) * n;
    int seen = CAUSAL ? min(m, min(first + BM, n) + m - n) : m;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * 16 * MT;
    float out[MT][DP / 8][4] = {}, top[MT][2], total[MT][2] = {};
#pragma unroll
    for (int i = 0; i < MT; i++) top[i][0] = top[i][1] = NOTHING;

    load_tile<BM>(queries, q, steps.of[0][2], first, n, d);
    load_tile<BN>(keys, k, steps.of[1][2], 0, seen, d);
    for (int key = 0; key < seen; key += BN) {
        wait_for_copies();
        __syncthreads();
        load_tile<BN>(values, v, steps.of[2][2], key, seen, width);
        float scores[MT][BN / 8][4] = {};
        add_products<BN>(scores, queries + own * LD, keys);
        if (key + BN > seen || (CAUSAL && key + BN > first + own + m - n)) {
#pragma unroll
            for (int i = 0; i < MT; i++) {
#pragma unroll
                for (int c = 0; c < BN / 2; c++) {
                    int column = key + c / 4 * 8 + lane % 4 * 2 + c % 2;
                    int row = first + own + i * 16 + lane / 4 + c % 4 / 2 * 8;
                    bool hidden = column >= m || (CAUSAL && column > row + m - n);
                    if (hidden) scores[i][c / 4][c % 4] = NOTHING;
                }
            }
        }
        wait_for_copies();
        __syncthreads();
        if (key + BN < seen) load_tile<BN>(keys, k, steps.of[1][2], key + BN, seen, d);
        weigh(scores, out, top, total, scale * LOG2E);
        add_weighted<BN>(out, scores, values);
    }
    wait_for_copies();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = total[i][r];
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            int row = first + own + i * 16 + lane / 4 + r * 8;
            bool blind = sum == 0.0f;
            if (lane % 4 == 0 && row < n) {
                log_total[row] = blind ? 0.0f : logf(sum) + top[i][r] * scale;
            }
            float share = blind ? 0.0f : 1.0f / sum;
#pragma unroll
            for (int j = 0; j < DP / 8; j++) {
                out[i][j][2 * r] *= share;
                out[i][j][2 * r + 1] *= share;
            }
        }
    }
    store_rows(out, queries + own * LD, y, steps.of[3][2], first + own, n, width);
}
"""

# As in attention_scalar_source.py. CN columns are processed at a time.
BACKWARD = (
    r"""
extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_gradient(
    const T* q, const T* k, const T* v, const T* t, const float* log_total, const float* product,
    T* for_first, T* for_second, Steps steps,
    int heads, int groups, int n, int m, int d, int width, float scale) {
    extern __shared__ __align__(16) unsigned char memory[];
    T *rows_1 = (T*)memory, *rows_2 = rows_1 + BM * LD, *tiles_of = rows_2 + BM * LD;
    float* numbers = (float*)(tiles_of + STAGES * 2 * BN * LD);
"""
    + PLACES
    + r"""    int count = max(end - start + BN - 1, 0) / BN;
    int lane = threadIdx.x % 32, own = threadIdx.x / 32 * 16 * MT;

    auto fetch = [&](int step) {
        int member = step / count, column = start + step % count * BN;
        T* tile = tiles_of + step % STAGES * 2 * BN * LD;
        const T *one = KEYS ? q + member * steps.of[0][1] : k;
        const T *other = KEYS ? t + member * steps.of[3][1] : v;
        load_tile<BN>(tile, one, steps.of[KEYS ? 0 : 1][2], column, end, d);
        load_tile<BN>(tile + BN * LD, other, steps.of[KEYS ? 3 : 2][2], column, end, width);
        if (KEYS) {
            float* to = numbers + step % STAGES * 2 * BN;
            for (int c = threadIdx.x; c < BN; c += THREADS) {
                i64 at = (i64)member * n + column + c;
                to[c] = column + c < n ? log_total[at] * LOG2E : 0.0f;
                to[BN + c] = column + c < n ? product[at] : 0.0f;
            }
        }
    };

    float sums_1[MT][DP / 8][4] = {}, sums_2[MT][DP / 8][4] = {};
    float log_row[MT][2], row_product[MT][2];
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = first + own + i * 16 + lane / 4 + r * 8;
            log_row[i][r] = !KEYS && row < n ? log_total[row] * LOG2E : 0.0f;
            row_product[i][r] = !KEYS && row < n ? product[row] : 0.0f;
        }
    }
    load_tile<BM>(rows_1, KEYS ? k : q, steps.of[KEYS ? 1 : 0][2], first, rows, d);
    load_tile<BM>(rows_2, KEYS ? v : t, steps.of[KEYS ? 2 : 3][2], first, rows, width);
    if (count) fetch(0);
    for (int step = 0; step < count * members; step++) {
        wait_for_copies();
        __syncthreads();
        if (STAGES == 2 && step + 1 < count * members) fetch(step + 1);
        const T* tile = tiles_of + step % STAGES * 2 * BN * LD;
        const float* stored = numbers + step % STAGES * 2 * BN;
        int column = start + step % count * BN;
        bool partly = KEYS ? CAUSAL && first + own + 16 * MT - 1 > column + shift
                           : column + BN > end || (CAUSAL && column + BN > first + own + shift);
#pragma unroll 1
        for (int part = 0; part < BN; part += CN) {
            float weights[MT][CN / 8][4] = {};
            add_products<CN>(weights, rows_1 + own * LD, tile + part * LD);
#pragma unroll
            for (int i = 0; i < MT; i++) {
#pragma unroll
                for (int c = 0; c < CN / 2; c++) {
                    int place = part + c / 4 * 8 + lane % 4 * 2 + c % 2, r = c % 4 / 2;
                    float base = KEYS ? stored[place] : log_row[i][r];
                    float& weight = weights[i][c / 4][c % 4];
                    weight = exp2f(fmaf(weight, scale * LOG2E, -base));
                    if (partly) {
                        int row = first + own + i * 16 + lane / 4 + r * 8;
                        int query = KEYS ? column + place : row, key = KEYS ? row : column + place;
                        if (key >= m || (CAUSAL && key > query + shift)) weight = 0.0f;
                    }
                }
            }
            if (SECOND) add_weighted<CN>(sums_2, weights, tile + (BN + part) * LD);
            if (!FIRST) continue;
            float scores[MT][CN / 8][4] = {};
            add_products<CN>(scores, rows_2 + own * LD, tile + (BN + part) * LD);
#pragma unroll
            for (int i = 0; i < MT; i++) {
#pragma unroll
                for (int c = 0; c < CN / 2; c++) {
                    int place = part + c / 4 * 8 + lane % 4 * 2 + c % 2;
                    float less = KEYS ? stored[BN + place] : row_product[i][c % 4 / 2];
                    float& score = scores[i][c / 4][c % 4];
                    score = weights[i][c / 4][c % 4] * (score - less);
                }
            }
            add_weighted<CN>(sums_1, scores, tile + part * LD);
        }
        if (STAGES == 1) {
            __syncthreads();
            if (step + 1 < count * members) fetch(step + 1);
        }
    }
    wait_for_copies();
    __syncthreads();
    if (FIRST) {
#pragma unroll
        for (int i = 0; i < MT; i++) {
#pragma unroll
            for (int c = 0; c < DP / 2; c++) sums_1[i][c / 4][c % 4] *= scale;
        }
        store_rows(sums_1, rows_1 + own * LD, for_first, steps.of[4][2], first + own, rows, d);
    }
    if (SECOND) {
        store_rows(sums_2, rows_2 + own * LD, for_second, steps.of[5][2], first + own, rows, width);
    }
}
"""
)
