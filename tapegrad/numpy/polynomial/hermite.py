"""Physicists' Hermite polynomials: the functions of `numpy.polynomial.hermite`."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.families import HERMITE as _FAMILY
from tapegrad.numpy.polynomial.series import Hermite

hermadd = _FAMILY.add
hermsub = _FAMILY.sub
hermmulx = _FAMILY.mulx
hermmul = _FAMILY.mul
hermdiv = _FAMILY.div
hermpow = _FAMILY.pow
hermval = _FAMILY.val
hermval2d = _FAMILY.val2d
hermval3d = _FAMILY.val3d
hermgrid2d = _FAMILY.grid2d
hermgrid3d = _FAMILY.grid3d
hermvander = _FAMILY.vander
hermvander2d = _FAMILY.vander2d
hermvander3d = _FAMILY.vander3d
hermder = _FAMILY.der
hermint = _FAMILY.int
hermfromroots = _FAMILY.fromroots
hermroots = _FAMILY.roots
hermcompanion = _FAMILY.companion
hermfit = _FAMILY.fit
hermtrim = _FAMILY.trim
hermline = _FAMILY.line
hermgauss = _FAMILY.gauss
hermweight = _FAMILY.weight
herm2poly = _FAMILY.to_powers
poly2herm = _FAMILY.from_powers

hermdomain = _FAMILY.numpys.hermdomain
hermzero = _FAMILY.numpys.hermzero
hermone = _FAMILY.numpys.hermone
hermx = _FAMILY.numpys.hermx

__all__ = ["Hermite"]
__all__ += [name for name in dir() if "herm" in name]

_check_calls(globals(), __all__)
