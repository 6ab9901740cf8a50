"""Single integrals: Dawson's, the exponential integral, the dilogarithm, Fresnel's."""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import polynomial, rational, square
from tapegrad_numpy.kernels.special.blocks import Array, select

_EULER_GAMMA = 0.5772156649015329

# The zero of Ei, in two parts.
_ZERO_HEAD = 0.3725074107813666
_ZERO_TAIL = 1.3140183414386028e-17

# fmt: off
# dawsn(x) / x as quotients in x^2, for x <= 2.5 and 2.5 < x <= 5.
DAWSN_SMALL_NUM = (
    -5.099196382609302e-12, 5.827765975479289e-10, -3.0137296506319895e-08, 1.1581726173526182e-06,
    -2.1902074205489977e-05, 0.0004731182672867704, -0.004061213208291317, 0.050576892189208425,
    -0.1657431175496424, 1.0,
)
DAWSN_SMALL_DEN = (
    2.9072857005342504e-09, 1.802592033197978e-07, 5.722163442271085e-06, 0.00011791976201403307,
    0.0016933620265555235, 0.017122488729108494, 0.1178592582672272, 0.5009235491170241, 1.0,
)
DAWSN_MIDDLE_NUM = (
    6.843660624542703e-16, 8.925650830655252e-10, -7.867312245702925e-09, 4.1489896040002314e-07,
    -2.4838270080741404e-07, 5.522897346455309e-05, 0.00032057204505674466, 0.002565736631352094,
    0.03813701893537368, -0.01601289342774468, 0.9956221501684523,
)
DAWSN_MIDDLE_DEN = (
    1.7854977291039805e-09, -1.6672616482075345e-08, 8.401634534728279e-07, -1.0760952933998338e-06,
    0.000116313645547105, 0.00043273366641692976, 0.00751486140261345, 0.03843998908880484,
    0.21138952777852857, 0.6396001633851686, 1.0,
)
# x dawsn(x) as a polynomial in 1/x^2, for x > 5.
DAWSN_LARGE = (
    1.9270525145277688e+18, -4.8616292803265376e+17, 4.777372879415828e+16, -1845575545997230.0,
    -48749781835382.71, 9568082671982.363, -559877029275.0208, 19942182108.645992,
    -487931223.882535, 8603181.3230321, -105234.2408587973, 1534.5016562001845, 74.60781351879064,
    14.79550301322029, 3.281161335993124, 0.937500159029285, 0.37499999985024907,
    0.25000000000005573, 0.5,
)
# (Ei(x) - log(x/zero)) / (x - zero) as a quotient in x/3 - 1, for x <= 6.
EI_SMALL_NUM = (
    7.721960999942204e-07, 1.4063415764131911e-05, 0.0005101296180683112, 0.0005468398580965219,
    0.03973415426063533, -0.010392742650647097, 0.7557782470113442, -0.14335615010476455,
    2.986772243435986,
)
EI_SMALL_DEN = (
    3.799586585617307e-06, -0.00011152376323663086, 0.0015590120254937903, -0.013475490396700578,
    0.07834840562327217, -0.31226629819805607, 0.82961937908684, -1.3382084000255061, 1.0,
)
# x exp(-x) Ei(x) in 1/x, for x in (6, 12], in 48/x - 3 for (12, 24], in 1/x beyond.
EI_6_NUM = (
    -3919768.9621083066, 8455650.79191111, -703698.9019788601, 154277.80362667728,
    15597.797618190727, -780.682678012155, 307.25966139753393, -10.53597598594364,
    0.9989573520003433,
)
EI_6_DEN = (
    4683194.400820905, 495575.4207370251, 703112.8568410713, -23469.81858237996, 26395.354529571407,
    -1500.5552791894909, 327.5774813575143, -11.69445760744746, 1.0,
)
EI_12_NUM = (
    2.301092361024494e-06, -1.539362354851339e-05, 0.0005247935143588169, 0.0004584368678549922,
    0.019760071040348624, 0.044608092882544755, 0.2894913675828187, 0.4373340120707431,
    1.0723449766623854,
)
EI_12_DEN = (
    2.5206714255746736e-06, -2.8179263865212807e-05, 0.0004515968249958036, -0.00015565906102945292,
    0.01693207353571979, 0.03382602543841581, 0.25805487403069904, 0.38135345527048614, 1.0,
)
EI_24 = (
    -2.473911409197921e+22, 6.457776125940875e+21, -5.1577844323904396e+20, -2.067604618981516e+19,
    7.741043395518191e+18, -7.737925842739528e+17, 4.644385072038564e+16, -1926118266866380.2,
    58283630046360.5, -1319890756232.5217, 22620758014.18084, -293246952.2524384, 2909063.246548591,
    -15753.315318672756, 829.19366039856, 119.59919019686069, 24.00097426838391, 5.999998558681517,
    2.0000000011246586, 0.9999999999996522, 1.0,
)
# (E1(x) + log(x) + gamma) / x as a quotient in x, for x <= 1; x exp(x) E1(x) in 1/x, for x > 1.
E1_SMALL_NUM = (
    -5.19453209749586e-07, 2.1946346076441884e-05, 0.0003083077775132234, 0.019868636891001826,
    0.12208056870458976, 1.0,
)
E1_SMALL_DEN = (
    0.00014272426250030545, 0.004387137615429524, 0.05733322351165665, 0.37208056870458794, 1.0,
)
E1_LARGE_NUM = (
    4.446322424113626, 806.4598285859587, 10178.783462199724, 39184.581824993096, 64017.23720103051,
    51505.610795632274, 22004.203202604458, 5143.88949248643, 649.6701400170233, 40.99556065439078,
    1.0,
)
E1_LARGE_DEN = (
    232.3961684109587, 5136.697946815234, 31751.44692579505, 81512.69872101472, 102954.29057273002,
    69852.99255991245, 26608.40923800635, 5755.564071841458, 689.6657006714457, 41.99556065439073,
    1.0,
)
# S(x) / x^3 and C(x) / x as polynomials in 2 x^4 / 1.6^4 - 1, for x <= 1.6.
_S_SMALL_HALF = 3.2768
S_SMALL = (
    -1.0705682344322292e-14, 7.264201350431649e-13, -4.100251930752942e-11, 1.9005632757764473e-09,
    -7.074441220940809e-08, 2.057811858425223e-06, -4.516895088626966e-05, 0.0007142320312441999,
    -0.007629278744901787, 0.050132952592302285, -0.1761356501395447, 0.2889393626408461,
)
C_SMALL = (
    -1.6147313745955442e-13, 1.0035845166929861e-11, -5.135349438780431e-10, 2.134644369167398e-08,
    -7.02832013271463e-07, 1.776427735491043e-05, -0.0003307760776437529, 0.004287818385200536,
    -0.03562664664995534, 0.1664430599115466, -0.3498350978515388, 0.4434581121445708,
)
# pi x f(x), and pi^2 x^3 g(x) to 6e-16, as quotients in 1/x^4, for x > 1.6; g is small.
F_NUM = (
    261470124.06187448, 2339084501.3231635, 3380201769.714117, 1596393059.0740209,
    315160956.3542232, 29091065.14763813, 1314308.4297167994, 28904.93843523874, 287.21889654374195,
    1.0,
)
F_DEN = (
    440344378.68780965, 2839317579.8231335, 3703997534.6835446, 1672575532.258029,
    322950308.5973686, 29464799.415530443, 1322821.598626618, 28991.256976632056, 287.5228600946681,
    1.0,
)
G_NUM = (
    509623678.0382436, 5877951741.408005, 8028774586.68657, 3402932435.073526, 592882994.6927185,
    48043072.35530643, 1905277.5857282076, 36873.33488754361, 323.67174266428077,
    0.9999999999999993,
)
G_DEN = (
    2765232756.180896, 11465502908.523222, 11270504117.122871, 4085682797.4177165,
    655149470.0127434, 50700113.06430463, 1959040.4968418893, 37357.865441549104,
    325.19156041890216, 1.0,
)
# fmt: on


