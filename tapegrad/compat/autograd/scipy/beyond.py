"""Special functions where tapegrad's stop: orders that are no whole numbers, complex arguments.

SciPy computes them, on the host; their derivatives are given here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from tapegrad.compat.autograd import numpy as np
from tapegrad.compat.autograd.core import defvjp
from tapegrad.compat.autograd.numpy.numpy_vjps import unbroadcast_f
from tapegrad.compat.autograd.primitives import primitive
from tapegrad.compat.autograd.values import as_tensor, plain_structure, raw
from tapegrad.errors import BackendUnavailableError
from tapegrad.scipy import special as tensors

Function = Callable[..., Any]


def _by_scipy(name: str) -> Any:
    """A primitive that runs SciPy's function on host values."""

    def call(*args: Any) -> Any:
        try:
            special = importlib.import_module("scipy.special")
        except ImportError as error:
            raise BackendUnavailableError(
                f"{name} of these arguments needs SciPy, which is not installed. "
                "Run: pip install scipy."
            ) from error
        hosts = [arg.numpy() if hasattr(arg, "numpy") else arg for arg in args]
        return raw(as_tensor(getattr(special, name)(*hosts)))

    call.__name__ = name
    return primitive(call)


def _is_whole(n: Any) -> bool:
    n = raw(n)
    return not hasattr(n, "shape") and float(n).is_integer()


def _of_order(name: str) -> Function:
    """tapegrad's function for whole orders, SciPy's for others."""
    known, other = getattr(tensors, name), _by_scipy(name)

    def call(n: Any, x: Any) -> Any:
        return plain_structure(known(raw(n), x)) if _is_whole(n) else other(n, x)

    call.__name__ = name
    call.__doc__ = known.__doc__
    _OTHER[name] = other
    return call


def _of_complex(name: str) -> Function:
    """tapegrad's function for real arguments, SciPy's for complex ones."""
    known, other = getattr(tensors, name), _by_scipy(name)

    def call(x: Any) -> Any:
        return other(x) if np.iscomplexobj(x) else plain_structure(known(x))

    call.__name__ = name
    call.__doc__ = known.__doc__
    _OTHER[name] = other
    return call


_OTHER: dict[str, Any] = {}
_SLOPE = 2.0 / sqrt(pi)

iv = _of_order("iv")
ive = _of_order("ive")
erf = _of_complex("erf")
erfc = _of_complex("erfc")

defvjp(
    _OTHER["iv"],
    None,
    lambda ans, n, x: unbroadcast_f(x, lambda g: g * 0.5 * (iv(n - 1, x) + iv(n + 1, x))),
)
defvjp(
    _OTHER["ive"],
    None,
    lambda ans, n, x: unbroadcast_f(
        x, lambda g: g * (0.5 * (ive(n - 1, x) + ive(n + 1, x)) - np.sign(x) * ans)
    ),
)
defvjp(_OTHER["erf"], lambda ans, x: lambda g: g * _SLOPE * np.exp(-(x**2)))
defvjp(_OTHER["erfc"], lambda ans, x: lambda g: -g * _SLOPE * np.exp(-(x**2)))
