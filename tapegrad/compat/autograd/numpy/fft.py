"""The names of numpy.fft, recorded on traced values."""

from __future__ import annotations

from typing import Any

from numpy import fft as _host

from tapegrad.compat.autograd.dispatch import Namespace as _Namespace
from tapegrad.numpy import fft as _tensors

_names = _Namespace(_host, _tensors)
__all__ = list(_names.names())


def __getattr__(name: str) -> Any:
    found = globals()[name] = _names.find(name)
    return found


def __dir__() -> list[str]:
    return __all__
