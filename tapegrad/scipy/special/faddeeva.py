"""Faddeeva's function of complex numbers, by Weideman's rational expansion."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tapegrad.scipy.vocabulary import cast, exp, imag, numpy_dtype_of, operand, where

_COUNT = 40
_WIDTH = math.sqrt(_COUNT / math.sqrt(2))


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """The Fourier coefficients of exp(-t²) (L² + t²) with t = L tan(θ/2), highest power first."""
    half = 2 * _COUNT
    t = _WIDTH * np.tan(0.5 * np.pi * np.arange(-half + 1, half) / half)
    samples = np.concatenate([[0.0], np.exp(-t * t) * (_WIDTH**2 + t * t)])
    bins = np.fft.fft(np.fft.fftshift(samples)).real / (2 * half)
    return tuple(float(a) for a in bins[1 : _COUNT + 1][::-1])


def wofz(z: Any) -> Any:
    """Return exp(-z²) erfc(-iz) of complex numbers, as complex numbers.

    >>> wofz(1j).numpy().round(6)
    np.complex128(0.427584+0j)
    """
    z = operand(z)
    if numpy_dtype_of(z).kind != "c":
        z = cast(z, np.result_type(numpy_dtype_of(z), np.complex64))
    is_below = imag(z) < 0
    upper = _upper(where(is_below, -z, z))
    lower = 2 * exp(-where(is_below, z * z, 0.0)) - upper
    return where(is_below, lower, upper)


def _upper(z: Any) -> Any:
    """The function in the upper half of the plane, where the expansion converges."""
    below = 1 / (_WIDTH - 1j * z)
    share = (_WIDTH + 1j * z) * below
    total = 0.0 * share
    for coefficient in _coefficients():
        total = total * share + coefficient
    return (2 * total * below + 1 / math.sqrt(math.pi)) * below
