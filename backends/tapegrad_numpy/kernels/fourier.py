"""Fourier transforms by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def fourier(x: Array, *, axes: tuple[int, ...], inverse: bool, norm: Any) -> Array:
    """Transform complex numbers along axes."""
    transform = np.fft.ifftn if inverse else np.fft.fftn
    return transform(x, axes=axes, norm=norm)


def real_fourier(x: Array, *, axis: int, norm: Any) -> Array:
    """Transform real numbers along an axis, to the first half of the results."""
    return np.fft.rfft(x, axis=axis, norm=norm)


def inverse_real_fourier(x: Array, *, axis: int, n: int, norm: Any) -> Array:
    """Transform the first half of numbers whose transform is real."""
    return np.fft.irfft(x, n=n, axis=axis, norm=norm)


PLAIN = {f.__name__: f for f in (fourier, real_fourier, inverse_real_fourier)}
