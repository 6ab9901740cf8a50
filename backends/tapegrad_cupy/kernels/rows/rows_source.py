"""CUDA building blocks of the row kernels: number types, vector access, reductions and rows.

A row is visited in parts of neighbouring elements. `Held` rows are kept in registers. `Looped` rows
are read again at each visit, from shared memory if they fit. A kernel is written once for both, in
terms of `T` (the stored type), `A` (the type of computations) and `Row`, which row_launch.py
defines.
"""

from __future__ import annotations

# These types replace those of cuda_prelude.py: plain bits may be members of a union, and bfloat16
# is widened by a shift instead of the conversion instruction that the CUDA header uses on Hopper.
NUMBERS = r"""
typedef long long i64;
typedef unsigned short u16;
typedef unsigned int u32;
struct bf16 { u16 bits; };
struct f16 { u16 bits; };
template <class T> struct Wide { typedef float type; };
template <> struct Wide<double> { typedef double type; };

#define DEVICE __device__ __forceinline__

DEVICE double infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
DEVICE double not_a_number() { return __longlong_as_double(0x7ff8000000000000LL); }

DEVICE float widen(float x) { return x; }
DEVICE double widen(double x) { return x; }
DEVICE float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE float widen(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

DEVICE void narrow(float& y, float x) { y = x; }
DEVICE void narrow(double& y, double x) { y = x; }
DEVICE void narrow(f16& y, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
DEVICE void narrow(bf16& y, float x) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    u32 bits = __float_as_uint(x);
    y.bits = x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
#endif
}

DEVICE float larger(float x, float y) { return fmaxf(x, y); }
DEVICE double larger(double x, double y) { return fmax(x, y); }
DEVICE float root(float x) { return sqrtf(x); }
DEVICE double root(double x) { return sqrt(x); }
DEVICE float inverse_root(float x) { return rsqrtf(x); }
DEVICE double inverse_root(double x) { return 1.0 / sqrt(x); }
DEVICE float logarithm(float x) { return logf(x); }
DEVICE double logarithm(double x) { return log(x); }

// The hardware's exponential is precise enough for 2-byte numbers, and faster than memory.
template <class T> DEVICE float exponential(float x) {
    return sizeof(T) == 2 ? __expf(x) : expf(x);
}
template <class T> DEVICE double exponential(double x) { return exp(x); }
"""

ACCESS = r"""
template <int BYTES> struct Word;
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };

// N neighbours that one instruction moves, up to 16 bytes.
template <class T, int N> union Pack {
    typename Word<sizeof(T) * N>::type word;
    T v[N];
    DEVICE Pack() {}
    template <class A> DEVICE void widen_to(A* values) const {
        #pragma unroll
        for (int e = 0; e < N; ++e) values[e] = widen(v[e]);
    }
};

template <int N, class T, class A> DEVICE void load(A* values, const T* from) {
    constexpr int M = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
    #pragma unroll
    for (int k = 0; k < N; k += M) {
        Pack<T, M> pack;
        pack.word = *reinterpret_cast<const decltype(pack.word)*>(from + k);
        pack.widen_to(values + k);
    }
}

template <int N, class T, class A> DEVICE void store(T* to, const A* values) {
    constexpr int M = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
    #pragma unroll
    for (int k = 0; k < N; k += M) {
        Pack<T, M> pack;
        #pragma unroll
        for (int e = 0; e < M; ++e) narrow(pack.v[e], values[k + e]);
        *reinterpret_cast<decltype(pack.word)*>(to + k) = pack.word;
    }
}
"""

REDUCTIONS = r"""
struct Sum {
    template <class A> static DEVICE A join(A x, A y) { return x + y; }
    static DEVICE double neutral() { return 0.0; }
};
// NaN is ignored here; the sum of the exponentials propagates it.
struct Largest {
    template <class A> static DEVICE A join(A x, A y) { return larger(x, y); }
    static DEVICE double neutral() { return -infinity(); }
};

template <class Join, class A> DEVICE A reduce_warp(A x) {
    #pragma unroll
    for (int offset = 16; offset; offset >>= 1) {
        x = Join::join(x, __shfl_xor_sync(0xffffffffu, x, offset));
    }
    return x;
}

// Join the values of all threads of a row in a fixed order; all threads get the result.
template <class Join, int LANES, class A> DEVICE A reduce(A x) {
    x = reduce_warp<Join>(x);
    if constexpr (LANES > 32) {
        __shared__ A box[LANES / 32];
        int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        __syncthreads();
        if (lane == 0) box[warp] = x;
        __syncthreads();
        x = reduce_warp<Join>(lane < LANES / 32 ? box[lane] : A(Join::neutral()));
    }
    return x;
}
"""