def dawsn(x: Array) -> Array:
    """Evaluate exp(-x^2) times the integral of exp(t^2) from 0 to x; odd, +-0 at +-inf."""
    size = np.abs(x)
    return select(
        (x,),
        (size <= 2.5, lambda x: x * rational(DAWSN_SMALL_NUM, DAWSN_SMALL_DEN, x * x)),
        (size <= 5.0, lambda x: x * rational(DAWSN_MIDDLE_NUM, DAWSN_MIDDLE_DEN, x * x)),
        otherwise=lambda x: polynomial(DAWSN_LARGE, (1.0 / x) ** 2) / x,
    )


def expint(x: Array) -> Array:
    """Evaluate Ei(x), the principal value of the integral of exp(t)/t from -inf to x.

    -inf at 0, -0 at -inf, inf at inf.
    """
    return select(
        (x,),
        (x < 0.0, lambda x: -_e1(-x)),
        (x <= 6.0, _ei_small),
        (x <= 12.0, lambda x: _grow(rational(EI_6_NUM, EI_6_DEN, 1.0 / x), x)),
        (x <= 24.0, lambda x: _grow(rational(EI_12_NUM, EI_12_DEN, 48.0 / x - 3.0), x)),
        otherwise=lambda x: _grow(polynomial(EI_24, 1.0 / x), x),
    )


