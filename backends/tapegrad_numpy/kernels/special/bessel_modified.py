"""Modified Bessel functions I and K of orders 0 and 1, plain and exponentially scaled."""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import polynomial, rational
from tapegrad_numpy.kernels.special.blocks import Array, select

# fmt: off
# I0(x) and 2 I1(x) / x as polynomials in x^2, for |x| <= 8.
I0_SMALL = (
    8.567002249607421e-34, 4.199201932132491e-31, 3.9335523137988905e-28, 2.590172742960339e-25,
    1.496778858841334e-22, 7.242074009758154e-20, 2.8969089125593745e-17, 9.385965799510806e-15,
    2.4028075678371807e-12, 4.709502795104375e-10, 6.781684027919355e-08, 6.781684027771287e-06,
    0.0004340277777777951, 0.015624999999999977, 0.25, 1.0,
)
I1_SMALL = (
    5.262205321126617e-35, 2.8408342883219564e-32, 2.801365133706253e-29, 1.9934290342004675e-26,
    1.247238424671786e-23, 6.583745480941034e-21, 2.8969073058910543e-18, 1.0428851329874e-15,
    3.003509451146763e-13, 6.72786113705307e-11, 1.130280671308724e-08, 1.356336805554941e-06,
    0.00010850694444444624, 0.0052083333333333304, 0.125, 1.0,
)
# sqrt(x) exp(-x) I(x) as polynomials in 16/x - 1, for x > 8.
I0_LARGE = (
    -1.704183330693484e-11, 9.642455218063631e-11, 1.3437205445086832e-10, -6.785764944010945e-10,
    -5.257771388971349e-10, 2.2330847374006378e-09, 1.4551903579533622e-09, -4.624094460763146e-09,
    -3.4482898658110097e-09, 6.600556496203587e-09, 7.519190371970744e-09, -5.059720516759496e-09,
    -1.3396258793850186e-08, -6.841917269905277e-09, 7.551614097675541e-09, 2.1564663579050814e-08,
    3.932629985425149e-08, 8.872054196570521e-08, 2.9735982129382487e-07, 1.4838476524508724e-06,
    1.1143033792356901e-05, 0.00013621607439016347, 0.0033605519836678458, 0.4021765094450081,
)
I1_LARGE = (
    1.6377991766315247e-11, -1.0032710299978595e-10, -1.2786426581304473e-10, 7.071236961536277e-10,
    4.990347936467678e-10, -2.3336071859051494e-09, -1.3953877418098076e-09, 4.859710996273121e-09,
    3.387627037172863e-09, -7.024755803883804e-09, -7.619986603386587e-09, 5.61526438683768e-09,
    1.4025721510592858e-08, 6.83261631199852e-09, -8.425689161493787e-09, -2.339089272375865e-08,
    -4.3129486358010206e-08, -1.0001115780868038e-07, -3.483855505765236e-07,
    -1.834910223011883e-06, -1.5038547201540274e-05, -0.0002192357638320459, -0.009749577193235725,
    0.38939845902587233,
)
# K0(x) + log(x/2) I0(x) and x (K1(x) - log(x/2) I1(x)) as polynomials in x^2, for x <= 1.
K0_SMALL = (
    4.924197423151248e-12, 8.818563352815313e-10, 1.1570362123480835e-07, 1.021401408349759e-05,
    0.0005451899602702195, 0.014418505235911878, 0.10569608377461687, -0.5772156649015329,
)
K1_SMALL = (
    -3.1727922558011604e-13, -6.539220940099309e-11, -1.01129192821347e-08, -1.089218248043956e-06,
    -7.493042906190412e-05, -0.0028371119837629767, -0.04204902094365424, 0.03860783245076643, 1.0,
)
# sqrt(x) exp(x) K(x) as quotients in 1/x, for x > 1.
K0_LARGE_NUM = (
    -0.0034902703920372032, 0.6277165382264105, 21.015478605242908, 155.2119780558835,
    438.3815691893107, 574.7311996611519, 379.47246056270853, 127.9508899105311, 20.68945969097205,
    1.2533141373155003,
)
K0_LARGE_DEN = (
    1.1458489211309504, 24.708224803262915, 153.23521122780272, 395.09880589091847,
    491.6921875513777, 314.69131933271296, 104.09882715794856, 16.63280045877982, 1.0,
)
K1_LARGE_NUM = (
    0.03032813567154289, 3.005671441908419, 43.85492147910621, 223.33041515046583,
    517.9766436978547, 612.1373559467507, 384.39251757699805, 127.14430929553257,
    20.525108412489022, 1.2533141373155003,
)
K1_LARGE_DEN = (
    0.4335935531517202, 13.038412241079655, 98.26311189830503, 289.01180995173013,
    395.8781254478038, 272.63736997229216, 95.56304371417417, 16.001667111130004, 1.0,
)
# fmt: on


