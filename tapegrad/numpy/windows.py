"""NumPy's window functions, computed on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numpy.values import as_array, floating
from tapegrad.ops.creation import as_constant
from tapegrad.ops.elementwise.bessel import bessel_i0
from tapegrad.ops.elementwise.powers import sqrt


def bartlett(M: int) -> Any:
    """Return the Bartlett (triangular) window.

    >>> bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return as_constant(np.bartlett(M))


def blackman(M: int) -> Any:
    """Return the Blackman window.

    >>> blackman(3).round(6).tolist()
    [-0.0, 1.0, -0.0]
    """
    return as_constant(np.blackman(M))


def hamming(M: int) -> Any:
    """Return the Hamming window.

    >>> hamming(3).round(6).tolist()
    [0.08, 1.0, 0.08]
    """
    return as_constant(np.hamming(M))


def hanning(M: int) -> Any:
    """Return the Hann window.

    >>> hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return as_constant(np.hanning(M))


def kaiser(M: int, beta: Any) -> Any:
    """Return the Kaiser window, differentiable in `beta`.

    >>> kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    if M == 1:
        return as_constant(np.ones(1))
    beta = floating(beta)
    half = (M - 1) / 2.0
    inside = as_array(np.maximum(1 - ((np.arange(M) - half) / half) ** 2, 0.0), beta)
    return bessel_i0(beta * sqrt(inside)) / bessel_i0(beta)
