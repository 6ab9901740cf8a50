"""The error function, its complements and the normal distribution function."""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.special.arithmetic import polynomial, rational, square
from tapegrad_numpy.special.blocks import Array, select

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
# fmt: on


def erf(x: Array) -> Array:
    """Evaluate 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x; erf(+-inf) = +-1."""
    return select((x,), (np.abs(x) < 1.0, _erf_small), otherwise=_erf_large)


def erf32(x: Array) -> Array:
    """Evaluate erf in float32 as tanh(x p(x^2)): it is on the hot path of GELU.

    No branches, and tanh lands on +-1 by itself; about 3 units in the last place at worst.
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
        (x,),
        (x < -math.sqrt(2.0), _log_ndtr_tail),
        otherwise=lambda x: np.log1p(-ndtr(-x)),
    )


def _log_ndtr_tail(x: Array) -> Array:
    return np.log(0.5 * _erfcx_large(x * -math.sqrt(0.5))) - 0.5 * x * x
