"""CUDA source of the gamma family: lgamma, digamma, zeta, polygamma, lbeta.

Formulas and coefficients are those of tapegrad_numpy.kernels.special.gamma; all in float64.
"""

from __future__ import annotations

import math

from tapegrad_cupy.kernels.special.special_source import BLOCKS, END, c_array, c_tables
from tapegrad_numpy.kernels.special import arithmetic, gamma


def gamma_source() -> str:
    """Return definitions of lgamma, digamma, zeta, polygamma and lbeta."""
    return gamma_parts() + END


def gamma_parts() -> str:
    """Return the same with the namespace left open, for families built on this one."""
    tables = c_tables(gamma, _TABLES) + c_tables(arithmetic, "ATANH")
    factorials = c_array("FACTORIALS", [float(math.factorial(n)) for n in range(171)])
    return BLOCKS + tables + factorials + _GAMMA + _ZETA + _BETA


_TABLES = """
    LGAMMA_NUM LGAMMA_DEN STIRLING_NUM STIRLING_DEN STIRLING_SERIES BERNOULLI
    DIGAMMA_NUM DIGAMMA_DEN DIGAMMA_TAIL_NUM DIGAMMA_TAIL_DEN
"""

_GAMMA = r"""
// offset - log(ratio), where ratio = 1 + offset, to full relative accuracy.
__device__ double log_excess(double ratio, double offset) {
    if (!(fabs(offset) <= 0.5)) return offset - log(ratio);
    double r = offset / (1.0 + ratio), r2 = r * r;
    return r * (offset - 2.0 * r2 * polynomial(ATANH, r2));
}

// lgamma(1 + z) for z in [0, 2], relative accuracy kept at z = 0 and 1.
__device__ double lgamma1p(double z) {
    return z * (z - 1.0) * rational(LGAMMA_NUM, LGAMMA_DEN, z);
}

// lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi)/2) for x >= 3.
__device__ double stirling_error(double x) {
    double inverse = 1.0 / x;
    return rational(STIRLING_NUM, STIRLING_DEN, inverse * inverse) * inverse;
}

__device__ double lgamma_positive(double x) {
    if (x < 1.0) return lgamma1p(x) - log(x);
    if (x < 3.0) return lgamma1p(x - 1.0);
    double y = (x - 0.5) * (log(x) - 1.0);
    return y + (stirling_error(x) + (HALF_LOG_TWO_PI - 0.5));
}

__device__ double lgamma(double x) {
    if (!(x < 0.0)) return lgamma_positive(x);
    double size = -x, sine = fabs(sinpi(size - rint(size)));
    if (sine == 0.0 || isinf(x)) return infinity();
    return -log(sine / PI) - log(size) - lgamma_positive(size);
}

__device__ double digamma1p(double z) {
    // The positive root, less 1, in two parts.
    double offset = (z - 0.46163214496836236) + 1.5522348162858677e-17;
    return offset * rational(DIGAMMA_NUM, DIGAMMA_DEN, z);
}

__device__ double digamma_positive(double x) {
    if (x < 1.0) return digamma1p(x) - 1.0 / x;
    if (x < 3.0) return digamma1p(x - 1.0);
    double inverse = 1.0 / x;
    double tail = rational(DIGAMMA_TAIL_NUM, DIGAMMA_TAIL_DEN, inverse * inverse);
    return log(x) - (0.5 + tail * inverse) * inverse;
}

__device__ double digamma(double x) {
    if (!(x <= 0.0)) return digamma_positive(x);
    double size = -x, fraction = size - rint(size);
    if (fraction == 0.0) return not_a_number();
    return digamma_positive(1.0 + size) + PI / tan(PI * fraction);
}
"""

_ZETA = r"""
__device__ double zeta_positive(double x, double q) {
    double y = 0.0;
    for (int k = 0; k < 8; ++k) y += pow(q + k, -x);
    double end = q + 8.0, square = end * end, tail = BERNOULLI[9];
    for (int k = 17; k > 0; k -= 2) {
        tail = tail * ((x + k) * (x + (k + 1)) / square) + BERNOULLI[k / 2];
    }
    tail = 1.0 / (x - 1.0) + (0.5 + x / end * tail) / end;
    double scale = pow(end, 1.0 - x);
    // Beyond this ratio the tail is below 1e-17 of the first term, and its series diverges.
    return x > 5.0 * end || scale == 0.0 ? y : y + scale * tail;
}

// The sum over all integers, less the part below q, in pairs that cancel exactly halfway between
// poles.
__device__ double zeta_negative(double x, double q) {
    if (x != floor(x)) return not_a_number();
    double near = q - rint(q), d = fabs(near), sign = fmod(x, 2.0) == 0.0 ? 1.0 : -1.0;
    double whole = pow(d, -x) + sign * pow(1.0 - d, -x);
    whole += zeta_positive(x, 1.0 + d) + sign * zeta_positive(x, 2.0 - d);
    return (near < 0.0 ? sign * whole : whole) - sign * zeta_positive(x, 1.0 - q);
}

__device__ double zeta(double x, double q) {
    if (!(x > 1.0)) return x == 1.0 ? infinity() : not_a_number();
    if (q <= 0.0 && q == floor(q)) return infinity();
    return q < 0.0 ? zeta_negative(x, q) : zeta_positive(x, q);
}

__device__ double polygamma(double n, double x) {
    if (!(n >= 0.0 && n == floor(n))) return not_a_number();
    if (n == 0.0) return digamma(x);
    double y = zeta(n + 1.0, x);
    if (n <= 170.0) y *= FACTORIALS[(int)n];
    else y = copysign(exp(lgamma_positive(n + 1.0) + log(fabs(y))), y);
    return fmod(n, 2.0) == 0.0 ? -y : y;
}
"""

_BETA = r"""
// lgamma(a) - lgamma(a + b) without cancellation, for a and a + b above 10.
__device__ double log_gamma_ratio(double a, double b) {
    double c = a + b, y = b - (c - 0.5) * log1p(b / a) - b * log(a);
    // Horner's rule for t p(t^2) at t = 1/a less t = 1/c, without subtracting the two values.
    double u = 1.0 / c, v = 1.0 / a, u2 = u * u, v2 = v * v;
    double value = STIRLING_SERIES[0], difference = 0.0;
    for (int k = 1; k < 7; ++k) {
        difference = difference * v2 + value;
        value = value * u2 + STIRLING_SERIES[k];
    }
    return y + b * u * v * (value + v * (u + v) * difference);
}

__device__ double lbeta(double a, double b) {
    if (isnan(a) || isnan(b)) return a + b;
    double low = fmin(a, b), high = fmax(a, b);
    if (low == 0.0) return infinity();
    if (low > 0.0 && isinf(high)) return -infinity();
    if (low >= 10.0) {
        double c = low + high;
        double y = (low - 0.5) * log(low / c) - high * log1p(low / high) - 0.5 * log(high);
        double errors = stirling_error(low) + stirling_error(high) - stirling_error(c);
        return y + (HALF_LOG_TWO_PI + errors);
    }
    if (high >= 10.0 && low + high >= 10.0) return lgamma(low) + log_gamma_ratio(high, low);
    return lgamma(low) + (lgamma(high) - lgamma(low + high));
}
"""
