"""Powers of x: the functions of `numpy.polynomial.polynomial`."""

from functools import partial

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.evaluation import value_from_roots as polyvalfromroots
from tapegrad.numpy.polynomial.families import POWERS as _FAMILY
from tapegrad.numpy.polynomial.series import Polynomial

polyadd = _FAMILY.add
polysub = _FAMILY.sub
polymulx = _FAMILY.mulx
polymul = _FAMILY.mul
polydiv = _FAMILY.div
polypow = partial(_FAMILY.pow, maxpower=None)
polyval = _FAMILY.val
polyval2d = _FAMILY.val2d
polyval3d = _FAMILY.val3d
polygrid2d = _FAMILY.grid2d
polygrid3d = _FAMILY.grid3d
polyvander = _FAMILY.vander
polyvander2d = _FAMILY.vander2d
polyvander3d = _FAMILY.vander3d
polyder = _FAMILY.der
polyint = _FAMILY.int
polyfromroots = _FAMILY.fromroots
polyroots = _FAMILY.roots
polycompanion = _FAMILY.companion
polyfit = _FAMILY.fit
polytrim = _FAMILY.trim
polyline = _FAMILY.line
polyvalnd = _FAMILY.valnd

polydomain = _FAMILY.numpys.polydomain
polyzero = _FAMILY.numpys.polyzero
polyone = _FAMILY.numpys.polyone
polyx = _FAMILY.numpys.polyx

__all__ = ["Polynomial", "polyvalfromroots"]
__all__ += [name for name in dir() if "poly" in name and name not in __all__]

_check_calls(globals(), __all__)
