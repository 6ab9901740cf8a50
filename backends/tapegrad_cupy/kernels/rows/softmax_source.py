"""CUDA source of softmax, cross entropy and log-sum-exp, one kernel each, in terms of `Row`.

Masked rows, infinities and NaN give the same results as the generic kernels of tapegrad.ops.
"""

from __future__ import annotations

TOTALS = r"""
// The value that is subtracted from exponents. With FINITE it is never infinity, whose exponential
// then is infinity.
template <bool FINITE> DEVICE A anchor(A top) {
    return top == A(-infinity()) || (FINITE && top == A(infinity())) ? A(0) : top;
}

// The sum of exp(a - top) over a row. Unless KEEP, the exponentials replace the elements.
template <bool FINITE, bool KEEP> DEVICE void sum_held(Row& row, A& top, A& total) {
    A most = A(-infinity()), sum = 0;
    row.each([&](auto& part, i64, int) {
        EACH(e, part) most = larger(most, part.a[e]);
    });
    top = anchor<FINITE>(reduce<Largest, Row::lanes>(most));
    row.each([&](auto& part, i64, int) {
        EACH(e, part) {
            A weight = exponential<T>(part.a[e] - top);
            sum += weight;
            if (!KEEP) part.a[e] = weight;
        }
    });
    total = reduce<Sum, Row::lanes>(sum);
}

// Rescale a sum from one anchor to another. A sum without a finite element is 0 or NaN and stays.
template <bool FINITE> DEVICE A rescale(A sum, A from, A to) {
    if (from == A(-infinity())) return sum;
    return sum * exponential<T>(anchor<FINITE>(from) - anchor<FINITE>(to));
}

// The same in one visit: the sum is rescaled when a larger element appears.
template <bool FINITE> DEVICE void sum_looped(Row& row, A& top, A& total) {
    A most = A(-infinity()), sum = 0;
    row.each([&](auto& part, i64, int) {
        A here = part.a[0];
        EACH(e, part) here = larger(here, part.a[e]);
        if (here > most) {
            sum = rescale<FINITE>(sum, most, here);
            most = here;
        }
        A base = anchor<FINITE>(most);
        EACH(e, part) sum += exponential<T>(part.a[e] - base);
    });
    A all = reduce<Largest, Row::lanes>(most);
    top = anchor<FINITE>(all);
    total = reduce<Sum, Row::lanes>(rescale<FINITE>(sum, most, all));
}

template <bool FINITE, bool KEEP> DEVICE void sum_exponentials(Row& row, A& top, A& total) {
    if constexpr (Row::held) sum_held<FINITE, KEEP>(row, top, total);
    else sum_looped<FINITE>(row, top, total);
}

DEVICE A or_one(A total) { return total == A(0) ? A(1) : total; }
"""

SOFTMAX = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
softmax(const T* x, T* y, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(x + r * length, x, length);
        A top, total;
        sum_exponentials<false, false>(row, top, total);
        A scale = A(1) / or_one(total);
        row.write(y + r * length, [&](auto& part, i64, int) {
            EACH(e, part) {
                part.a[e] = (Row::held ? part.a[e] : exponential<T>(part.a[e] - top)) * scale;
            }
        });
    }
}
"""

LOG_SOFTMAX = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
log_softmax(const T* x, T* y, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(x + r * length, x, length);
        A top, total;
        sum_exponentials<false, true>(row, top, total);
        A log_total = logarithm(or_one(total));
        row.write(y + r * length, [&](auto& part, i64, int) {
            EACH(e, part) part.a[e] = (part.a[e] - top) - log_total;
        });
    }
}
"""

SOFTMAX_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
softmax_gradient(const T* t, const T* y, T* g, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(t + r * length, y + r * length, length);
        A sum = 0;
        row.each([&](auto& part, i64, int) { EACH(e, part) sum += part.a[e] * part.b[e]; });
        sum = reduce<Sum, Row::lanes>(sum);
        row.write(g + r * length, [&](auto& part, i64, int) {
            EACH(e, part) part.a[e] = part.b[e] * (part.a[e] - sum);
        });
    }
}
"""

LOG_SOFTMAX_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
log_softmax_gradient(const T* t, const T* y, T* g, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(t + r * length, y + r * length, length);
        A sum = 0;
        row.each([&](auto& part, i64, int) { EACH(e, part) sum += part.a[e]; });
        sum = reduce<Sum, Row::lanes>(sum);
        row.write(g + r * length, [&](auto& part, i64, int) {
            EACH(e, part) part.a[e] -= exponential<T>(part.b[e]) * sum;
        });
    }
}
"""

