"""CUDA source of the incomplete gamma and beta functions and of the gamma samples' gradient.

Formulas and coefficients are those of tapegrad_numpy.kernels.special (incomplete_gamma, temme and
incomplete_beta), one element a thread, each with as many terms as it needs; all in float64.
"""

from __future__ import annotations

from tapegrad_cupy.kernels.special.special_gamma import gamma_parts
from tapegrad_cupy.kernels.special.special_source import END, c_matrix
from tapegrad_numpy.kernels.special import temme


def incomplete_gamma_source() -> str:
    """Return definitions of igamma, igammac, igamma_grad_a and random_gamma_grad."""
    rows = c_matrix("TEMME", temme.ROWS)
    return gamma_parts() + rows + _TEMME + _SERIES + _FRACTION + _INCOMPLETE_GAMMA + END


def incomplete_beta_source() -> str:
    """Return the definition of betainc."""
    return gamma_parts() + _BETA_PARTS + _INCOMPLETE_BETA + END


_TEMME = r"""
#define ROWS (sizeof(TEMME) / sizeof(TEMME[0]))
#define WIDTH (sizeof(TEMME[0]) / sizeof(double))

__device__ bool is_uniform(double a, double x) {
    return a >= 20.0 && x > 0.31 * a && x < 2.3 * a;
}

// The last power of 1/a that matters.
__device__ int temme_terms(double a) {
    int terms = (int)ceil(39.0 / log(a));
    return terms < (int)ROWS ? terms : (int)ROWS - 1;
}

// Row k at eta, and its derivative.
__device__ double temme_row(int k, double eta, double* slope) {
    double value = 0.0;
    *slope = 0.0;
    for (int j = 0; j < (int)WIDTH; ++j) {
        *slope = *slope * eta + value;
        value = value * eta + TEMME[k][j];
    }
    return value;
}

__device__ double uniform_tail(double a, double x, bool upper) {
    double offset = (x - a) / a, half = log_excess(x / a, offset);
    double eta = copysign(sqrt(2.0 * half), offset), inverse = 1.0 / a, total = 0.0, slope;
    for (int k = temme_terms(a); k >= 0; --k) total = total * inverse + temme_row(k, eta, &slope);
    double rest = exp(-a * half) / sqrt(2.0 * PI * a) * total;
    double argument = eta * sqrt(0.5 * a);
    return upper ? 0.5 * erfc(argument) + rest : 0.5 * erfc(-argument) - rest;
}

// (dP/da) / (x^a exp(-x) / Gamma(a + 1))
__device__ double uniform_slope(double a, double x) {
    double offset = (x - a) / a, half = log_excess(x / a, offset), slope;
    double eta = copysign(sqrt(2.0 * half), offset), inverse = 1.0 / a, total = 0.0;
    double logarithm = log1p(offset), stretch = 1.0 / (1.0 + eta * temme_row(0, eta, &slope));
    for (int k = temme_terms(a); k >= 0; --k) {
        double value = temme_row(k, eta, &slope);
        total = total * inverse + (logarithm - (k + 0.5) * inverse) * value
            - stretch * slope * inverse;
    }
    return -(stretch - 0.5 * eta + total) * exp(stirling_error(a));
}
"""

_SERIES = r"""
// x^a exp(-x) / Gamma(a + 1)
__device__ double density(double a, double x) {
    if (a < 10.0) {
        // Past 1e4 the exponential is 0; the cap keeps the power from overflowing beside it.
        x = fmin(x, 1e4);
        return pow(x, a) * exp(-x - lgamma_positive(a + 1.0));
    }
    double scale = exp(-stirling_error(a)) / sqrt(2.0 * PI * a);
    return exp(-a * log_excess(x / a, (x - a) / a)) * scale;
}

// Where the power series converges fast and P is not close to 1.
__device__ bool is_lower(double a, double x) { return x < 2.0 || x < a + 1.0; }

// Sum of x^n / ((a + 1) ... (a + n)) over n >= 0.
__device__ double series(double a, double x) {
    double y = 1.0, term = 1.0;
    for (int n = 1; n < 400 && term > 1e-17 * y; ++n) {
        term *= x / (a + n);
        y += term;
    }
    return y;
}

// With P = density s: s (log x - digamma(a + 1)) + ds/da.
__device__ double slope_lower(double a, double x) {
    double s = 1.0, slope = 0.0, term = 1.0, harmonic = 0.0;
    for (int n = 1; n < 400 && term > 1e-17 * s; ++n) {
        harmonic += 1.0 / (a + n);
        term *= x / (a + n);
        s += term;
        slope += term * harmonic;
    }
    return s * (log(x) - digamma_positive(a + 1.0)) - slope;
}

// Q for a < 1 and x < 2: 1 - x^a / Gamma(1 + a) (1 + a s), s = sum (-x)^n / (n! (a + n)).
__device__ double upper_small(double a, double x) {
    double log_power = a * log(x) - lgamma1p(a), s = 0.0, term = 1.0;
    for (int n = 1; n < 26; ++n) {
        term *= x / -n;
        s += term / (a + n);
    }
    return -expm1(log_power) - exp(log_power) * a * s;
}
"""

