"""The error function of complex numbers, computed by SciPy on the host."""

from __future__ import annotations

import importlib
from math import pi, sqrt
from typing import Any

from tapegrad.compat.autograd import numpy as np
from tapegrad.compat.autograd.core import defvjp
from tapegrad.compat.autograd.dispatch import plain_results
from tapegrad.compat.autograd.primitives import primitive
from tapegrad.compat.autograd.values import Function, as_tensor, raw
from tapegrad.errors import BackendUnavailableError
from tapegrad.scipy import special as tensors

_SLOPE = 2.0 / sqrt(pi)


def _by_scipy(name: str) -> Any:
    """Return a primitive that calls SciPy's function on host values."""

    def call(x: Any) -> Any:
        try:
            special = importlib.import_module("scipy.special")
        except ImportError as error:
            raise BackendUnavailableError(
                f"{name} of complex numbers needs SciPy, which is not installed. "
                "Run: pip install scipy."
            ) from error
        return raw(as_tensor(getattr(special, name)(x.numpy() if hasattr(x, "numpy") else x)))

    call.__name__ = name
    return primitive(call)


def _of_complex(name: str, sign: float) -> Function:
    """Return tapegrad's function for real arguments and SciPy's for complex ones."""
    known, other = plain_results(getattr(tensors, name)), _by_scipy(name)
    defvjp(other, lambda ans, x: lambda g: g * sign * _SLOPE * np.exp(-(x**2)))

    def call(x: Any) -> Any:
        return other(x) if np.iscomplexobj(x) else known(x)

    call.__name__ = name
    call.__doc__ = known.__doc__
    return call


erf = _of_complex("erf", 1.0)
erfc = _of_complex("erfc", -1.0)