MORE_REDUCTIONS = r"""
// Two sums at once. Calls alternate between two boxes, so that none waits for readers of the last.
template <int LANES, class A> DEVICE void add_pairs(A& x, A& y, int turn) {
    // After the first exchange, each half of a warp continues with one of the sums.
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    bool upper = lane & 16;
    A own = upper ? y : x;
    own += __shfl_xor_sync(0xffffffffu, upper ? x : y, 16);
    #pragma unroll
    for (int offset = 8; offset; offset >>= 1) own += __shfl_xor_sync(0xffffffffu, own, offset);
    if constexpr (LANES > 32) {
        __shared__ __align__(16) A box[2][2][LANES / 32];
        if (!(lane & 15)) box[turn][upper][warp] = own;
        __syncthreads();
        x = y = 0;
        #pragma unroll (LANES < 512 ? LANES / 32 : 4)
        for (int k = 0; k < LANES / 32; ++k) x += box[turn][0][k], y += box[turn][1][k];
    } else {
        x = __shfl_sync(0xffffffffu, own, 0);
        y = __shfl_sync(0xffffffffu, own, 16);
    }
}

// Join the means and the sums of squared deviations of equally many elements each.
template <int FROM, int TO, class A> DEVICE void join_moments(A& mean, A& spread, A& count) {
    #pragma unroll
    for (int offset = FROM; offset < TO; offset *= 2) {
        A other = __shfl_xor_sync(0xffffffffu, mean, offset), gap = other - mean;
        spread += __shfl_xor_sync(0xffffffffu, spread, offset) + gap * gap * count * A(0.5);
        mean = (mean + other) * A(0.5);
        count *= 2;
    }
}

template <int LANES, class A> DEVICE void row_moments(A& mean, A& spread, A count) {
    join_moments<1, 32>(mean, spread, count);
    if constexpr (LANES > 32) {
        __shared__ A box[2][LANES / 32];
        int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        if (lane == 0) box[0][warp] = mean, box[1][warp] = spread;
        __syncthreads();
        mean = box[0][lane % (LANES / 32)], spread = box[1][lane % (LANES / 32)];
        join_moments<1, LANES / 32>(mean, spread, count);
    }
}
"""

ROWS = r"""
// Elements of up to two arrays at the same position.
template <class A, int N> struct Part {
    static constexpr int count = N;
    A a[N], b[N];
    template <int INPUTS, class T> DEVICE void fetch(const T* first, const T* second) {
        if (INPUTS > 0) load<N>(a, first);
        if (INPUTS > 1) load<N>(b, second);
    }
};
#define EACH(e, part) _Pragma("unroll") for (int e = 0; e < part.count; ++e)

DEVICE i64 first_row() { return (i64)blockIdx.x * blockDim.y + threadIdx.y; }
DEVICE i64 row_step() { return (i64)gridDim.x * blockDim.y; }

// A row of at most LANES * STEPS * N elements, a multiple of N. Visitors may change the parts.
template <class T, int LANES, int STEPS, int N, int INPUTS> struct Held {
    typedef typename Wide<T>::type A;
    static constexpr bool held = true;
    static constexpr int lanes = LANES, steps = STEPS, width = N;
    Part<A, N> parts[STEPS];
    int length;

    static DEVICE int column(int step) { return (step * LANES + (int)threadIdx.x) * N; }

    DEVICE Held(const T* first, const T* second, i64 size) : length((int)size) {
        #pragma unroll
        for (int j = 0; j < STEPS; ++j) {
            int c = column(j);
            if (c < length) parts[j].template fetch<INPUTS>(first + c, second + c);
        }
    }

    // A row that is being read from memory, in its stored type. It is requested before the row
    // ahead of it is processed, so that the memory is never idle. Wider types, and single elements
    // in large blocks, would take too many registers for that.
    struct Coming {
        static constexpr bool early = sizeof(T) == 2 && (N > 1 || LANES < 512);
        Pack<T, N> packs[early ? STEPS : 1][INPUTS];
        const T *first, *second;

        DEVICE void fetch(const T* from, const T* other, i64 size) {
            first = from, second = other;
            #pragma unroll
            for (int j = 0; early && j < STEPS; ++j) {
                int c = column(j);
                if (c >= size) continue;
                typedef decltype(packs[j][0].word) W;
                packs[j][0].word = *reinterpret_cast<const W*>(from + c);
                if (INPUTS > 1) {
                    packs[j][INPUTS - 1].word = *reinterpret_cast<const W*>(other + c);
                }
            }
        }
    };

    // A row that was fetched before.
    DEVICE Held(const Coming& coming, i64 size) : length((int)size) {
        #pragma unroll
        for (int j = 0; j < STEPS; ++j) {
            int c = column(j);
            if (c >= length) continue;
            if constexpr (Coming::early) {
                coming.packs[j][0].widen_to(parts[j].a);
                if (INPUTS > 1) coming.packs[j][INPUTS - 1].widen_to(parts[j].b);
            } else {
                parts[j].template fetch<INPUTS>(coming.first + c, coming.second + c);
            }
        }
    }

    template <class Visit> DEVICE void each(Visit visit) {
        #pragma unroll
        for (int j = 0; j < STEPS; ++j) if (column(j) < length) visit(parts[j], column(j), j);
    }

    // Visit the parts, then write them.
    template <class Visit> DEVICE void write(T* out, Visit visit) {
        #pragma unroll
        for (int j = 0; j < STEPS; ++j) {
            int c = column(j);
            if (c >= length) continue;
            visit(parts[j], c, j);
            store<N>(out + c, parts[j].a);
        }
    }
};
"""

