"""CUDA source of normalisation along rows: layer and RMS normalisation and their gradients."""

from __future__ import annotations

PARAMETERS = r"""
// Gain or bias, read again for each row; `otherwise` is its value if it is left out.
template <class R, bool KEPT> struct Values {
    const GAIN* from;
    DEVICE Values(const GAIN* from, i64) : from(from) {}

    template <class P> DEVICE
    void get(A* values, const P& part, i64 column, int, A otherwise) const {
        if (!from) {
            EACH(e, part) values[e] = otherwise;
        } else if constexpr (R::held) {
            load<P::count>(values, from + column);
        } else {
            EACH(e, part) values[e] = widen(from[column + e]);
        }
    }
};

// Gain or bias, read once and kept in its stored type, which takes few registers.
template <class R> struct Values<R, true> {
    const GAIN* from;
    Pack<GAIN, R::width> packs[R::steps];

    DEVICE Values(const GAIN* from, i64 length) : from(from) {
        #pragma unroll
        for (int j = 0; j < R::steps; ++j) {
            typedef decltype(packs[j].word) W;
            int c = R::column(j);
            if (from && c < length) packs[j].word = *reinterpret_cast<const W*>(from + c);
        }
    }

    template <class P> DEVICE
    void get(A* values, const P& part, i64, int step, A otherwise) const {
        if (from) {
            // Widened again for each row: wide values would take twice the registers.
            Pack<GAIN, R::width> pack;
            uint4 word = packs[step].word;
            asm volatile("" : "+r"(word.x), "+r"(word.y), "+r"(word.z), "+r"(word.w));
            pack.word = word;
            pack.widen_to(values);
        } else {
            EACH(e, part) values[e] = otherwise;
        }
    }
};

// Whether blocks share rows of 2-byte elements, 16 bytes at a time.
constexpr bool shares_pairs = Row::held && Row::lanes > 32 && sizeof(T) == 2 && Row::width == 8;
typedef Values<Row, shares_pairs && sizeof(GAIN) == 2> Gain;
typedef Values<Row, false> Bias;
"""

MOMENTS = r"""
// Mean and variance of a row; without `center`, 0 and the mean square.
template <class R> DEVICE
void moments(R& row, i64 length, bool center, A& mean, A& variance) {
    auto add = [&](auto& part, i64, int) { EACH(e, part) mean += part.a[e]; };
    auto add_squares = [&](auto& part, i64, int) {
        EACH(e, part) {
            A rest = part.a[e] - mean;
            variance += rest * rest;
        }
    };
    if constexpr (R::held && R::lanes < 1024) {
        // If all threads have equally many elements, each computes moments and one exchange joins
        // them.
        constexpr int own = R::steps * R::width;
        if (center && length == R::lanes * own) {
            if (R::lanes > 32) __syncthreads();
            row.each(add);
            mean /= A(own);
            row.each(add_squares);
            row_moments<R::lanes>(mean, variance, A(own));
            variance /= A(length);
            return;
        }
    }
    if (center) {
        row.each(add);
        mean = reduce<Sum, R::lanes>(mean) / A(length);
    }
    row.each(add_squares);
    variance = reduce<Sum, R::lanes>(variance) / A(length);
}
"""

# Blocks that process many rows read the next one early. normalization.py launches as many blocks as
# the launch bounds let a multiprocessor hold.
NORMALIZE = r"""
// Visit the rows of a block; if it has several, request the next row before the visit.
template <class R, class Visit> DEVICE
void each_row(const T* x, i64 rows, i64 length, Visit visit) {
    i64 r = first_row();
    if constexpr (shares_pairs) {
        typename R::Coming coming;
        if (r < rows) coming.fetch(x + r * length, x, length);
        while (r < rows) {
            R row(coming, length);
            i64 next = r + row_step();
            if (next < rows) coming.fetch(x + next * length, x, length);
            visit(row, r);
            r = next;
        }
    } else {
        for (; r < rows; r += row_step()) {
            R row(x + r * length, x, length);
            visit(row, r);
        }
    }
}

extern "C" __global__ void
__launch_bounds__(THREADS, shares_pairs ? 1024 / THREADS : FEWEST)
normalize(
    const T* x, const GAIN* gain, const GAIN* bias, T* y, A* means, A* variances,
    i64 rows, i64 length, double epsilon, i64 center) {
    Gain factors(gain, length);
    Bias shifts(bias, length);
    each_row<Row>(x, rows, length, [&](Row& row, i64 r) {
        A mean = 0, variance = 0;
        moments(row, length, center, mean, variance);
        if (threadIdx.x == 0) {
            means[r] = mean;
            variances[r] = variance;
        }
        A scale = inverse_root(variance + A(epsilon));
        row.write(y + r * length, [&](auto& part, i64 column, int step) {
            A factor[Row::width], shift[Row::width];
            factors.get(factor, part, column, step, A(1));
            shifts.get(shift, part, column, step, A(0));
            EACH(e, part) part.a[e] = (part.a[e] - mean) * scale * factor[e] + shift[e];
        });
    });
}
"""

