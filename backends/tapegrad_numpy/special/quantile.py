"""Inverses of the error function and of the normal distribution function."""

from __future__ import annotations

import math

import numpy as np

from tapegrad_numpy.special.arithmetic import rational
from tapegrad_numpy.special.blocks import Array, select

# fmt: off
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
