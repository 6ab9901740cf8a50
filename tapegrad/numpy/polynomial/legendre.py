"""Legendre polynomials: the functions of `numpy.polynomial.legendre`."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.families import LEGENDRE as _FAMILY
from tapegrad.numpy.polynomial.series import Legendre

legadd = _FAMILY.add
legsub = _FAMILY.sub
legmulx = _FAMILY.mulx
legmul = _FAMILY.mul
legdiv = _FAMILY.div
legpow = _FAMILY.pow
legval = _FAMILY.val
legval2d = _FAMILY.val2d
legval3d = _FAMILY.val3d
leggrid2d = _FAMILY.grid2d
leggrid3d = _FAMILY.grid3d
legvander = _FAMILY.vander
legvander2d = _FAMILY.vander2d
legvander3d = _FAMILY.vander3d
legder = _FAMILY.der
legint = _FAMILY.int
legfromroots = _FAMILY.fromroots
legroots = _FAMILY.roots
legcompanion = _FAMILY.companion
legfit = _FAMILY.fit
legtrim = _FAMILY.trim
legline = _FAMILY.line
leggauss = _FAMILY.gauss
legweight = _FAMILY.weight
leg2poly = _FAMILY.to_powers
poly2leg = _FAMILY.from_powers

legdomain = _FAMILY.numpys.legdomain
legzero = _FAMILY.numpys.legzero
legone = _FAMILY.numpys.legone
legx = _FAMILY.numpys.legx

__all__ = ["Legendre"]
__all__ += [name for name in dir() if "leg" in name]

_check_calls(globals(), __all__)
