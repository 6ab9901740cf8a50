"""CUDA source of normalisation along rows: layer and RMS normalisation, forward and backward."""

from __future__ import annotations

PARAMETERS = r"""
// Gain or bias at the columns of a part; `otherwise` where there is none.
template <class P> DEVICE
void parameters(A* values, const GAIN* from, const P& part, i64 column, A otherwise) {
    if (!from) {
        EACH(e, part) values[e] = otherwise;
    } else if constexpr (Row::held) {
        load<P::count>(values, from + column);
    } else {
        EACH(e, part) values[e] = widen(from[column + e]);
    }
}
"""

MOMENTS = r"""
// Mean (0 if it is not taken out) and variance of a row.
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
        // Threads with equally many elements have moments of their own: one exchange is enough.
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

NORMALIZE = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
normalize(
    const T* x, const GAIN* gain, const GAIN* bias, T* y, A* means, A* variances,
    i64 rows, i64 length, double epsilon, i64 center) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(x + r * length, x, length);
        A mean = 0, variance = 0;
        moments(row, length, center, mean, variance);
        if (threadIdx.x == 0) {
            means[r] = mean;
            variances[r] = variance;
        }
        A scale = A(1) / root(variance + A(epsilon));
        row.write(y + r * length, [&](auto& part, i64 column, int) {
            A factor[Row::width], shift[Row::width];
            parameters(factor, gain, part, column, A(1));
            parameters(shift, bias, part, column, A(0));
            EACH(e, part) part.a[e] = (part.a[e] - mean) * scale * factor[e] + shift[e];
        });
    }
}
"""

# A block works on many rows, and its threads keep the sums down their columns in registers.
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
    if (r < rows) coming.fetch(t + r * length, x + r * length, length);
    for (; r < rows; r += row_step()) {
        A mean = means[r], scale = A(1) / root(variances[r] + A(epsilon)), product = 0, sum = 0;
        Row row(coming, length);
        i64 next = r + row_step();
        if (next < rows) coming.fetch(t + next * length, x + next * length, length);
        row.each([&](auto& part, i64 column, int step) {
            A factor[Row::width];
            parameters(factor, gain, part, column, A(1));
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
        product /= A(length);
        sum = center ? sum / A(length) : A(0);
        row.write(g + r * length, [&](auto& part, i64, int) {
            EACH(e, part) part.a[e] = (part.a[e] - part.b[e] * product - sum) * scale;
        });
    }
    write_sums(for_gain, gain_parts + blockIdx.x * length, length);
    write_sums(for_bias, bias_parts + blockIdx.x * length, length);
}
"""

SUMS = r"""
// Write a block's sums down the columns; where each warp has its own rows, theirs are added first.
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

# The sums down the columns of long rows come from a kernel of their own.
NORMALIZE_GRADIENT_LONG = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
normalize_gradient_long(
    const T* t, const T* x, const GAIN* gain, const A* means, const A* variances, T* g,
    i64 rows, i64 length, double epsilon, i64 center) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        A mean = means[r], scale = A(1) / root(variances[r] + A(epsilon)), product = 0, sum = 0;
        Row row(t + r * length, x + r * length, length);
        row.each([&](auto& part, i64 column, int) {
            A factor[Row::width];
            parameters(factor, gain, part, column, A(1));
            EACH(e, part) {
                A inner = part.a[e] * factor[e];
                product += inner * ((part.b[e] - mean) * scale);
                sum += inner;
            }
        });
        product = reduce<Sum, Row::lanes>(product) / A(length);
        sum = center ? reduce<Sum, Row::lanes>(sum) / A(length) : A(0);
        row.write(g + r * length, [&](auto& part, i64 column, int) {
            A factor[Row::width];
            parameters(factor, gain, part, column, A(1));
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
