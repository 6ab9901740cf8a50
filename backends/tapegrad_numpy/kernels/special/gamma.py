"""The gamma family: lgamma, digamma and its derivatives through Hurwitz zeta, and lbeta."""

from __future__ import annotations

import functools
import math

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import rational, sin_pi
from tapegrad_numpy.kernels.special.blocks import Array, select

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

# B_2k / (2k (2k - 1)) for k = 7, 6, ..., 1: Stirling's series, exact to 3e-17 from x = 10 on.
STIRLING_SERIES = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)

# The positive root of digamma, less 1, in two parts.
_ROOT_HEAD = 0.46163214496836236
_ROOT_TAIL = -1.5522348162858677e-17

# fmt: off
# lgamma(1 + z) / (z (z - 1)) as a quotient in z, for z in [0, 2].
LGAMMA_NUM = (
    -5.0209211016827277e-08, 7.011331212205516e-06, 0.0015291339033793793, 0.03487820567997812,
    0.28198414104437125, 1.0431408601879522, 1.9157698560756649, 1.6970307842483225,
    0.5772156649015329,
)
LGAMMA_DEN = (
    0.000443665945453292, 0.01632104432736667, 0.19600976429254008, 1.070029876507555,
    3.003809137258473, 4.479410331637851, 3.3649158726526185, 1.0,
)
# x (lgamma(x) - Stirling's formula) as a quotient in 1/x^2, for x >= 3.
STIRLING_NUM = (
    -0.004396133922565389, 0.40360811878070635, 2.4170685910612137, 2.808973689088848,
    0.9367699882769914, 0.08333333333333333,
)
STIRLING_DEN = (
    5.59056149795068, 30.040388378260612, 34.0739795659839, 11.27457319265718, 1.0,
)
# digamma(1 + z) / (z - root) as a quotient in z, for z in [0, 2].
DIGAMMA_NUM = (
    -1.748231674440655e-08, 2.6904151367392755e-06, 0.0008578307752249201, 0.02455749167435558,
    0.24170561016798114, 1.0260107836119703, 1.9069173636030237, 1.2503801375034054,
)
DIGAMMA_DEN = (
    0.00018866484725447893, 0.007821916883329972, 0.10491069102935123, 0.6171210576785768,
    1.7284605388858854, 2.208616916867243, 1.0,
)
# x^2 (log(x) - 1/(2 x) - digamma(x)) as a quotient in 1/x^2, for x >= 3.
DIGAMMA_TAIL_NUM = (
    0.3448466420202936, 5.344492545062956, 11.197395977794681, 6.768017766519249,
    1.3859972026577996, 0.08333333333333333,
)
DIGAMMA_TAIL_DEN = (
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
    return z * (z - 1.0) * rational(LGAMMA_NUM, LGAMMA_DEN, z)


def stirling_error(x: Array) -> Array:
    """Evaluate lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi)/2) for x >= 3."""
    inverse = 1.0 / x
    return rational(STIRLING_NUM, STIRLING_DEN, inverse * inverse) * inverse


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
    return ((z - _ROOT_HEAD) - _ROOT_TAIL) * rational(DIGAMMA_NUM, DIGAMMA_DEN, z)


def _digamma_large(x: Array) -> Array:
    inverse = 1.0 / x
    tail = rational(DIGAMMA_TAIL_NUM, DIGAMMA_TAIL_DEN, inverse * inverse)
    return np.log(x) - (0.5 + tail * inverse) * inverse


def _digamma_negative(x: Array) -> Array:
    # digamma(-x) = digamma(1 + x) + pi cot(pi x)
    size = -x
    fraction = size - np.round(size)
    y = _digamma_positive(1.0 + size) + np.pi / np.tan(np.pi * fraction)
    return np.where(fraction == 0.0, np.nan, y)


# Terms summed one by one before the Euler-Maclaurin tail takes over.
_HEAD = 8

# B_2k / (2k)! for k = 1, 2, ...: the Bernoulli weights of the tail.
BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)


