"""Segment reductions, Fourier transforms and special functions of Keras' backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend.common import standardize_dtype

import tapegrad as tg
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import axes_of, convert_to_tensor
from tapegrad.keras import ops
from tapegrad.numpy import linalg as matrices


def _segments(kind: str) -> Callable[..., Any]:
    reduce = getattr(ops, f"segment_{kind}")

    def run(data: Any, segment_ids: Any, num_segments: Any = None, sorted: bool = False) -> Any:
        return reduce(convert_to_tensor(data), convert_to_tensor(segment_ids), num_segments, sorted)

    run.__doc__ = f"Return the {kind} of each segment."
    run.__name__ = f"segment_{kind}"
    return run


segment_sum = _segments("sum")
segment_max = _segments("max")
segment_min = _segments("min")
segment_prod = _segments("prod")


def top_k(x: Any, k: int, sorted: bool = True) -> Any:
    """Return the k largest entries along the last axis, and their places."""
    values, places = tg.nn.top_k(convert_to_tensor(x), k)
    return values, tg.cast(places, "int32")


def in_top_k(targets: Any, predictions: Any, k: int) -> Any:
    """Whether each target is among the k largest predictions."""
    return tg.nn.in_top_k(convert_to_tensor(targets), convert_to_tensor(predictions), k)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return log(sum(exp(x)))."""
    return tg.reduce_logsumexp(convert_to_tensor(x), axes_of(axis), keepdims)


def cdist(x: Any, y: Any) -> Any:
    """Return the distances between all pairs of vectors."""
    x, y = convert_to_tensor(x), convert_to_tensor(y)
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError("`cdist` inputs must have rank >= 2")
    if x.shape[-1] != y.shape[-1]:
        raise ValueError("The points of cdist must match in their number of coordinates.")
    difference = x[..., :, None, :] - y[..., None, :, :]
    return tg.sqrt(tg.reduce_sum(tg.square(difference), -1))


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Any:
    """Return overlapping windows of the last axis."""
    x = convert_to_tensor(x)
    number = (x.shape[-1] - (sequence_length - sequence_stride)) // sequence_stride
    places = np.arange(number)[:, None] * sequence_stride + np.arange(sequence_length)
    return tg.gather(x, places.astype("int32"), axis=-1)


def _pair(x: Any) -> tuple[Any, Any]:
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise ValueError(
            f"Input `x` should be a tuple of two tensors, the parts of complex numbers. Got {x}."
        )
    real, imag = (convert_to_tensor(part) for part in x)
    if tuple(real.shape) != tuple(imag.shape):
        raise ValueError(
            "Input `x` should be a tuple of two tensors of equal sizes. Both the real and "
            f"imaginary parts should have the same shape: got {tuple(real.shape)} and "
            f"{tuple(imag.shape)}."
        )
    if "float" not in real.dtype.name or "float" not in imag.dtype.name:
        raise ValueError(f"The parts of complex numbers must be floats. Got {x}.")
    return real, imag


def _get_complex_tensor_from_tuple(x: Any) -> Any:
    """Return complex numbers from a pair; Keras' own functions call this."""
    return tg.complex(*_pair(x))


def fft(x: Any) -> Any:
    """Return the Fourier transform along the last axis, as a pair."""
    return ops.fft(_pair(x))


def fft2(x: Any) -> Any:
    """Return the Fourier transform along the last two axes, as a pair."""
    return ops.fft2(_pair(x))


def ifft2(x: Any) -> Any:
    """Return the inverse of `fft2`."""
    return ops.ifft2(_pair(x))


def rfft(x: Any, fft_length: int | None = None) -> Any:
    """Return the nonredundant half of the Fourier transform of real numbers."""
    x = convert_to_tensor(x)
    return tuple([tg.cast(part, x.dtype) for part in ops.rfft(x, fft_length)])


def irfft(x: Any, fft_length: int | None = None) -> Any:
    """Return the inverse of `rfft`."""
    real, imag = _pair(x)
    return tg.cast(ops.irfft((real, imag), fft_length), real.dtype)


def _window(window: Any, sequence_length: int, fft_length: int, dtype: Any) -> Any:
    """Return the window in the middle of zeros, as NumPy computes it."""
    if window is None:
        return np.ones(fft_length, standardize_dtype(dtype))
    if isinstance(window, str):
        first = {"hann": 0.5, "hamming": 0.54}[window]
        turns = 2 * np.pi * np.arange(sequence_length) / sequence_length
        window = first - (1 - first) * np.cos(turns)
    taper = np.array(convert_to_tensor(window), standardize_dtype(dtype))
    if taper.shape != (sequence_length,):
        raise ValueError(
            f"The shape of `window` must be equal to ({sequence_length},). Got {taper.shape}."
        )
    before = (fft_length - sequence_length) // 2
    return np.pad(taper, (before, fft_length - sequence_length - before))


def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> Any:
    """Return the short-time Fourier transform, as a pair."""
    if standardize_dtype(x.dtype) not in {"float32", "float64"}:
        raise TypeError(f"stft takes signals of `float32` or `float64`. Got {x.dtype}.")
    if fft_length < sequence_length:
        raise ValueError(
            f"`fft_length` must equal or exceed the {sequence_length} samples of a frame. "
            f"Got {fft_length}."
        )
    if isinstance(window, str) and window not in {"hann", "hamming"}:
        raise ValueError(
            f"If a string is passed to stft as a window, it is 'hann' or 'hamming'. Got {window!r}."
        )
    x = convert_to_tensor(x)
    taper = _window(window, sequence_length, fft_length, x.dtype)
    if center:
        widths = [(0, 0)] * (x.ndim - 1) + [(fft_length // 2, fft_length // 2)]
        x = tg.numpy.pad(x, widths, mode="reflect")
    return rfft(extract_sequences(x, fft_length, sequence_stride) * taper, fft_length)


def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: int | None = None,
    window: Any = "hann",
    center: bool = True,
) -> Any:
    """Return the inverse of `stft`: the sum of overlapping windows."""
    real, imag = _pair(x)
    frames = irfft((real, imag), fft_length)
    if window is not None:
        taper = _window(window, sequence_length, fft_length, real.dtype)
        # The sum of all windows that overlap at a place, far from the ends.
        shares = np.zeros(sequence_stride, taper.dtype)
        np.add.at(shares, np.arange(fft_length) % sequence_stride, taper**2)
        frames = frames * (taper / shares[np.arange(fft_length) % sequence_stride])
    number = frames.shape[-2]
    size = fft_length + sequence_stride * (number - 1)
    places = np.arange(number)[:, None] * sequence_stride + np.arange(fft_length)
    flat = tg.reshape(frames, (-1, number * fft_length))
    joined = tg.math.unsorted_segment_sum(tg.transpose(flat), places.ravel().astype("int32"), size)
    signal = tg.reshape(tg.transpose(joined), (*frames.shape[:-2], size))
    start = fft_length // 2 if center else 0
    if length is not None:
        return signal[..., start : start + length]
    return signal[..., start : -(fft_length // 2) if center else size]


def _floating(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        x = convert_to_tensor(x)
        return function(tg.cast(x, result_type(x.dtype, float)))

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    return run


rsqrt = _floating(tg.math.rsqrt)
erf = _floating(tg.math.erf)
erfc = _floating(tg.math.erfc)
erfinv = _floating(tg.math.erfinv)


def logdet(x: Any) -> Any:
    """Return the logarithm of the determinant."""
    return matrices.slogdet(convert_to_tensor(x))[1]
