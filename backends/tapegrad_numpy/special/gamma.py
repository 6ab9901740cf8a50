"""The logarithms of gamma and beta, and digamma."""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.special.arithmetic import rational, sin_pi
from tapegrad_numpy.special.blocks import Array, select

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

# B_2k / (2k (2k - 1)) for k = 7, 6, ..., 1: Stirling's series, exact to 1e-17 from x = 10 on.
_STIRLING_SERIES = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)

# The positive root of digamma, less 1, in two parts.
_ROOT_HEAD = 0.46163214496836236
_ROOT_TAIL = -1.5522348162858677e-17

# fmt: off
# lgamma(1 + z) / (z (z - 1)) as a quotient in z, for z in [0, 2].
_LGAMMA_NUM = (
    -5.0209211016827277e-08, 7.011331212205516e-06, 0.0015291339033793793, 0.03487820567997812,
    0.28198414104437125, 1.0431408601879522, 1.9157698560756649, 1.6970307842483225,
    0.5772156649015329,
)
_LGAMMA_DEN = (
    0.000443665945453292, 0.01632104432736667, 0.19600976429254008, 1.070029876507555,
    3.003809137258473, 4.479410331637851, 3.3649158726526185, 1.0,
)
# x (lgamma(x) - Stirling's formula) as a quotient in 1/x^2, for x >= 3.
_STIRLING_NUM = (
    -0.004396133922565389, 0.40360811878070635, 2.4170685910612137, 2.808973689088848,
    0.9367699882769914, 0.08333333333333333,
)
_STIRLING_DEN = (
    5.59056149795068, 30.040388378260612, 34.0739795659839, 11.27457319265718, 1.0,
)
# digamma(1 + z) / (z - root) as a quotient in z, for z in [0, 2].
_DIGAMMA_NUM = (
    -1.748231674440655e-08, 2.6904151367392755e-06, 0.0008578307752249201, 0.02455749167435558,
    0.24170561016798114, 1.0260107836119703, 1.9069173636030237, 1.2503801375034054,
)
_DIGAMMA_DEN = (
    0.00018866484725447893, 0.007821916883329972, 0.10491069102935123, 0.6171210576785768,
    1.7284605388858854, 2.208616916867243, 1.0,
)
# x^2 (log(x) - 1/(2 x) - digamma(x)) as a quotient in 1/x^2, for x >= 3.
_DIGAMMA_TAIL_NUM = (
    0.3448466420202936, 5.344492545062956, 11.197395977794681, 6.768017766519249,
    1.3859972026577996, 0.08333333333333333,
)
_DIGAMMA_TAIL_DEN = (
    7.7673433990157985, 75.12537015372516, 141.90617050159042, 82.84179079382739, 16.73196643189354,
    1.0,
)
# fmt: on


def lgamma(x: Array) -> Array:
    """Evaluate log|Gamma(x)|: inf at 0, at the negative integers and at +-inf.

    Relative accuracy holds around the zeros at 1 and 2; around those at negative x it is absolute.
    """
    return select(
        (x,),
        (x < 0.0, _lgamma_negative),
        (x < 1.0, lambda x: lgamma1p(x) - np.log(x)),
        (x < 3.0, lambda x: lgamma1p(x - 1.0)),
        otherwise=_lgamma_large,
    )


def lgamma1p(z: Array) -> Array:
    """Evaluate lgamma(1 + z) for z in [0, 2], relative accuracy kept at z = 0 and 1."""
    return z * (z - 1.0) * rational(_LGAMMA_NUM, _LGAMMA_DEN, z)


def stirling_error(x: Array) -> Array:
    """Evaluate lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi)/2) for x >= 3."""
    inverse = 1.0 / x
    return rational(_STIRLING_NUM, _STIRLING_DEN, inverse * inverse) * inverse


def _lgamma_large(x: Array) -> Array:
    y = (x - 0.5) * (np.log(x) - 1.0)
    return y + (stirling_error(x) + (_HALF_LOG_TWO_PI - 0.5))