_FRACTION = r"""
// Legendre's x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...)), from the bottom,
// and its derivative in a.
__device__ double fraction(double a, double x, double* slope) {
    int levels = (int)fmax(20.0, 9.0 + 100.0 / fmax(x, 2.0));
    double first = x + 1.0 - a, y = first + 2.0 * levels;
    *slope = -1.0;
    for (int i = levels; i > 0; --i) {
        double step = i * (i - a) / y;
        *slope = (i + step * *slope) / y - 1.0;
        y = (first + 2.0 * (i - 1)) - step;
    }
    return y;
}

__device__ double upper(double a, double x) {
    double height = density(a, x), slope;
    return height == 0.0 ? 0.0 : a * height / fraction(a, x, &slope);
}

// With Q = density a / f: -(log x - digamma(a)) a / f + a f' / f^2.
__device__ double slope_upper(double a, double x) {
    double slope, f = fraction(a, x, &slope);
    return a / f * (slope / f - log(x) + digamma_positive(a));
}

// (dP/da) / density, of moderate size even where both underflow.
__device__ double probability_slope(double a, double x) {
    if (is_uniform(a, x)) return uniform_slope(a, x);
    return is_lower(a, x) ? slope_lower(a, x) : slope_upper(a, x);
}
"""

_INCOMPLETE_GAMMA = r"""
// Tell whether the arguments are special, and what the value is then.
__device__ bool is_settled(double a, double x, double at_zero, double at_infinity, double* y) {
    if (!(a > 0.0 && x >= 0.0)) *y = not_a_number();
    else if (isinf(a)) *y = isinf(x) ? not_a_number() : at_zero;
    else if (x == 0.0) *y = at_zero;
    else if (isinf(x)) *y = at_infinity;
    else return false;
    return true;
}

__device__ double igamma(double a, double x) {
    double y;
    if (is_settled(a, x, 0.0, 1.0, &y)) return y;
    if (is_uniform(a, x)) return uniform_tail(a, x, false);
    return is_lower(a, x) ? density(a, x) * series(a, x) : 1.0 - upper(a, x);
}

__device__ double igammac(double a, double x) {
    double y;
    if (is_settled(a, x, 1.0, 0.0, &y)) return y;
    if (is_uniform(a, x)) return uniform_tail(a, x, true);
    if (a < 1.0 && x < 2.0) return upper_small(a, x);
    return is_lower(a, x) ? 1.0 - density(a, x) * series(a, x) : upper(a, x);
}

__device__ double igamma_grad_a(double a, double x) {
    double y;
    if (is_settled(a, x, 0.0, 0.0, &y)) return y;
    return probability_slope(a, x) * density(a, x);
}

__device__ double random_gamma_grad(double alpha, double sample) {
    double y;
    if (is_settled(alpha, sample, 0.0, infinity(), &y)) return y;
    return -probability_slope(alpha, sample) * sample / alpha;
}
"""

_BETA_PARTS = r"""
// x^a y^b / B(a, b)
__device__ double beta_density(double a, double b, double x, double y) {
    if (fmin(a, b) < 10.0) {
        double log_y = x < 0.5 ? log1p(-x) : log(y);
        return exp(a * log(x) + b * log_y - lbeta(a, b));
    }
    // Around the peak at x = a / (a + b) the first-order terms cancel exactly.
    double c = a + b, gap = b * x - a * y;
    double power = a * log_excess(x * c / a, gap / a) + b * log_excess(y * c / b, -gap / b);
    double errors = stirling_error(c) - stirling_error(a) - stirling_error(b);
    return sqrt(a / c * b / (2.0 * PI)) * exp(errors - power);
}

// The continued fraction of DiDonato and Morris by Lentz's method, with gap = a - (a + b) x.
__device__ double beta_fraction(double a, double b, double x, double gap) {
    double c = a + b, y = a * (gap + 1.0) / (a + 1.0);
    if (y == 0.0) y = 1e-300;
    double up = y, down = 0.0;
    for (int n = 1; n < 20000; ++n) {
        double odd = a + (2.0 * n - 1.0), ratio = x / odd;
        double numerator = (a + (n - 1.0)) * (c + (n - 1.0)) * n * (b - n) * (ratio * ratio);
        double level = n + n * (b - n) * x / odd
            + (a + n) * (gap + 1.0 + n * (2.0 - x)) / (odd + 2.0);
        down = 1.0 / (level + numerator * down);
        up = level + numerator / up;
        double change = up * down;
        y *= change;
        if (!(fabs(change - 1.0) > 1e-15)) break;
    }
    return y;
}

// I_x(a, b) for x below the mean, with y = 1 - x.
__device__ double beta_lower(double a, double b, double x, double y) {
    return beta_density(a, b, x, y) / beta_fraction(a, b, x, a * y - b * x);
}
"""

_INCOMPLETE_BETA = r"""
// 1 - I_y(b, a) for b < 1 and y = 1 - x below the mean, relative accuracy kept as b -> 0:
// I_y(b, a) = y^b / (b B(a, b)) (1 + b s), s = sum (1 - a) ... (n - a) y^n / (n! (b + n)).
__device__ double beta_upper_small(double a, double b, double x) {
    double y = 1.0 - x;
    // log(b B(a, b)), through arguments above 10 where the ratio of gammas does not cancel.
    double log_beta = lgamma1p(b) + log_gamma_ratio(a + 10.0, b);
    for (int k = 0; k < 10; ++k) log_beta += log1p(b / (a + k));
    double log_power = b * log(y) - log_beta, s = 0.0, term = 1.0;
    for (int n = 1; n < 200 && fabs(term) > 1e-17; ++n) {
        term *= (n - a) * y / n;
        s += term / (b + n);
    }
    return -expm1(log_power) - exp(log_power) * b * s;
}

__device__ double betainc(double a, double b, double x) {
    bool inside = a > 0.0 && b > 0.0 && isfinite(a) && isfinite(b) && x >= 0.0 && x <= 1.0;
    if (!inside) return not_a_number();
    if (x == 1.0) return 1.0;
    if (x <= (a + 1.0) / (a + b + 2.0)) return beta_lower(a, b, x, 1.0 - x);
    return b < 1.0 ? beta_upper_small(a, b, x) : 1.0 - beta_lower(b, a, 1.0 - x, x);
}
"""
