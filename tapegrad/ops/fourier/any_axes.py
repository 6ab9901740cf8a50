"""TensorFlow's transforms over any axes."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.fourier.transforms import (
    complex_transform,
    inverse_real_transform,
    real_transform,
)


def fftnd(
    input_tensor: Any,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the transform over `axes`, by default all.

    >>> fftnd([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return complex_transform(input_tensor, fft_length, axes, norm, False, "fftnd")


def ifftnd(
    input_tensor: Any,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the inverse of `fftnd`.

    >>> ifftnd([[2.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)]]
    """
    return complex_transform(input_tensor, fft_length, axes, norm, True, "ifftnd")


def rfftnd(
    input_tensor: Any,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the transform of real values; the last axis keeps n // 2 + 1 entries.

    >>> rfftnd([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return real_transform(input_tensor, fft_length, axes, norm, "rfftnd", None)


def irfftnd(
    input_tensor: Any,
    fft_length: Any = None,
    axes: Any = None,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the inverse of `rfftnd`.

    >>> irfftnd([[2.0, 0.0]]).tolist()
    [[1.0, 1.0]]
    """
    return inverse_real_transform(input_tensor, fft_length, axes, norm, "irfftnd", None)