def _lgamma_negative(x: Array) -> Array:
    # Gamma(-x) Gamma(1 + x) = -pi / sin(pi x)
    size = -x
    sine = np.abs(sin_pi(size))
    y = -np.log(sine / np.pi) - np.log(size) - lgamma(size)
    return np.where((sine == 0.0) | np.isinf(x), np.inf, y)


def digamma(x: Array) -> Array:
    """Evaluate the derivative of lgamma: nan at the poles 0, -1, -2, ... and at -inf.

    Relative accuracy holds around the positive root; around the negative ones it is absolute.
    """
    return select((x,), (x <= 0.0, _digamma_negative), otherwise=_digamma_positive)


def _digamma_positive(x: Array) -> Array:
    return select(
        (x,),
        (x < 1.0, lambda x: _digamma1p(x) - 1.0 / x),
        (x < 3.0, lambda x: _digamma1p(x - 1.0)),
        otherwise=_digamma_large,
    )


def _digamma1p(z: Array) -> Array:
    return ((z - _ROOT_HEAD) - _ROOT_TAIL) * rational(_DIGAMMA_NUM, _DIGAMMA_DEN, z)


def _digamma_large(x: Array) -> Array:
    inverse = 1.0 / x
    tail = rational(_DIGAMMA_TAIL_NUM, _DIGAMMA_TAIL_DEN, inverse * inverse)
    return np.log(x) - (0.5 + tail * inverse) * inverse


def _digamma_negative(x: Array) -> Array:
    # digamma(-x) = digamma(1 + x) + pi cot(pi x)
    size = -x
    fraction = size - np.round(size)
    y = _digamma_positive(1.0 + size) + np.pi / np.tan(np.pi * fraction)
    return np.where(fraction == 0.0, np.nan, y)


def log_gamma_ratio(a: Array, b: Array) -> Array:
    """Evaluate lgamma(a) - lgamma(a + b) without cancellation, for a and a + b above 10."""
    c = a + b
    y = b - (c - 0.5) * np.log1p(b / a) - b * np.log(a)
    # Horner's rule for t p(t^2) at t = 1/a less t = 1/c, without subtracting the two values.
    u, v = 1.0 / c, 1.0 / a
    u2, v2 = u * u, v * v
    value = np.full(u.shape, _STIRLING_SERIES[0])
    difference = np.zeros(u.shape)
    for coefficient in _STIRLING_SERIES[1:]:
        difference = difference * v2 + value
        value = value * u2 + coefficient
    return y + b * u * v * (value + v * (u + v) * difference)


def lbeta(a: Array, b: Array) -> Array:
    """Evaluate lgamma(a) + lgamma(b) - lgamma(a + b), which is log B(a, b) for positive arguments.

    For a, b >= 0: inf where one is 0, else -inf where one is inf. The error is relative to the
    largest of the three terms where all are small, and to the result where a or b is large.
    """
    low, high = np.minimum(a, b), np.maximum(a, b)
    y = select(
        (low, high),
        (low >= 10.0, _lbeta_large),
        ((high >= 10.0) & (low + high >= 10.0), lambda a, b: lgamma(a) + log_gamma_ratio(b, a)),
        otherwise=lambda a, b: lgamma(a) + (lgamma(b) - lgamma(a + b)),
    )
    y = np.where((low > 0.0) & np.isposinf(high), -np.inf, y)
    return np.where((low == 0.0) & (high >= 0.0), np.inf, y)


def _lbeta_large(a: Array, b: Array) -> Array:
    """Stirling's formula for all three terms, for 10 <= a <= b."""
    c = a + b
    y = (a - 0.5) * np.log(a / c) - b * np.log1p(a / b) - 0.5 * np.log(b)
    return y + (_HALF_LOG_TWO_PI + stirling_error(a) + stirling_error(b) - stirling_error(c))
