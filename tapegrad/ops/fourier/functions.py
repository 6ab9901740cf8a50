"""Fourier transforms over 2 and 3 axes, shifts, frequencies and cosine transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand, normalize_axes, normalize_axis
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.fourier.transforms import (
    as_complex,
    as_real,
    complex_transform,
    inverse_real_p,
    inverse_real_transform,
    real_fourier_p,
    real_transform,
    resized,
)
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.ops.shape.joining import concat

_TWO = (-2, -1)


def fft2(x: Any, s: Any = None, axes: Any = _TWO, norm: str | None = None) -> Any:
    """Return the transform over two axes, by default the last two.

    >>> fft2([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return complex_transform(x, s, axes, norm, False, "fft2")


def ifft2(x: Any, s: Any = None, axes: Any = _TWO, norm: str | None = None) -> Any:
    """Return the inverse of `fft2`.

    >>> ifft2([[2.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)]]
    """
    return complex_transform(x, s, axes, norm, True, "ifft2")


def rfft2(x: Any, s: Any = None, axes: Any = _TWO, norm: str | None = None) -> Any:
    """Return the transform of real values over two axes; the last keeps n // 2 + 1 entries.

    >>> rfft2([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return real_transform(x, s, axes, norm, "rfft2", 2)


def irfft2(x: Any, s: Any = None, axes: Any = _TWO, norm: str | None = None) -> Any:
    """Return the inverse of `rfft2`.

    >>> irfft2([[2.0, 0.0]]).tolist()
    [[1.0, 1.0]]
    """
    return inverse_real_transform(x, s, axes, norm, "irfft2", 2)


def fft2d(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the transform over the last two axes.

    >>> fft2d([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return complex_transform(input, None, None, None, False, "fft2d", 2)


def ifft2d(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the inverse of `fft2d`.

    >>> ifft2d([[2.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)]]
    """
    return complex_transform(input, None, None, None, True, "ifft2d", 2)


def rfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Any:
    """Return the transform of real values over the last two axes.

    >>> rfft2d([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return real_transform(input_tensor, fft_length, None, None, "rfft2d", 2)


def irfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Any:
    """Return the inverse of `rfft2d`.

    >>> irfft2d([[2.0, 0.0]]).tolist()
    [[1.0, 1.0]]
    """
    return inverse_real_transform(input_tensor, fft_length, None, None, "irfft2d", 2)


def fft3d(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the transform over the last three axes.

    >>> fft3d([[[1.0, 1.0]]]).tolist()
    [[[(2+0j), 0j]]]
    """
    return complex_transform(input, None, None, None, False, "fft3d", 3)


def ifft3d(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the inverse of `fft3d`.

    >>> ifft3d([[[2.0, 0.0]]]).tolist()
    [[[(1+0j), (1+0j)]]]
    """
    return complex_transform(input, None, None, None, True, "ifft3d", 3)


def rfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Any:
    """Return the transform of real values over the last three axes.

    >>> rfft3d([[[1.0, 1.0]]]).tolist()
    [[[(2+0j), 0j]]]
    """
    return real_transform(input_tensor, fft_length, None, None, "rfft3d", 3)


def irfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Any:
    """Return the inverse of `rfft3d`.

    >>> irfft3d([[[2.0, 0.0]]]).tolist()
    [[[1.0, 1.0]]]
    """
    return inverse_real_transform(input_tensor, fft_length, None, None, "irfft3d", 3)


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Any:
    """Shift the zero frequency to the middle of the spectrum.

    >>> fftshift([0.0, 1.0, -1.0]).tolist()
    [-1.0, 0.0, 1.0]
    """
    return _rotate(x, axes, lambda n: (n + 1) // 2, "fftshift")


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Any:
    """Undo `fftshift`.

    >>> ifftshift([-1.0, 0.0, 1.0]).tolist()
    [0.0, 1.0, -1.0]
    """
    return _rotate(x, axes, lambda n: n // 2, "ifftshift")


def _rotate(x: Any, axes: Any, start: Any, name: str) -> Any:
    """Rotate each axis so that it starts at entry `start(n)`."""
    x = as_operand(x)
    for axis in normalize_axes(axes, len(x.shape), name):
        first = start(x.shape[axis])
        if 0 < first < x.shape[axis]:
            x = concat([_part(x, axis, slice(first, None)), _part(x, axis, slice(0, first))], axis)
    return x


def _part(x: Any, axis: int, part: slice) -> Any:
    rest = [slice(None)] * (len(x.shape) - axis - 1)
    return slice_p(x, index=(*[slice(None)] * axis, part, *rest))


def fftfreq(n: int, d: float = 1.0, dtype: Any = "float32") -> Any:
    """Return the frequencies of the entries of `fft` for the sample spacing `d`.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq(n, d), dtype)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = "float32") -> Any:
    """Return the frequencies of the entries of `rfft` for the sample spacing `d`.

    >>> rfftfreq(4, dtype="float64").dtype
    <dtype: 'float64'>
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq(n, d), dtype)


def _frequencies(function: str, values: np.ndarray, dtype: Any) -> Any:
    wanted = as_dtype(dtype)
    if not wanted.is_floating:
        raise DTypeError(f"{function} returns floating-point numbers. Got dtype={wanted}.")
    return constant(values.astype(wanted.dtype))


def dct(
    input: Any,  # TensorFlow's name
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the discrete cosine transform of type 1, 2, 3 or 4 along one axis.

    >>> dct([1.0, 1.0]).round(5).tolist()
    [4.0, 0.0]
    """
    x = as_real(input, "dct")
    _check_cosine(type, norm)
    axis = normalize_axis(axis, len(x.shape), "dct")
    x = moveaxis(x if n is None else resized(x, axis, n), axis, -1)
    result = {1: _dct1, 2: _dct2, 3: _dct3, 4: _dct4}[type](x, norm == "ortho")
    return moveaxis(result, -1, axis)


def idct(
    input: Any,  # TensorFlow's name
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Return the inverse of `dct` of the same type, without its scale, as in TensorFlow.

    With norm='ortho' it is the exact inverse. Otherwise `idct(dct(x))` is x times 2n, or times
    2(n - 1) for type 1.

    >>> idct([4.0, 0.0]).round(5).tolist()
    [4.0, 4.0]
    """
    return dct(input, {1: 1, 2: 3, 3: 2}.get(type, type), n, axis, norm)


def _check_cosine(type: int, norm: str | None) -> None:
    if type not in (1, 2, 3, 4):
        raise ArgumentError(f"The type of a cosine transform must be 1, 2, 3 or 4. Got {type!r}.")
    if norm not in (None, "ortho") or (norm and type == 1):
        raise ArgumentError(
            f"The norm of a cosine transform must be None or, for types 2 to 4, 'ortho'. "
            f"Got {norm!r} for type {type}."
        )


def _last(x: Any, part: slice) -> Any:
    return _part(x, len(x.shape) - 1, part)


def _spectrum(x: Any) -> Any:
    return real_fourier_p(x, axis=len(x.shape) - 1, norm="backward")


def _dct1(x: Any, ortho: bool) -> Any:
    mirrored = concat([x, _last(x, slice(-2, 0, -1))], -1)
    return real(_spectrum(mirrored))


def _dct2(x: Any, ortho: bool) -> Any:
    n = x.shape[-1]
    mirrored = concat([x, _last(x, slice(None, None, -1))], -1)
    phase = np.exp(-0.5j * math.pi * np.arange(n) / n)
    result = real(_last(_spectrum(mirrored), slice(0, n)) * phase)
    return result * _ortho_weights(n) if ortho else result


def _dct3(x: Any, ortho: bool) -> Any:
    n = x.shape[-1]
    if ortho:
        x = x * _ortho_weights(n) * np.where(np.arange(n) == 0, 2.0, 1.0)
    phase = np.exp(0.5j * math.pi * np.arange(n) / n)
    half = resized(as_complex(x) * phase, len(x.shape) - 1, n + 1)
    whole = inverse_real_p(half, axis=len(x.shape) - 1, n=2 * n, norm="forward")
    return _last(whole, slice(0, n))


def _dct4(x: Any, ortho: bool) -> Any:
    n = x.shape[-1]
    turned = as_complex(x) * np.exp(-0.5j * math.pi * np.arange(n) / n)
    whole = complex_transform(turned, (2 * n,), (-1,), None, False, "dct")
    phase = 2.0 * np.exp(-0.25j * math.pi * (2 * np.arange(n) + 1) / n)
    result = real(_last(whole, slice(0, n)) * phase)
    return result * math.sqrt(0.5 / n) if ortho else result


def _ortho_weights(n: int) -> np.ndarray:
    return np.where(np.arange(n) == 0, math.sqrt(0.25 / n), math.sqrt(0.5 / n))