# A long row may be split into chunks, each of which is treated as a row; y then has one more axis.
LOGSUMEXP = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
logsumexp(const T* x, OUT* y, i64 rows, i64 length, i64 chunk, i64 chunks) {
    for (i64 r = first_row(); r < rows * chunks; r += row_step()) {
        i64 start = r % chunks * chunk, size = length - start < chunk ? length - start : chunk;
        Row row(x + r / chunks * length + start, x, size);
        A top, total;
        sum_exponentials<true, false>(row, top, total);
        if (threadIdx.x == 0) narrow(y[r], logarithm(total) + top);
    }
}
"""

SPARSE_CROSS_ENTROPY = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
sparse_cross_entropy(const T* x, const LABEL* labels, T* loss, T* y, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        i64 label = labels[r];
        bool valid = label >= 0 && label < length;
        A picked = valid ? widen(x[r * length + label]) : A(not_a_number());
        Row row(x + r * length, x, length);
        A top, total;
        sum_exponentials<false, false>(row, top, total);
        total = or_one(total);
        if (threadIdx.x == 0) narrow(loss[r], logarithm(total) - (picked - top));
        A scale = valid ? A(1) / total : A(not_a_number());
        row.write(y + r * length, [&](auto& part, i64, int) {
            EACH(e, part) {
                part.a[e] = (Row::held ? part.a[e] : exponential<T>(part.a[e] - top)) * scale;
            }
        });
    }
}
"""

SPARSE_CROSS_ENTROPY_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
sparse_cross_entropy_gradient(
    const T* t, const T* weights, const LABEL* labels, T* g, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        i64 label = labels[r];
        A factor = widen(t[r]);
        Row row(weights + r * length, weights, length);
        row.write(g + r * length, [&](auto& part, i64 column, int) {
            EACH(e, part) part.a[e] = factor * (part.a[e] - A(column + e == label));
        });
    }
}
"""

LABEL_MASK = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
label_mask(const LABEL* labels, T* y, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        i64 label = labels[r];
        Row row(y + r * length, y, length);
        row.write(y + r * length, [&](auto& part, i64 column, int) {
            EACH(e, part) part.a[e] = A(column + e == label);
        });
    }
}
"""

CROSS_ENTROPY = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST)
cross_entropy(const T* x, const T* labels, T* loss, A* log_totals, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        Row row(x + r * length, labels + r * length, length);
        A top, total, cost = 0;
        sum_exponentials<false, true>(row, top, total);
        A log_total = logarithm(or_one(total));
        // A class of label 0 contributes 0, although 0 * inf is NaN.
        row.each([&](auto& part, i64, int) {
            EACH(e, part) {
                if (part.b[e] != A(0)) cost += part.b[e] * (log_total - (part.a[e] - top));
            }
        });
        cost = reduce<Sum, Row::lanes>(cost);
        if (threadIdx.x == 0) {
            narrow(loss[r], cost);
            log_totals[r] = log_total + top;
        }
    }
}
"""

CROSS_ENTROPY_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(THREADS, FEWEST || Row::held ? FEWEST : 2)
cross_entropy_gradient(
    const T* t, const T* x, const T* labels, const A* log_totals, T* g, i64 rows, i64 length) {
    for (i64 r = first_row(); r < rows; r += row_step()) {
        A log_total = log_totals[r], sum = 0, total = 0;
        Row row(x + r * length, labels + r * length, length);
        row.each([&](auto& part, i64, int) {
            EACH(e, part) {
                sum += part.b[e];
                total += exponential<T>(part.a[e] - log_total);
            }
        });
        sum = reduce<Sum, Row::lanes>(sum);
        // Close to 1; dividing by it removes the rounding error of a large log_total.
        total = reduce<Sum, Row::lanes>(total);
        A scale = total == A(0) ? sum : sum / total, factor = widen(t[r]);
        row.write(g + r * length, [&](auto& part, i64, int) {
            EACH(e, part) {
                A weight = exponential<T>(part.a[e] - log_total) * scale;
                part.a[e] = factor * (weight - part.b[e]);
            }
        });
    }
}
"""

SOURCES = {
    "softmax": TOTALS + SOFTMAX,
    "log_softmax": TOTALS + LOG_SOFTMAX,
    "softmax_gradient": SOFTMAX_GRADIENT,
    "log_softmax_gradient": LOG_SOFTMAX_GRADIENT,
    "logsumexp": TOTALS + LOGSUMEXP,
    "sparse_cross_entropy": TOTALS + SPARSE_CROSS_ENTROPY,
    "sparse_cross_entropy_gradient": SPARSE_CROSS_ENTROPY_GRADIENT,
    "label_mask": LABEL_MASK,
    "cross_entropy": TOTALS + CROSS_ENTROPY,
    "cross_entropy_gradient": CROSS_ENTROPY_GRADIENT,
}
