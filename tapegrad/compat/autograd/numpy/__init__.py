"""NumPy's namespace: NumPy's functions on arrays, recorded ones on traced values.

    import tapegrad.compat.autograd.numpy as np

Names are looked up on first use, so this module has the names of the installed NumPy.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any

import numpy as _host  # noqa: ICN001  # np would be one of the names here

from tapegrad import numpy as _tensors
from tapegrad.compat.autograd.dispatch import Namespace as _Namespace
from tapegrad.compat.autograd.numpy import fft, linalg, random
from tapegrad.compat.autograd.numpy.own import (
    ON_HOST as _ON_HOST,
    OWN as _OWN,
    integer_type as _integer_type,
)

__version__ = _host.__version__
__array_namespace_info__ = _host.__array_namespace_info__

_INTEGERS = {_host.dtype(code).type for code in _host.typecodes["AllInteger"]}
_names = _Namespace(_host, _tensors, _OWN, _ON_HOST)
__all__ = ["fft", "linalg", "random"]
__all__ += [name for name in _names.names() if name not in __all__]

_MODULES = ("numpy_boxes", "numpy_vjps", "numpy_vspaces", "numpy_wrapper")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        # Few programs need these modules.
        return _importlib.import_module(f"{__name__}.{name}")
    found = _names.find(name)
    if isinstance(found, type) and found in _INTEGERS:
        found = _integer_type(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