def i0(x: Array) -> Array:
    """Evaluate I0(x), even; inf beyond |x| = 713."""
    return select(
        (np.abs(x),),
        (np.abs(x) <= 8.0, _i0_small),
        otherwise=lambda x: _grow(_large(I0_LARGE, x), x),
    )


def i0e(x: Array) -> Array:
    """Evaluate exp(-|x|) I0(x); 0 at +-inf."""
    return select(
        (np.abs(x),),
        (np.abs(x) <= 8.0, lambda x: np.exp(-x) * _i0_small(x)),
        otherwise=lambda x: _large(I0_LARGE, x),
    )


def i1(x: Array) -> Array:
    """Evaluate I1(x), odd; +-inf beyond |x| = 713."""
    y = select(
        (np.abs(x),),
        (np.abs(x) <= 8.0, _i1_small),
        otherwise=lambda x: _grow(_large(I1_LARGE, x), x),
    )
    return np.copysign(y, x)


def i1e(x: Array) -> Array:
    """Evaluate exp(-|x|) I1(x); +-0 at +-inf."""
    y = select(
        (np.abs(x),),
        (np.abs(x) <= 8.0, lambda x: np.exp(-x) * _i1_small(x)),
        otherwise=lambda x: _large(I1_LARGE, x),
    )
    return np.copysign(y, x)


def _i0_small(x: Array) -> Array:
    return polynomial(I0_SMALL, x * x)


def _i1_small(x: Array) -> Array:
    return 0.5 * x * polynomial(I1_SMALL, x * x)


def _large(coefficients: tuple[float, ...], x: Array) -> Array:
    return polynomial(coefficients, 16.0 / x - 1.0) / np.sqrt(x)


def _grow(y: Array, x: Array) -> Array:
    # exp(x) in two steps: it overflows before the Bessel function does.
    half = np.exp(0.5 * x)
    return np.where(np.isposinf(x), np.inf, y * half * half)


def k0(x: Array) -> Array:
    """Evaluate K0(x); inf at 0, nan for x < 0."""
    return select((x,), (x <= 1.0, _k0_small), otherwise=lambda x: np.exp(-x) * _k0e_large(x))


def k0e(x: Array) -> Array:
    """Evaluate exp(x) K0(x); inf at 0, nan for x < 0."""
    return select((x,), (x <= 1.0, lambda x: np.exp(x) * _k0_small(x)), otherwise=_k0e_large)


def k1(x: Array) -> Array:
    """Evaluate K1(x); inf at 0, nan for x < 0."""
    return select((x,), (x <= 1.0, _k1_small), otherwise=lambda x: np.exp(-x) * _k1e_large(x))


def k1e(x: Array) -> Array:
    """Evaluate exp(x) K1(x); inf at 0, nan for x < 0."""
    return select((x,), (x <= 1.0, lambda x: np.exp(x) * _k1_small(x)), otherwise=_k1e_large)


def _k0_small(x: Array) -> Array:
    return polynomial(K0_SMALL, x * x) - (np.log(x) - math.log(2.0)) * _i0_small(x)


def _k1_small(x: Array) -> Array:
    y = polynomial(K1_SMALL, x * x) / x + (np.log(x) - math.log(2.0)) * _i1_small(x)
    return np.where(x == 0.0, np.inf, y)


def _k0e_large(x: Array) -> Array:
    return rational(K0_LARGE_NUM, K0_LARGE_DEN, 1.0 / x) / np.sqrt(x)


def _k1e_large(x: Array) -> Array:
    return rational(K1_LARGE_NUM, K1_LARGE_DEN, 1.0 / x) / np.sqrt(x)
