"""The error function and the normal distribution function, their complements and inverses."""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.kernels.special.arithmetic import polynomial, rational, square
from tapegrad_numpy.kernels.special.blocks import Array, select

# fmt: off
# erf(x) / x as a polynomial in x^2, for |x| < 1.
_ERF = (
    -7.779436120891763e-10, 1.3710962336671965e-08, -1.6206309396129495e-07, 1.6447130974140988e-06,
    -1.4924712251079889e-05, 0.00012055293574098789, -0.0008548325929215032, 0.005223977606116261,
    -0.026866170643111177, 0.11283791670944182, -0.3761263890318352, 1.1283791670955126,
)
# x exp(x^2) erfc(x) as a quotient in 1/x, for x >= 1.
_ERFCX_NUM = (
    0.00019995742462871943, -0.0022105477395811452, 488.00623582680953, 1139.5423100292703,
    1300.5635156050328, 936.0955942575057, 463.5514473108971, 162.25736880143236, 39.78011838028373,
    6.363166057943788, 0.5641895835477563,
)
_ERFCX_DEN = (
    487.9944516453413, 1690.225585886979, 2719.683110200338, 2681.996229805541, 1797.3438863168672,
    856.3777597473457, 293.23290726368515, 71.00842401259428, 11.278418183353793, 1.0,
)
# atanh(erf(x)) / x as a polynomial in x^2, for |x| < 4; fitted to 3e-8 in erf, for float32.
_ERF32 = (
    -1.6006608179647563e-09, 5.262600776663624e-08, -4.9919563547991e-07, -1.9567798425828434e-06,
    7.67877203549676e-05, -0.0006041495479922375, -0.00020181216325582457, 0.10277122502542473,
    1.1283792061465143,
)
# erfinv(x) / x as a quotient in x^2 (_CENTRE_MID and _CENTRE_HALF map it to [-1, 1]), |x| <= 0.75.
_CENTRE_MID = 0.28125
_CENTRE_HALF = 0.28125
_CENTRE_NUM = (
    1.807228092022939e-08, 5.455169324266308e-06, -0.0005425109799635843, 0.012535387109706139,
    -0.11902840524388524, 0.5403755457529795, -1.1671314414177312, 0.9640216376238271,
)
_CENTRE_DEN = (
    2.2980945590410033e-05, -0.0012091405123714892, 0.021002934008271638, -0.1667868693497496,
    0.666901233455137, -1.3076462218769778, 1.0,
)
# erfcinv(q) / r as a quotient in r = sqrt(-log q), for r in [1.17, 4] and [4, 27.4].
_TAIL_NUM = (
    0.07493711679103894, 1.8195955018094727, 11.373308044668589, 25.095927955604886,
    23.23364797273697, 17.00551306677413, 7.157045993677633, 0.9368370666387743,
    -0.0043582901592289945,
)
_TAIL_DEN = (
    0.07493189953836729, 1.8203251765321296, 11.549093313030221, 27.82996683072986,
    34.273604270541085, 32.53283791998589, 18.69209699165501, 8.382722765733716, 1.0,
)
_FAR_NUM = (
    1.7880162091255762e-13, -1.6189021889284995e-05, -0.0018100475071090574, -0.05507767691478525,
    -0.5781150704777179, -2.026136544247498, -1.285963773678555, 1.8329103576882984,
    0.19992647338158556, 0.1479673593358701,
)
_FAR_DEN = (
    -1.6188926877104956e-05, -0.0018100866772150451, -0.05512760181355774, -0.5822475053769182,
    -2.121137992877093, -1.9915027886466576, 0.4355138690880968, 0.5411396787347063, 1.0,
)
# fmt: on


def erf(x: Array) -> Array:
    """Evaluate 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x; erf(+-inf) = +-1."""
    return select((x,), (np.abs(x) < 1.0, _erf_small), otherwise=_erf_large)


def erf32(x: Array) -> Array:
    """Evaluate erf in float32 as tanh(x p(x^2)): it is on the hot path of GELU.

    There are no branches, and tanh saturates at +-1. The error is at most about 3 ulp.
    """
    y = polynomial(_ERF32, np.minimum(x * x, 16.0))
    y *= x
    return np.tanh(y, out=y)


def _erf_small(x: Array) -> Array:
    return x * polynomial(_ERF, x * x)


def _erf_large(x: Array) -> Array:
    size = np.minimum(np.abs(x), 6.0)
    return np.copysign(1.0 - np.exp(-size * size) * _erfcx_large(size), x)


