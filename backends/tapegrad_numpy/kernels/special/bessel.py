"""Bessel functions J and Y of orders 0 and 1.

Around their zeros the error is absolute, in units of the amplitude sqrt(2 / (pi x)); the first two
zeros of J0 and J1 keep relative accuracy.
"""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import polynomial, rational
from tapegrad_numpy.kernels.special.blocks import Array, select

# The first two positive zeros of J0 and of J1, each in two parts.
_J0_ZEROS = (
    (2.404825557695773, -1.176691651530894e-16),
    (5.520078110286311, 8.088597146146722e-17),
)
_J1_ZEROS = (
    (3.8317059702075125, -1.5269184090088067e-16),
    (7.015586669815619, -9.414165653410389e-17),
)

# fmt: off
# For x <= 8, polynomials in x^2/32 - 1:
# J0(x), and J1(x) / x, over the product of (x^2 - zero^2).
J0 = (
    3.8948723823708683e-16, -1.2478042244017754e-14, 3.392709071300703e-13, -8.023488377134523e-12,
    1.6276484484650603e-10, -2.7948629484567106e-09, 3.998839348720572e-08, -4.6771280214145153e-07,
    4.366932324630008e-06, -3.1573425402232216e-05, 0.00016977200713998007, -0.0006415390646406127,
    0.0015636431645931661, -0.002119794289479692, 0.0011434937743762545,
)
J1 = (
    1.1592110943025952e-17, -3.9097158168201556e-16, 1.1343879191092292e-14, -2.875533146592334e-13,
    6.2847328139586446e-12, -1.1696932493603547e-10, 1.8268547702053008e-09,
    -2.3521922545945457e-08, 2.442522260749763e-07, -1.989093515914209e-06, 1.2242173653015645e-05,
    -5.4080032390855064e-05, 0.0001586001679936987, -0.0002697522746716368, 0.00019498936985895625,
)
# Y0(x) - 2/pi log(x/2) J0(x), and (Y1(x) - 2/pi (log(x/2) J1(x) - 1/x)) / x.
Y0 = (
    -7.074678472115287e-13, 2.1440607971068e-11, -5.64626366788929e-10, 1.2898070896763001e-08,
    -2.514410711443605e-07, 4.122054348358319e-06, -5.581830462634368e-05, 0.0006104345643799197,
    -0.005235027670799332, 0.03380285696399606, -0.15453679652310545, 0.4482460446356314,
    -0.6193407826303358, -0.21245999442065944, 1.3609456599655456, -0.4179207423206952,
    -0.3620273432371452,
)
Y1 = (
    -2.161753377109295e-14, 6.992898458738004e-13, -1.9764076595645646e-11, 4.871020797983244e-10,
    -1.031538887215058e-08, 1.8524201840522694e-07, -2.7765055805366635e-06, 3.4063633753163964e-05,
    -0.0003337225701114719, 0.0025271340466828155, -0.014131923394248489, 0.054390116307946296,
    -0.12641995056569882, 0.12052035426888161, 0.09022750636730935, -0.20760857842830602,
    0.04510266206869483,
)
# For x > 8, quotients in 1/x^2 of Hankel's P and x Q, for orders 0 and 1.
P0_NUM = (
    41933.15126125111, 113247.01705173016, 40055.33698549479, 3806.745174271902, 116.16371119029716,
    1.0,
)
P0_DEN = (
    47136.28475763081, 115714.02310049812, 40311.10212471969, 3814.8057269630676,
    116.23402369029715, 1.0,
)
Q0_NUM = (
    18769.920076738894, -121520.26743097762, -106503.50731486859, -18426.135318796318,
    -1030.607319877664, -20.621824288023777, -0.125,
)
Q0_DEN = (
    1327147.4351612304, 928036.3126173646, 152008.8513383938, 8340.04981911198, 165.56053180419013,
    1.0,
)
P1_NUM = (
    38327.385186142455, 100582.88410667684, 37105.947607251765, 3646.1618934380585,
    114.03128155143094, 1.0,
)
P1_DEN = (
    30487.07156425351, 96736.2429685789, 36695.959798158714, 3632.9567810979893, 113.91409405143095,
    1.0,
)
Q1_NUM = (
    -27256.838802010152, 370282.6578190469, 306201.0675102876, 53306.2910490585, 3020.403082263366,
    61.19598756197247, 0.375,
)
Q1_DEN = (
    1146066.293470933, 850781.0959980156, 144248.8264404236, 8098.364857842017, 163.4627376652599,
    1.0,
)
# fmt: on


