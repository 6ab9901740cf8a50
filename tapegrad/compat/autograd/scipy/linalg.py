"""The names of scipy.linalg, recorded on traced values."""

from __future__ import annotations

from typing import Any

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.compat.autograd.scipy.roots import sqrtm
from tapegrad.scipy import linalg as _tensors

_names = _Borrowed(_tensors, "scipy.linalg")
__all__ = ["sqrtm"]
__all__ += [name for name in _tensors.__all__ if name not in __all__]


def __getattr__(name: str) -> Any:
    found = globals()[name] = _names.find(name)
    return found


def __dir__() -> list[str]:
    return __all__
