"""CUDA source of the Bessel functions J, Y, I and K of orders 0 and 1, plain and scaled.

Formulas and coefficients are those of `bessel` and `bessel_modified` in
tapegrad_numpy.kernels.special, in float64. CuPy computes the scaled functions as exp(x) times the
plain one, which is NaN for large x.
"""

from __future__ import annotations

from tapegrad_cupy.kernels.special.special_source import BLOCKS, END, c_tables
from tapegrad_numpy.kernels.special import bessel, bessel_modified


def bessel_source() -> str:
    """Return definitions of bessel_j0, j1, y0 and y1."""
    return BLOCKS + c_tables(bessel, _TABLES) + _SMALL + _WAVES + END


def modified_bessel_source() -> str:
    """Return definitions of bessel_i0, i1, i0e, i1e, k0, k1, k0e and k1e."""
    return BLOCKS + c_tables(bessel_modified, _MODIFIED_TABLES) + _I + _K + END


_TABLES = "J0 J1 Y0 Y1 P0_NUM P0_DEN Q0_NUM Q0_DEN P1_NUM P1_DEN Q1_NUM Q1_DEN"
_MODIFIED_TABLES = """
    I0_SMALL I1_SMALL I0_LARGE I1_LARGE K0_SMALL K1_SMALL
    K0_LARGE_NUM K0_LARGE_DEN K1_LARGE_NUM K1_LARGE_DEN
"""

_SMALL = r"""
#define LOG_TWO 0.6931471805599453

// x^2 - zero^2, with the zero in two parts.
__device__ __forceinline__ double vanish(double x, double head, double tail) {
    return ((x - head) - tail) * (x + head);
}

__device__ double j0_small(double x) {
    double zeros = vanish(x, 2.404825557695773, -1.176691651530894e-16)
        * vanish(x, 5.520078110286311, 8.088597146146722e-17);
    return zeros * polynomial(J0, x * x / 32.0 - 1.0);
}

__device__ double j1_small(double x) {
    double zeros = vanish(x, 3.8317059702075125, -1.5269184090088067e-16)
        * vanish(x, 7.015586669815619, -9.414165653410389e-17);
    return x * zeros * polynomial(J1, x * x / 32.0 - 1.0);
}

__device__ double y0_small(double x) {
    double y = polynomial(Y0, x * x / 32.0 - 1.0);
    return y + 2.0 / PI * (log(x) - LOG_TWO) * j0_small(x);
}

__device__ double y1_small(double x) {
    if (x == 0.0) return -infinity();
    double y = x * polynomial(Y1, x * x / 32.0 - 1.0);
    return y + 2.0 / PI * ((log(x) - LOG_TWO) * j1_small(x) - 1.0 / x);
}
"""

_WAVES = r"""
struct Waves { double j, y; };

// sqrt(2 / (pi x)) times P cos w - Q sin w and P sin w + Q cos w, with w = x - pi/4 for order 0 and
// x - 3 pi/4 for order 1; x itself is never shifted.
__device__ Waves order0(double x) {
    if (isinf(x)) return {0.0, 0.0};
    double sine, cosine, inverse = 1.0 / x, square = inverse * inverse;
    sincos(x, &sine, &cosine);
    double p = rational(P0_NUM, P0_DEN, square), q = rational(Q0_NUM, Q0_DEN, square) * inverse;
    double plus = sine + cosine, minus = sine - cosine, scale = sqrt(1.0 / PI) / sqrt(x);
    return {(p * plus - q * minus) * scale, (p * minus + q * plus) * scale};
}

__device__ Waves order1(double x) {
    if (isinf(x)) return {0.0, 0.0};
    double sine, cosine, inverse = 1.0 / x, square = inverse * inverse;
    sincos(x, &sine, &cosine);
    double p = rational(P1_NUM, P1_DEN, square), q = rational(Q1_NUM, Q1_DEN, square) * inverse;
    double plus = sine + cosine, minus = sine - cosine, scale = sqrt(1.0 / PI) / sqrt(x);
    return {(p * minus + q * plus) * scale, (q * minus - p * plus) * scale};
}

__device__ double bessel_j0(double x) {
    double size = fabs(x);
    return size <= 8.0 ? j0_small(size) : order0(size).j;
}

__device__ double bessel_j1(double x) {
    double size = fabs(x), y = size <= 8.0 ? j1_small(size) : order1(size).j;
    return signbit(x) ? -y : y;
}

__device__ double bessel_y0(double x) {
    if (x < 0.0) return not_a_number();
    return x <= 8.0 ? y0_small(x) : order0(x).y;
}

__device__ double bessel_y1(double x) {
    if (x < 0.0) return not_a_number();
    return x <= 8.0 ? y1_small(x) : order1(x).y;
}
"""

_I = r"""
#define LOG_TWO 0.6931471805599453

__device__ double i0_small(double x) { return polynomial(I0_SMALL, x * x); }
__device__ double i1_small(double x) { return 0.5 * x * polynomial(I1_SMALL, x * x); }

template <int N> __device__ double i_large(const double (&table)[N], double x) {
    return polynomial(table, 16.0 / x - 1.0) / sqrt(x);
}

// exp(x) in two steps: it overflows before the Bessel function does.
__device__ double grow(double y, double x) {
    double half = exp(0.5 * x);
    return isinf(x) ? x : y * half * half;
}

__device__ double bessel_i0(double x) {
    double size = fabs(x);
    return size <= 8.0 ? i0_small(size) : grow(i_large(I0_LARGE, size), size);
}

__device__ double bessel_i0e(double x) {
    double size = fabs(x);
    return size <= 8.0 ? exp(-size) * i0_small(size) : i_large(I0_LARGE, size);
}

__device__ double bessel_i1(double x) {
    double size = fabs(x);
    return copysign(size <= 8.0 ? i1_small(size) : grow(i_large(I1_LARGE, size), size), x);
}

__device__ double bessel_i1e(double x) {
    double size = fabs(x);
    return copysign(size <= 8.0 ? exp(-size) * i1_small(size) : i_large(I1_LARGE, size), x);
}
"""

_K = r"""
__device__ double k0_small(double x) {
    return polynomial(K0_SMALL, x * x) - (log(x) - LOG_TWO) * i0_small(x);
}

__device__ double k1_small(double x) {
    if (x == 0.0) return infinity();
    return polynomial(K1_SMALL, x * x) / x + (log(x) - LOG_TWO) * i1_small(x);
}

__device__ double k0e_large(double x) {
    return rational(K0_LARGE_NUM, K0_LARGE_DEN, 1.0 / x) / sqrt(x);
}

__device__ double k1e_large(double x) {
    return rational(K1_LARGE_NUM, K1_LARGE_DEN, 1.0 / x) / sqrt(x);
}

__device__ double bessel_k0(double x) { return x <= 1.0 ? k0_small(x) : exp(-x) * k0e_large(x); }
__device__ double bessel_k0e(double x) { return x <= 1.0 ? exp(x) * k0_small(x) : k0e_large(x); }
__device__ double bessel_k1(double x) { return x <= 1.0 ? k1_small(x) : exp(-x) * k1e_large(x); }
__device__ double bessel_k1e(double x) { return x <= 1.0 ? exp(x) * k1_small(x) : k1e_large(x); }
"""