def _ei_small(x: Array) -> Array:
    offset = (x - _ZERO_HEAD) - _ZERO_TAIL
    near = np.abs(offset) < 0.2
    log = np.where(near, np.log1p(offset / _ZERO_HEAD), np.log(x) - math.log(_ZERO_HEAD))
    return log + offset * rational(EI_SMALL_NUM, EI_SMALL_DEN, x / 3.0 - 1.0)


def _grow(y: Array, x: Array) -> Array:
    """y exp(x) / x in two steps, because exp(x) alone overflows earlier."""
    half = np.exp(0.5 * x)
    return np.where(np.isposinf(x), np.inf, y / x * half * half)


def _e1(x: Array) -> Array:
    return select(
        (x,),
        (
            x <= 1.0,
            lambda x: x * rational(E1_SMALL_NUM, E1_SMALL_DEN, x) - (np.log(x) + _EULER_GAMMA),
        ),
        otherwise=lambda x: np.exp(-x) * rational(E1_LARGE_NUM, E1_LARGE_DEN, 1.0 / x) / x,
    )


# B_2k / (2k + 1)! for k = 1, 2, ...: Debye's series of the dilogarithm.
DEBYE = (
    -174611 / 16860010916664115200000,
    43867 / 97072790126247936000,
    -3617 / 181400588328960000,
    1 / 1120863744000,
    -691 / 16999766784000,
    1 / 526901760,
    -1 / 10886400,
    1 / 211680,
    -1 / 3600,
    1 / 36,
)


def spence(x: Array) -> Array:
    """Evaluate Li2(1 - x), the integral of log(t)/(1-t) from 1 to x.

    pi^2/6 at 0, 0 at 1 with relative accuracy around it, -inf at inf, nan for x < 0.
    """
    return select(
        (x,),
        (x < 0.5, _spence_small),
        (x <= 2.0, lambda x: _debye(-np.log(x))),
        otherwise=_spence_large,
    )


def _debye(u: Array) -> Array:
    """Li2(1 - exp(-u)) = u - u^2/4 + sum of B_2k u^(2k+1) / (2k+1)!."""
    u2 = u * u
    return u - 0.25 * u2 + u * u2 * polynomial(DEBYE, u2)


def _spence_small(x: Array) -> Array:
    # Li2(1 - x) = pi^2/6 - log(x) log(1 - x) - Li2(x)
    log = np.log1p(-x)
    product = np.where(x == 0.0, 0.0, np.log(x) * log)
    return math.pi**2 / 6.0 - product - _debye(-log)


def _spence_large(x: Array) -> Array:
    # Li2(1 - x) = -log(x)^2/2 - Li2(1 - 1/x)
    log = np.log(x)
    return -0.5 * log * log - _spence_small(1.0 / x)


def fresnel_sin(x: Array) -> Array:
    """Evaluate the integral of sin(pi t^2 / 2) from 0 to x; +-1/2 at +-inf."""
    return select(
        (x,),
        (np.abs(x) <= 1.6, lambda x: x * x * x * polynomial(S_SMALL, _scaled_fourth(x))),
        otherwise=lambda x: np.copysign(_fresnel_large(x)[0], x),
    )


def fresnel_cos(x: Array) -> Array:
    """Evaluate the integral of cos(pi t^2 / 2) from 0 to x; +-1/2 at +-inf."""
    return select(
        (x,),
        (np.abs(x) <= 1.6, lambda x: x * polynomial(C_SMALL, _scaled_fourth(x))),
        otherwise=lambda x: np.copysign(_fresnel_large(x)[1], x),
    )


def _scaled_fourth(x: Array) -> Array:
    x2 = x * x
    return x2 * x2 / _S_SMALL_HALF - 1.0


def _mod4(x: Array) -> Array:
    # Exact, and ten times faster than np.fmod.
    return x - 4.0 * np.floor(0.25 * x)


def _fresnel_large(x: Array) -> tuple[Array, Array]:
    """S = 1/2 - f cos w - g sin w and C = 1/2 + f sin w - g cos w, with w = pi x^2 / 2."""
    # Beyond 1e17 the waves are below the rounding of 1/2.
    size = np.minimum(np.abs(x), 1e17)
    rounded, lost = square(size)
    turn = 0.5 * np.pi * _mod4(_mod4(rounded) + _mod4(lost))
    inverse = 1.0 / (size * size)
    fourth = inverse * inverse
    f = rational(F_NUM, F_DEN, fourth) / (np.pi * size)
    g = rational(G_NUM, G_DEN, fourth) * inverse / (np.pi**2 * size)
    sine, cosine = np.sin(turn), np.cos(turn)
    return 0.5 - (f * cosine + g * sine), 0.5 + (f * sine - g * cosine)
