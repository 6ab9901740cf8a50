"""Segment reductions, Fourier transforms and special functions of Keras' backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import axes_of, convert_to_tensor
from tapegrad.keras import ops


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
    return ops.cdist(convert_to_tensor(x), convert_to_tensor(y))


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Any:
    """Return overlapping windows of the last axis."""
    return ops.extract_sequences(convert_to_tensor(x), int(sequence_length), int(sequence_stride))


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


def _taper(window: Any) -> Any:
    return window if window is None or isinstance(window, str) else convert_to_tensor(window)


def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> Any:
    """Return the short-time Fourier transform, as a pair."""
    x = convert_to_tensor(x)
    return ops.stft(x, sequence_length, sequence_stride, fft_length, _taper(window), center)


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
    lengths = (sequence_length, sequence_stride, fft_length, length)
    return ops.istft(_pair(x), *lengths, _taper(window), center)


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
    return ops.logdet(convert_to_tensor(x))
