"""The Faddeeva function of complex arguments, by Weideman's rational expansion."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tapegrad.ops.casting.cast import cast
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.complex_numbers import imag, real
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.selection import where

_COUNT = 40
_WIDTH = math.sqrt(_COUNT / math.sqrt(2))


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Return the Fourier coefficients of exp(-t²) (L² + t²), t = L tan(θ/2), highest first."""
    half = 2 * _COUNT
    t = _WIDTH * np.tan(0.5 * np.pi * np.arange(-half + 1, half) / half)
    samples = np.concatenate([[0.0], np.exp(-t * t) * (_WIDTH**2 + t * t)])
    bins = np.fft.fft(np.fft.fftshift(samples)).real / (2 * half)
    return tuple(float(a) for a in bins[1 : _COUNT + 1][::-1])


def wofz(z: Any) -> Any:
    """Return the Faddeeva function exp(-z²) erfc(-iz); the result is complex.

    >>> wofz(1j).numpy().round(6)
    np.complex128(0.427584+0j)
    """
    z = operand(z)
    if numpy_dtype_of(z).kind != "c":
        z = cast(z, np.result_type(numpy_dtype_of(z), np.complex64))
    is_infinite = (abs(real(z)) == math.inf) & (abs(imag(z)) < math.inf)
    z = where(is_infinite, 1.0, z)
    is_below = imag(z) < 0
    upper = _upper(where(is_below, -z, z))
    lower = 2 * exp(-where(is_below, z * z, 0.0)) - upper
    return where(is_infinite, 0.0, where(is_below, lower, upper))


def _upper(z: Any) -> Any:
    """Evaluate the function in the upper half plane, where the expansion converges."""
    below = 1 / (_WIDTH - 1j * z)
    ratio = (_WIDTH + 1j * z) * below
    total = 0.0 * ratio
    for coefficient in _coefficients():
        total = total * ratio + coefficient
    return (2 * total * below + 1 / math.sqrt(math.pi)) * below
