"""The names of scipy.special, recorded on traced values."""

from __future__ import annotations

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.compat.autograd.scipy.beyond import erf, erfc
from tapegrad.scipy import special as _tensors

_names = _Borrowed(_tensors, "scipy.special")
__all__ = ["erf", "erfc"]
__all__ += [name for name in _tensors.__all__ if name not in __all__]
__getattr__ = _names.find


def __dir__() -> list[str]:
    return __all__