# A block processes many rows, and its threads keep the sums down their columns in registers.
NORMALIZE_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
normalize_gradient(
    const T* t, const T* x, const GAIN* gain, const A* means, const A* variances, T* g,
    A* gain_parts, A* bias_parts, i64 rows, i64 length, double epsilon, i64 center) {
    A for_gain[Row::steps * Row::width], for_bias[Row::steps * Row::width];
    #pragma unroll
    for (int i = 0; i < Row::steps * Row::width; ++i) for_gain[i] = for_bias[i] = 0;
    i64 r = first_row();
    int turn = 0;
    Row::Coming coming;
    A next_mean = 0, next_variance = 0;
    if (r < rows) {
        coming.fetch(t + r * length, x + r * length, length);
        next_mean = means[r], next_variance = variances[r];
    }
    Gain factors(gain, length);
    A share = A(1) / A(length);
    while (r < rows) {
        A mean = next_mean, scale = inverse_root(next_variance + A(epsilon)), product = 0, sum = 0;
        Row row(coming, length);
        i64 next = r + row_step();
        if (next < rows) {
            coming.fetch(t + next * length, x + next * length, length);
            next_mean = means[next], next_variance = variances[next];
        }
        row.each([&](auto& part, i64 column, int step) {
            A factor[Row::width];
            factors.get(factor, part, column, step, A(1));
            EACH(e, part) {
                A unit = (part.b[e] - mean) * scale, inner = part.a[e] * factor[e];
                for_gain[step * Row::width + e] += part.a[e] * unit;
                for_bias[step * Row::width + e] += part.a[e];
                product += inner * unit;
                sum += inner;
                part.a[e] = inner;
                part.b[e] = unit;
            }
        });
        add_pairs<Row::lanes>(product, sum, turn ^= 1);
        product *= share;
        sum = center ? sum * share : A(0);
        // In this order a row of one element has a gradient of exactly 0.
        row.write(g + r * length, [&](auto& part, i64, int) {
            EACH(e, part) part.a[e] = (part.a[e] - part.b[e] * product - sum) * scale;
        });
        r = next;
    }
    write_sums(for_gain, gain_parts + blockIdx.x * length, length);
    write_sums(for_bias, bias_parts + blockIdx.x * length, length);
}
"""

SUMS = r"""
// Write the sums of a block down the columns; if each warp has its own rows, add their sums first.
DEVICE void write_sums(const A* sums, A* out, i64 length) {
    __shared__ A box[Row::lanes > 32 ? 1 : THREADS * Row::width];
    #pragma unroll
    for (int j = 0; j < Row::steps; ++j) {
        int column = Row::column(j);
        if constexpr (Row::lanes > 32) {
            if (column < length) store<Row::width>(out + column, sums + j * Row::width);
        } else {
            __syncthreads();
            #pragma unroll
            for (int e = 0; e < Row::width; ++e) {
                box[(threadIdx.y * 32 + threadIdx.x) * Row::width + e] = sums[j * Row::width + e];
            }
            __syncthreads();
            int places = 32 * Row::width, first = j * places;
            for (int i = threadIdx.y * 32 + threadIdx.x; i < places; i += THREADS) {
                A sum = 0;
                for (int k = 0; k < THREADS / 32; ++k) sum += box[k * places + i];
                if (first + i < length) out[first + i] = sum;
            }
        }
    }
}
"""

# A separate kernel computes the sums down the columns of long rows.
NORMALIZE_GRADIENT_LONG = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
normalize_gradient_long(
    const T* t, const T* x, const GAIN* gain, const A* means, const A* variances, T* g,
    i64 rows, i64 length, double epsilon, i64 center) {
    Gain factors(gain, length);
    for (i64 r = first_row(); r < rows; r += row_step()) {
        A mean = means[r], scale = inverse_root(variances[r] + A(epsilon)), product = 0, sum = 0;
        Row row(t + r * length, x + r * length, length);
        row.each([&](auto& part, i64 column, int step) {
            A factor[Row::width];
            factors.get(factor, part, column, step, A(1));
            EACH(e, part) {
                A inner = part.a[e] * factor[e];
                product += inner * ((part.b[e] - mean) * scale);
                sum += inner;
            }
        });
        product = reduce<Sum, Row::lanes>(product) / A(length);
        sum = center ? reduce<Sum, Row::lanes>(sum) / A(length) : A(0);
        row.write(g + r * length, [&](auto& part, i64 column, int step) {
            A factor[Row::width];
            factors.get(factor, part, column, step, A(1));
            EACH(e, part) {
                A unit = (part.b[e] - mean) * scale;
                part.a[e] = (part.a[e] * factor[e] - unit * product - sum) * scale;
            }
        });
    }
}
"""

SOURCES = {
    "normalize": PARAMETERS + MOMENTS + NORMALIZE,
    "normalize_gradient": PARAMETERS + SUMS + NORMALIZE_GRADIENT,
    "normalize_gradient_long": PARAMETERS + NORMALIZE_GRADIENT_LONG,
}
