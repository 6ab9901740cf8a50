"""CUDA source of the product of small float32 matrices, which is limited by memory latency.

Each thread reads its operands directly into registers before it multiplies, so there is no barrier
between the first read and the first multiplication.
"""

from __future__ import annotations

# Macros: BM x BN is the tile of a block, TM x TN that of a thread, and READ_A and READ_B are the
# access patterns of the operands (see `fetch`). The threads that share a slice of the depth, which
# is four steps, are neighbours in a warp. A warp processes SLICES slices at a time, different ones
# from the other warps. A block has LEAST to MOST warps, and a multiprocessor should hold TOGETHER
# blocks.
SOURCE = r"""
enum { DEPTHWISE, CROSSWISE, SINGLY };
enum { NOTHING, RELU, GELU };

const int ACROSS = BN / TN, LANES = BM / TM * ACROSS, SLICES = 32 / LANES;
const int HELD = TM * TN / SLICES;            // sums per lane after the reduction of its warp
const int U = HELD < 4 ? HELD : 4;            // neighbours in a row of the result
const int UNITS = BM * BN / U;
const int OWNED = (UNITS + 32 * LEAST - 1) / (32 * LEAST);
typedef Vec<float, U> Unit;

// Whether the next operands are read during the multiplication. Single elements need too many
// registers for their addresses to do that, unless tiles are small.
const bool AHEAD = BM == 8 || READ_A != SINGLY || READ_B != SINGLY;

// Subnormal numbers are kept, even if the compiler flushes them to zero.
__device__ __forceinline__ float plus(float x, float y) { return __fmaf_ieee_rn(x, 1.0f, y); }

// Read four steps of the depth from k of COUNT rows (or columns) of an operand from row
// `first`. Beyond the depth the values are 0. Beyond the last row they are not used: the last row
// is read again. `outer` is the stride between rows, `along` that along the depth.
template <int MODE, int COUNT>
__device__ __forceinline__ void fetch(
    float (&x)[4][COUNT], const float* __restrict__ at, int first, int count, int k, int depth,
    int outer, int along
) {
    if constexpr (MODE == DEPTHWISE) {
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int place = min(first + i, count - 1) * outer + k;
            float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k < depth) v = __ldg((const float4*)(at + place));
            x[0][i] = v.x; x[1][i] = v.y; x[2][i] = v.z; x[3][i] = v.w;
        }
    } else if constexpr (MODE == CROSSWISE) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            #pragma unroll
            for (int i = 0; i < COUNT; i += 4) {
                int place = (k + j) * along + min(first + i, count - 4);
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (k + j < depth) v = __ldg((const float4*)(at + place));
                x[j][i] = v.x; x[j][i + 1] = v.y; x[j][i + 2] = v.z; x[j][i + 3] = v.w;
            }
        }
    } else {
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            int place = min(first + i, count - 1) * outer + k * along;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                x[j][i] = 0.0f;
                if (k + j < depth) x[j][i] = __ldg(at + place + j * along);
            }
        }
    }
}

__device__ __forceinline__ void multiply(
    float (&sums)[TM * TN], const float (&x)[4][TM], const float (&y)[4][TN]
) {
    #pragma unroll
    for (int j = 0; j < 4; ++j)
        #pragma unroll
        for (int i = 0; i < TM; ++i)
            #pragma unroll
            for (int n = 0; n < TN; ++n)
                sums[i * TN + n] = __fmaf_ieee_rn(x[j][i], y[j][n], sums[i * TN + n]);
}

// Add the slices of a warp. In each round two lanes exchange halves of their sums; each adds
// one half.
template <int HALF, int MASK>
__device__ __forceinline__ void fold(float (&sums)[TM * TN], int lane) {
    if constexpr (MASK < 32) {
        const bool upper = lane & MASK;
        #pragma unroll
        for (int e = 0; e < HALF; ++e) {
            float handed = upper ? sums[e] : sums[e + HALF];
            float kept = upper ? sums[e + HALF] : sums[e];
            sums[e] = plus(kept, __shfl_xor_sync(0xffffffffu, handed, MASK));
        }
        fold<HALF / 2, MASK * 2>(sums, lane);
    }
}

struct Place { int row, column; };

// The position of a unit in the tile of the block: unit `q * 32 + lane` is number q of that lane.
__device__ __forceinline__ Place place_of(int unit) {
    const int lane = unit & 31;
    int e = unit / 32 * U;
    #pragma unroll
    for (int mask = LANES, half = TM * TN / 2; mask < 32; mask *= 2, half /= 2)
        if (lane & mask) e += half;
    return {lane / ACROSS % (BM / TM) * TM + e / TN, lane % ACROSS * TN + e % TN};
}

__device__ __forceinline__ Unit read_unit(const float* at, int count, bool whole) {
    Unit unit;
    if (whole) return *(const Unit*)at;
    #pragma unroll
    for (int i = 0; i < U; ++i) unit.v[i] = i < count ? at[i] : 0.0f;
    return unit;
}

__device__ __forceinline__ float activate(float x, int activation) {
    if (activation == RELU) return x < 0.0f ? 0.0f : x;
    if (activation == GELU)  // x sigmoid(2 u) = x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + c x^3)
        return x / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    return x;
}

// d = act(a b + bias + c); bias and c may be null, and c may be d. Rows of c and d are contiguous.
// `whole` tells whether units of c, d and bias are aligned, so that each is one access.
extern "C" __global__ void __launch_bounds__(32 * MOST, TOGETHER) small_product(
    const float* __restrict__ a, const float* __restrict__ b, float* d, const float* c,
    const float* bias, int rows, int columns, int depth, int a_outer, int a_along, int b_outer,
    int b_along, int whole, int activation
) {
    __shared__ Unit parts[MOST * UNITS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;
    const int row = top + lane / ACROSS % (BM / TM) * TM, column = left + lane % ACROSS * TN;
    const int stride = 4 * SLICES * warps;
    int begin = 4 * SLICES * warp, k = begin + lane / LANES * 4;

    float x[2][4][TM], y[2][4][TN], sums[TM * TN];
    fetch<READ_A>(x[0], a, row, rows, k, depth, a_outer, a_along);
    fetch<READ_B>(y[0], b, column, columns, k, depth, b_outer, b_along);

    Unit old[OWNED], shift[OWNED];
    #pragma unroll
    for (int o = 0; o < OWNED; ++o) {
        const int unit = threadIdx.x + o * blockDim.x;
        const Place place = place_of(unit);
        const int m = top + place.row, n = left + place.column;
        #pragma unroll
        for (int i = 0; i < U; ++i) old[o].v[i] = shift[o].v[i] = 0.0f;
        if (unit >= UNITS || m >= rows || n >= columns) continue;
        if (bias) shift[o] = read_unit(bias + n, columns - n, whole);
        if (c) old[o] = read_unit(c + m * columns + n, columns - n, whole);
    }

    #pragma unroll
    for (int e = 0; e < TM * TN; ++e) sums[e] = 0.0f;
    while (!AHEAD) {
        multiply(sums, x[0], y[0]);
        begin += stride;
        k += stride;
        if (begin >= depth) break;
        fetch<READ_A>(x[0], a, row, rows, k, depth, a_outer, a_along);
        fetch<READ_B>(y[0], b, column, columns, k, depth, b_outer, b_along);
    }
    while (AHEAD) {
        begin += stride;
        k += stride;
        if (begin < depth) {
            fetch<READ_A>(x[1], a, row, rows, k, depth, a_outer, a_along);
            fetch<READ_B>(y[1], b, column, columns, k, depth, b_outer, b_along);
        }
        multiply(sums, x[0], y[0]);
        if (begin >= depth) break;
        begin += stride;
        k += stride;
        if (begin < depth) {
            fetch<READ_A>(x[0], a, row, rows, k, depth, a_outer, a_along);
            fetch<READ_B>(y[0], b, column, columns, k, depth, b_outer, b_along);
        }
        multiply(sums, x[1], y[1]);
        if (begin >= depth) break;
    }

    fold<TM * TN / 2, LANES>(sums, lane);
    #pragma unroll
    for (int q = 0; q < HELD / U; ++q) {
        Unit unit;
        #pragma unroll
        for (int i = 0; i < U; ++i) unit.v[i] = sums[q * U + i];
        parts[warp * UNITS + q * 32 + lane] = unit;
    }
    __syncthreads();

    #pragma unroll
    for (int o = 0; o < OWNED; ++o) {
        const int unit = threadIdx.x + o * blockDim.x;
        const Place place = place_of(unit);
        const int m = top + place.row, n = left + place.column;
        if (unit >= UNITS || m >= rows || n >= columns) continue;
        Unit total = parts[unit];
        for (int w = 1; w < warps; ++w) {
            const Unit part = parts[w * UNITS + unit];
            #pragma unroll
            for (int i = 0; i < U; ++i) total.v[i] = plus(total.v[i], part.v[i]);
        }
        #pragma unroll
        for (int i = 0; i < U; ++i) {
            const float moved = plus(plus(total.v[i], shift[o].v[i]), old[o].v[i]);
            total.v[i] = activate(moved, activation);
        }
        float* at = d + m * columns + n;
        if (whole) {
            *(Unit*)at = total;
        } else {
            #pragma unroll
            for (int i = 0; i < U; ++i)
                if (n + i < columns) at[i] = total.v[i];
        }
    }
}
"""
