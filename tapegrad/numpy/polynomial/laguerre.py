"""Laguerre polynomials: the functions of `numpy.polynomial.laguerre`."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.families import LAGUERRE as _FAMILY
from tapegrad.numpy.polynomial.series import Laguerre

lagadd = _FAMILY.add
lagsub = _FAMILY.sub
lagmulx = _FAMILY.mulx
lagmul = _FAMILY.mul
lagdiv = _FAMILY.div
lagpow = _FAMILY.pow
lagval = _FAMILY.val
lagval2d = _FAMILY.val2d
lagval3d = _FAMILY.val3d
laggrid2d = _FAMILY.grid2d
laggrid3d = _FAMILY.grid3d
lagvander = _FAMILY.vander
lagvander2d = _FAMILY.vander2d
lagvander3d = _FAMILY.vander3d
lagder = _FAMILY.der
lagint = _FAMILY.int
lagfromroots = _FAMILY.fromroots
lagroots = _FAMILY.roots
lagcompanion = _FAMILY.companion
lagfit = _FAMILY.fit
lagtrim = _FAMILY.trim
lagline = _FAMILY.line
laggauss = _FAMILY.gauss
lagweight = _FAMILY.weight
lag2poly = _FAMILY.to_powers
poly2lag = _FAMILY.from_powers

lagdomain = _FAMILY.numpys.lagdomain
lagzero = _FAMILY.numpys.lagzero
lagone = _FAMILY.numpys.lagone
lagx = _FAMILY.numpys.lagx

__all__ = ["Laguerre"]
__all__ += [name for name in dir() if "lag" in name]

_check_calls(globals(), __all__)
