"""Chebyshev polynomials of the first kind: the functions of `numpy.polynomial.chebyshev`."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.chebyshev_points import chebinterpolate, chebpts1, chebpts2
from tapegrad.numpy.polynomial.families import CHEBYSHEV as _FAMILY
from tapegrad.numpy.polynomial.series import Chebyshev

chebadd = _FAMILY.add
chebsub = _FAMILY.sub
chebmulx = _FAMILY.mulx
chebmul = _FAMILY.mul
chebdiv = _FAMILY.div
chebpow = _FAMILY.pow
chebval = _FAMILY.val
chebval2d = _FAMILY.val2d
chebval3d = _FAMILY.val3d
chebgrid2d = _FAMILY.grid2d
chebgrid3d = _FAMILY.grid3d
chebvander = _FAMILY.vander
chebvander2d = _FAMILY.vander2d
chebvander3d = _FAMILY.vander3d
chebder = _FAMILY.der
chebint = _FAMILY.int
chebfromroots = _FAMILY.fromroots
chebroots = _FAMILY.roots
chebcompanion = _FAMILY.companion
chebfit = _FAMILY.fit
chebtrim = _FAMILY.trim
chebline = _FAMILY.line
chebgauss = _FAMILY.gauss
chebweight = _FAMILY.weight
cheb2poly = _FAMILY.to_powers
poly2cheb = _FAMILY.from_powers

chebdomain = _FAMILY.numpys.chebdomain
chebzero = _FAMILY.numpys.chebzero
chebone = _FAMILY.numpys.chebone
chebx = _FAMILY.numpys.chebx

__all__ = ["Chebyshev", "chebinterpolate", "chebpts1", "chebpts2"]
__all__ += [name for name in dir() if "cheb" in name and name not in __all__]

_check_calls(globals(), __all__)
