"""The error function, its complements and the normal distribution function."""

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
# erf(x) / x as a quotient in x^2, for |x| < 3.92 in float32; fitted to 2e-9.
_ERF32_NUM = (
    -1.2803332552348797e-08, 4.60991108569317e-06, 0.0003767863965535397, 0.0038387633839620083,
    0.054244776305774095, 0.18513670525915762, 1.1283791692581955,
)
_ERF32_DEN = (
    6.240568811679648e-05, 0.0013015911109565963, 0.015430421048654852, 0.1138748803822606,
    0.49740654016026076, 1.0,
)
# fmt: on

# From here on erf rounds to 1 in float32.
_FLAT32 = 3.92


def erf(x: Array) -> Array:
    """Evaluate 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x; erf(+-inf) = +-1."""
    return select((x,), (np.abs(x) < 1.0, _erf_small), otherwise=_erf_large)


def erf32(x: Array) -> Array:
    """Evaluate erf in float32, without branches: it is on the hot path of GELU."""
    x = np.clip(x, -_FLAT32, _FLAT32)
    y = rational(_ERF32_NUM, _ERF32_DEN, x * x)
    y *= x
    return np.clip(y, -1.0, 1.0, out=y)


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
