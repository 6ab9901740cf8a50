"""CUDA source of Dawson's, the exponential, the dilogarithm's and Fresnel's integrals.

Formulas and coefficients are those of tapegrad_numpy.kernels.special.integrals; all in float64.
"""

from __future__ import annotations

from tapegrad_cupy.kernels.special.special_source import BLOCKS, END, c_tables
from tapegrad_numpy.kernels.special import integrals


def integrals_source() -> str:
    """Return definitions of dawsn, expint, spence, fresnel_sin and fresnel_cos."""
    return BLOCKS + c_tables(integrals, _TABLES) + _DAWSN_AND_EXPINT + _SPENCE + _FRESNEL + END


_TABLES = """
    DAWSN_SMALL_NUM DAWSN_SMALL_DEN DAWSN_MIDDLE_NUM DAWSN_MIDDLE_DEN DAWSN_LARGE
    EI_SMALL_NUM EI_SMALL_DEN EI_6_NUM EI_6_DEN EI_12_NUM EI_12_DEN EI_24
    E1_SMALL_NUM E1_SMALL_DEN E1_LARGE_NUM E1_LARGE_DEN
    DEBYE S_SMALL C_SMALL F_NUM F_DEN G_NUM G_DEN
"""

_DAWSN_AND_EXPINT = r"""
__device__ double dawsn(double x) {
    double size = fabs(x);
    if (size <= 2.5) return x * rational(DAWSN_SMALL_NUM, DAWSN_SMALL_DEN, x * x);
    if (size <= 5.0) return x * rational(DAWSN_MIDDLE_NUM, DAWSN_MIDDLE_DEN, x * x);
    double inverse = 1.0 / x;
    return polynomial(DAWSN_LARGE, inverse * inverse) / x;
}

__device__ double e1(double x) {
    if (x <= 1.0) {
        return x * rational(E1_SMALL_NUM, E1_SMALL_DEN, x) - (log(x) + 0.5772156649015329);
    }
    return exp(-x) * rational(E1_LARGE_NUM, E1_LARGE_DEN, 1.0 / x) / x;
}

__device__ double ei_small(double x) {
    // The zero of Ei, in two parts.
    double head = 0.3725074107813666, tail = 1.3140183414386028e-17;
    double offset = (x - head) - tail;
    double logarithm = fabs(offset) < 0.2 ? log1p(offset / head) : log(x) - log(head);
    return logarithm + offset * rational(EI_SMALL_NUM, EI_SMALL_DEN, x / 3.0 - 1.0);
}

__device__ double expint(double x) {
    if (x < 0.0) return isinf(x) ? -0.0 : -e1(-x);
    if (x <= 6.0) return ei_small(x);
    if (isinf(x)) return x;
    double y;
    if (x <= 12.0) y = rational(EI_6_NUM, EI_6_DEN, 1.0 / x);
    else if (x <= 24.0) y = rational(EI_12_NUM, EI_12_DEN, 48.0 / x - 3.0);
    else y = polynomial(EI_24, 1.0 / x);
    // In two steps, because exp(x) alone overflows earlier.
    double half = exp(0.5 * x);
    return y / x * half * half;
}
"""

_SPENCE = r"""
// Li2(1 - exp(-u))
__device__ double debye(double u) {
    double u2 = u * u;
    return u - 0.25 * u2 + u * u2 * polynomial(DEBYE, u2);
}

__device__ double spence_small(double x) {
    double logarithm = log1p(-x);
    double product = x == 0.0 ? 0.0 : log(x) * logarithm;
    return PI * PI / 6.0 - product - debye(-logarithm);
}

__device__ double spence(double x) {
    if (x < 0.5) return spence_small(x);
    double logarithm = log(x);
    if (x <= 2.0) return debye(-logarithm);
    return -0.5 * logarithm * logarithm - spence_small(1.0 / x);
}
"""

_FRESNEL = r"""
__device__ double scaled_fourth(double x) {
    double x2 = x * x;
    return x2 * x2 / 3.2768 - 1.0;
}

__device__ double mod4(double x) { return x - 4.0 * floor(0.25 * x); }

struct Fresnel { double sine, cosine; };

// S = 1/2 - f cos w - g sin w and C = 1/2 + f sin w - g cos w, with w = pi x^2 / 2.
__device__ Fresnel fresnel_large(double x) {
    // Beyond 1e17 the waves are below the rounding of 1/2. A NaN must not be lost here.
    double size = fabs(x) > 1e17 ? 1e17 : fabs(x);
    double rounded = size * size, lost = fma(size, size, -rounded);
    double turn = 0.5 * mod4(mod4(rounded) + mod4(lost));
    double inverse = 1.0 / rounded, fourth = inverse * inverse;
    double f = rational(F_NUM, F_DEN, fourth) / (PI * size);
    double g = rational(G_NUM, G_DEN, fourth) * inverse / (PI * PI * size);
    double sine = sin(PI * turn), cosine = cos(PI * turn);
    return {0.5 - (f * cosine + g * sine), 0.5 + (f * sine - g * cosine)};
}

__device__ double fresnel_sin(double x) {
    if (fabs(x) <= 1.6) return x * x * x * polynomial(S_SMALL, scaled_fourth(x));
    return copysign(fresnel_large(x).sine, x);
}

__device__ double fresnel_cos(double x) {
    if (fabs(x) <= 1.6) return x * polynomial(C_SMALL, scaled_fourth(x));
    return copysign(fresnel_large(x).cosine, x);
}
"""