def _erfcx_large(x: Array) -> Array:
    inverse = 1.0 / x
    return rational(_ERFCX_NUM, _ERFCX_DEN, inverse) * inverse


def _gauss(x: Array, scale: float) -> Array:
    """exp(scale * x^2), relative accuracy kept for large x."""
    rounded, lost = square(np.clip(x, -1e9, 1e9))
    y = np.exp(scale * rounded)
    # Where y overflowed, the correction would turn inf into inf * 0.
    return np.where(np.isinf(y), y, y + y * (scale * lost))


def erfc(x: Array) -> Array:
    """Evaluate 1 - erf(x) without cancellation; it underflows to 0 beyond x = 26.6."""
    return select(
        (x,),
        (np.abs(x) < 1.0, lambda x: 1.0 - _erf_small(x)),
        (x < 0.0, lambda x: 2.0 - _erfc_large(-x)),
        otherwise=_erfc_large,
    )


def _erfc_large(x: Array) -> Array:
    return _gauss(x, -1.0) * _erfcx_large(x)


def erfcx(x: Array) -> Array:
    """Evaluate exp(x^2) erfc(x); inf below x = -26.7, 0 at inf."""
    return select(
        (x,),
        (np.abs(x) < 1.0, lambda x: _gauss(x, 1.0) * (1.0 - _erf_small(x))),
        (x < 0.0, lambda x: 2.0 * _gauss(x, 1.0) - _erfcx_large(-x)),
        otherwise=_erfcx_large,
    )


def ndtr(x: Array) -> Array:
    """Evaluate the normal distribution function erfc(-x / sqrt(2)) / 2."""
    return select(
        (x,),
        (np.abs(x) < math.sqrt(2.0), lambda x: 0.5 + 0.5 * _erf_small(x * math.sqrt(0.5))),
        (x > 0.0, lambda x: 1.0 - _ndtr_tail(x)),
        otherwise=lambda x: _ndtr_tail(-x),
    )


def _ndtr_tail(x: Array) -> Array:
    return 0.5 * _gauss(x, -0.5) * _erfcx_large(x * math.sqrt(0.5))


def log_ndtr(x: Array) -> Array:
    """Evaluate log(ndtr(x)), finite far into the lower tail; -inf at -inf."""
    return select(
        (x,), (x < -math.sqrt(2.0), _log_ndtr_tail), otherwise=lambda x: np.log1p(-ndtr(-x))
    )


def _log_ndtr_tail(x: Array) -> Array:
    return np.log(0.5 * _erfcx_large(x * -math.sqrt(0.5))) - 0.5 * x * x


def erfinv(x: Array) -> Array:
    """Invert erf: +-inf at x = +-1, nan outside [-1, 1]."""
    size = np.abs(x)
    return select(
        (x, size),
        (size <= 0.75, lambda x, size: _centre(x)),
        otherwise=lambda x, size: np.copysign(_tail(1.0 - size), x),
    )


def erfcinv(x: Array) -> Array:
    """Invert erfc: inf at x = 0, -inf at x = 2, nan outside [0, 2]."""
    return select(
        (x,),
        (x < 0.25, _tail),
        (x > 1.75, lambda x: -_tail(2.0 - x)),
        otherwise=lambda x: _centre(1.0 - x),
    )


def ndtri(x: Array) -> Array:
    """Invert ndtr: -inf at x = 0, inf at x = 1, nan outside [0, 1]."""
    y = select(
        (x,),
        (x < 0.125, lambda x: -_tail(2.0 * x)),
        (x > 0.875, lambda x: _tail(2.0 * (1.0 - x))),
        otherwise=lambda x: _centre(2.0 * (x - 0.5)),
    )
    return math.sqrt(2.0) * y


def _centre(x: Array) -> Array:
    return x * rational(_CENTRE_NUM, _CENTRE_DEN, (x * x - _CENTRE_MID) / _CENTRE_HALF)


def _tail(q: Array) -> Array:
    """erfcinv(q) for q <= 0.25."""
    r = np.sqrt(-np.log(q))
    y = select(
        (r,),
        (r < 4.0, lambda r: r * rational(_TAIL_NUM, _TAIL_DEN, r)),
        otherwise=lambda r: r * rational(_FAR_NUM, _FAR_DEN, r),
    )
    return np.where(q == 0.0, np.inf, y)