def zeta(x: Array, q: Array) -> Array:
    """Evaluate the sum over k >= 0 of (q + k)^-x, for x > 1.

    inf at x = 1 and at q = 0, -1, -2, ...; nan for x < 1, and for q < 0 unless x is an integer.
    """
    y = select((x, q), (q < 0.0, _zeta_negative), otherwise=_zeta_positive)
    y = np.where((q <= 0.0) & (q == np.floor(q)), np.inf, y)
    return np.where(x > 1.0, y, np.where(x == 1.0, np.inf, np.nan))


def _zeta_positive(x: Array, q: Array) -> Array:
    power = -x
    y = q**power
    for k in range(1, _HEAD):
        y += (q + k) ** power
    end = q + _HEAD
    square = end * end
    tail = np.full(x.shape, BERNOULLI[-1])
    for k in range(2 * len(BERNOULLI) - 3, 0, -2):
        tail *= (x + k) * (x + (k + 1)) / square
        tail += BERNOULLI[k // 2]
    tail = 1.0 / (x - 1.0) + (0.5 + x / end * tail) / end
    scale = end ** (1.0 - x)
    # Beyond this ratio the tail is below 1e-17 of the first term, and its series diverges.
    return np.where((x > 5.0 * end) | (scale == 0.0), y, y + scale * tail)


def _zeta_negative(x: Array, q: Array) -> Array:
    # The sum over all integers, less the part below q. It is even or odd about the nearest pole,
    # and written in pairs that cancel exactly halfway between poles, where it is 0 for odd x.
    near = q - np.round(q)
    sign = np.where(x % 2.0 == 0.0, 1.0, -1.0)
    d = np.abs(near)
    whole = d**-x + sign * (1.0 - d) ** -x
    whole += _zeta_positive(x, 1.0 + d) + sign * _zeta_positive(x, 2.0 - d)
    y = np.where(near < 0.0, sign * whole, whole) - sign * _zeta_positive(x, 1.0 - q)
    return np.where(x == np.floor(x), y, np.nan)


def polygamma(n: Array, x: Array) -> Array:
    """Evaluate the n-th derivative of digamma, (-1)^(n+1) n! zeta(n + 1, x) for n >= 1.

    nan where n is negative or not an integer; +-inf at the poles for n >= 1. Where zeta itself
    leaves the range of float64 the result is 0 or inf, even if n! would bring it back.
    """
    valid = (n >= 0.0) & (n == np.floor(n))
    return select(
        (n, x),
        (~valid, lambda n, x: np.full(n.shape, np.nan)),
        (n == 0.0, lambda n, x: digamma(x)),
        otherwise=_polygamma_positive,
    )


def _polygamma_positive(n: Array, x: Array) -> Array:
    y = select(
        (n, zeta(n + 1.0, x)),
        (n <= 170.0, lambda n, y: y * _factorials()[n.astype(np.intp)]),
        otherwise=lambda n, y: np.copysign(np.exp(lgamma(n + 1.0) + np.log(np.abs(y))), y),
    )
    return np.where(n % 2.0 == 0.0, -y, y)


@functools.cache
def _factorials() -> Array:
    return np.array([float(math.factorial(n)) for n in range(171)])


def log_gamma_ratio(a: Array, b: Array) -> Array:
    """Evaluate lgamma(a) - lgamma(a + b) without cancellation, for a and a + b above 10."""
    c = a + b
    y = b - (c - 0.5) * np.log1p(b / a) - b * np.log(a)
    # Horner's rule for t p(t^2) at t = 1/a less t = 1/c, without subtracting the two values.
    u, v = 1.0 / c, 1.0 / a
    u2, v2 = u * u, v * v
    value = np.full(u.shape, STIRLING_SERIES[0])
    difference = np.zeros(u.shape)
    for coefficient in STIRLING_SERIES[1:]:
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
