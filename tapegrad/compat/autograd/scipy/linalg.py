"""The names of scipy.linalg, recorded on traced values."""

from __future__ import annotations

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.compat.autograd.scipy.roots import sqrtm
from tapegrad.scipy import linalg as _tensors

_names = _Borrowed(_tensors, "scipy.linalg")
__all__ = ["sqrtm"]
__all__ += [name for name in _tensors.__all__ if name not in __all__]
__getattr__ = _names.find


def __dir__() -> list[str]:
    return __all__
