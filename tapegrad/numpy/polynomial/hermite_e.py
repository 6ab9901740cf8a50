"""Probabilists' Hermite polynomials: the functions of `numpy.polynomial.hermite_e`."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.families import HERMITE_E as _FAMILY
from tapegrad.numpy.polynomial.series import HermiteE

hermeadd = _FAMILY.add
hermesub = _FAMILY.sub
hermemulx = _FAMILY.mulx
hermemul = _FAMILY.mul
hermediv = _FAMILY.div
hermepow = _FAMILY.pow
hermeval = _FAMILY.val
hermeval2d = _FAMILY.val2d
hermeval3d = _FAMILY.val3d
hermegrid2d = _FAMILY.grid2d
hermegrid3d = _FAMILY.grid3d
hermevander = _FAMILY.vander
hermevander2d = _FAMILY.vander2d
hermevander3d = _FAMILY.vander3d
hermeder = _FAMILY.der
hermeint = _FAMILY.int
hermefromroots = _FAMILY.fromroots
hermeroots = _FAMILY.roots
hermecompanion = _FAMILY.companion
hermefit = _FAMILY.fit
hermetrim = _FAMILY.trim
hermeline = _FAMILY.line
hermegauss = _FAMILY.gauss
hermeweight = _FAMILY.weight
herme2poly = _FAMILY.to_powers
poly2herme = _FAMILY.from_powers

hermedomain = _FAMILY.numpys.hermedomain
hermezero = _FAMILY.numpys.hermezero
hermeone = _FAMILY.numpys.hermeone
hermex = _FAMILY.numpys.hermex

__all__ = ["HermiteE"]
__all__ += [name for name in dir() if "herme" in name]

_check_calls(globals(), __all__)