def j0(x: Array) -> Array:
    """Evaluate J0(x), even; 0 at +-inf."""
    size = np.abs(x)
    return select((size,), (size <= 8.0, _j0_small), otherwise=lambda x: _order0(x)[0])


def j1(x: Array) -> Array:
    """Evaluate J1(x), odd; 0 at +-inf."""
    size = np.abs(x)
    y = select((size,), (size <= 8.0, _j1_small), otherwise=lambda x: _order1(x)[0])
    return np.where(np.signbit(x), -y, y)


def y0(x: Array) -> Array:
    """Evaluate Y0(x); -inf at 0, 0 at inf, nan for x < 0."""
    return select((x,), (x <= 8.0, _y0_small), otherwise=lambda x: _order0(x)[1])


def y1(x: Array) -> Array:
    """Evaluate Y1(x); -inf at 0, 0 at inf, nan for x < 0."""
    return select((x,), (x <= 8.0, _y1_small), otherwise=lambda x: _order1(x)[1])


def _j0_small(x: Array) -> Array:
    return _vanish(x, _J0_ZEROS) * polynomial(J0, x * x / 32.0 - 1.0)


def _j1_small(x: Array) -> Array:
    return x * _vanish(x, _J1_ZEROS) * polynomial(J1, x * x / 32.0 - 1.0)


def _vanish(x: Array, zeros: tuple[tuple[float, float], ...]) -> Array:
    """The product of (x^2 - zero^2)."""
    y = np.ones(x.shape)
    for head, tail in zeros:
        y *= ((x - head) - tail) * (x + head)
    return y


def _y0_small(x: Array) -> Array:
    y = polynomial(Y0, x * x / 32.0 - 1.0)
    return y + (2.0 / math.pi) * (np.log(x) - math.log(2.0)) * _j0_small(x)


def _y1_small(x: Array) -> Array:
    y = x * polynomial(Y1, x * x / 32.0 - 1.0)
    y += (2.0 / math.pi) * ((np.log(x) - math.log(2.0)) * _j1_small(x) - 1.0 / x)
    return np.where(x == 0.0, -np.inf, y)


def _order0(x: Array) -> tuple[Array, Array]:
    """J0 and Y0 = sqrt(2/(pi x)) times P cos w -+ Q sin w and P sin w + Q cos w, w = x - pi/4."""
    p, q, plus, minus, scale = _waves(x, P0_NUM, P0_DEN, Q0_NUM, Q0_DEN)
    return (p * plus - q * minus) * scale, (p * minus + q * plus) * scale


def _order1(x: Array) -> tuple[Array, Array]:
    """J1 and Y1, as for order 0 with w = x - 3 pi/4."""
    p, q, plus, minus, scale = _waves(x, P1_NUM, P1_DEN, Q1_NUM, Q1_DEN)
    return (p * minus + q * plus) * scale, (q * minus - p * plus) * scale


def _waves(x: Array, *tables: tuple[float, ...]) -> tuple[Array, Array, Array, Array, Array]:
    """P, Q, sin x + cos x, sin x - cos x, and 1 / sqrt(pi x); x itself is never shifted."""
    # At inf the waves have no value, but their scale is 0.
    angle = np.where(np.isinf(x), 0.0, x)
    sine, cosine = np.sin(angle), np.cos(angle)
    inverse = 1.0 / x
    square = inverse * inverse
    p = rational(tables[0], tables[1], square)
    q = rational(tables[2], tables[3], square) * inverse
    return p, q, sine + cosine, sine - cosine, math.sqrt(1.0 / math.pi) / np.sqrt(x)
