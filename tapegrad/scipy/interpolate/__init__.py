"""SciPy's interpolation, differentiable in values, points and evaluation points.

pieces        PPoly, the piecewise polynomial that most others are built on
hermite       cubics with given slopes, PCHIP, Akima
cubic         CubicSpline
bsplines      BSpline; spline_fit: make_interp_spline
lines         interp1d
grids         RegularGridInterpolator, interpn
polynomials   one polynomial through all points
scattered     RBFInterpolator
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.interpolate.bsplines import BSpline
from tapegrad.scipy.interpolate.cubic import CubicSpline
from tapegrad.scipy.interpolate.grids import RegularGridInterpolator, interpn
from tapegrad.scipy.interpolate.hermite import (
    Akima1DInterpolator,
    CubicHermiteSpline,
    PchipInterpolator,
    pchip_interpolate,
)
from tapegrad.scipy.interpolate.lines import interp1d
from tapegrad.scipy.interpolate.pieces import PPoly
from tapegrad.scipy.interpolate.polynomials import (
    BarycentricInterpolator,
    KroghInterpolator,
    barycentric_interpolate,
    krogh_interpolate,
)
from tapegrad.scipy.interpolate.scattered import RBFInterpolator
from tapegrad.scipy.interpolate.spline_fit import make_interp_spline

__all__ = [
    "Akima1DInterpolator", "BSpline", "BarycentricInterpolator", "CubicHermiteSpline",
    "CubicSpline", "KroghInterpolator", "PPoly", "PchipInterpolator", "RBFInterpolator",
    "RegularGridInterpolator", "barycentric_interpolate", "interp1d", "interpn",
    "krogh_interpolate", "make_interp_spline", "pchip_interpolate",
]  # fmt: skip

_check_calls(globals(), __all__)