LOOPS = r"""
// A row of any length. If N > 1, its arrays have the same distance from a 16-byte boundary.
// With CACHED, the first visit stores the row in shared memory, and later visits read it there.
template <class T, int LANES, int N, int INPUTS, bool CACHED> struct Looped {
    typedef typename Wide<T>::type A;
    static constexpr bool held = false;
    static constexpr int lanes = LANES, width = N, batch = sizeof(T) * INPUTS > 4 ? 2 : 4;
    const T *first, *second;
    i64 length, head, count;
    bool fresh = true;

    DEVICE Looped(const T* first, const T* second, i64 length)
        : first(first), second(second), length(length), head(0) {
        if (N > 1) {
            i64 place = (i64)first / (i64)sizeof(T) % N;
            head = place ? N - place : 0;
            head = head < length ? head : length;
        }
        count = (length - head) / N;
    }

    // Each thread reads from shared memory only what it wrote, so no barrier is necessary.
    DEVICE void fetch(Pack<T, N>& pack, const T* from, i64 place) {
        typedef decltype(pack.word) W;
        const W* source = reinterpret_cast<const W*>(from);
        if constexpr (CACHED) {
            extern __shared__ uint4 cache[];
            W* line = reinterpret_cast<W*>(cache) + place;
            pack.word = fresh ? *source : *line;
            if (fresh) *line = pack.word;
        } else {
            pack.word = *source;
        }
    }

    // The elements before the first boundary and after the last one.
    template <bool WRITE, class Visit> DEVICE void walk_ends(T* out, Visit& visit) {
        for (i64 i = threadIdx.x; i < length - count * N; i += LANES) {
            i64 c = i < head ? i : i + count * N;
            Part<A, 1> part;
            part.template fetch<INPUTS>(first + c, second + c);
            visit(part, c, 0);
            if (WRITE) store<1>(out + c, part.a);
        }
    }

    // Several parts are read before the first is visited, so that the reads overlap.
    template <bool WRITE, class Visit> DEVICE void walk(T* out, Visit visit) {
        for (i64 i = threadIdx.x; i < count; i += batch * LANES) {
            Pack<T, N> packs[2][batch];
            #pragma unroll
            for (int k = 0; k < batch; ++k) {
                i64 place = i + k * LANES, c = head + place * N;
                if (place >= count) break;
                if (INPUTS > 0) fetch(packs[0][k], first + c, place);
                if (INPUTS > 1) fetch(packs[1][k], second + c, count + place);
            }
            #pragma unroll
            for (int k = 0; k < batch; ++k) {
                i64 place = i + k * LANES, c = head + place * N;
                if (place >= count) break;
                Part<A, N> part;
                if (INPUTS > 0) packs[0][k].widen_to(part.a);
                if (INPUTS > 1) packs[1][k].widen_to(part.b);
                visit(part, c, 0);
                if (WRITE) store<N>(out + c, part.a);
            }
        }
        walk_ends<WRITE>(out, visit);
        fresh = false;
    }

    template <class Visit> DEVICE void each(Visit visit) { walk<false>((T*)0, visit); }
    template <class Visit> DEVICE void write(T* out, Visit visit) { walk<true>(out, visit); }
};
"""

BLOCKS = NUMBERS + ACCESS + REDUCTIONS + MORE_REDUCTIONS + ROWS + LOOPS
