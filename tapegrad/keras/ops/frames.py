"""Frames of signals and short-time Fourier transforms with Keras signatures.

Transforms are pairs of real and imaginary parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras.ops.arrays import irfft, rfft
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.fourier.frames import frame, overlap_and_add
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.rearranging import tile

# The first coefficient of the windows that have names.
_NAMED = {"hann": 0.5, "hamming": 0.54}


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Any:
    """Return overlapping windows of the last axis.

    >>> extract_sequences([1, 2, 3, 4, 5], 3, 2).tolist()
    [[1, 2, 3], [3, 4, 5]]
    """
    return frame(x, sequence_length, sequence_stride)


def _window(like: Any, window: Any, sequence_length: int, fft_length: int, name: str) -> Any:
    """Return the window in the middle of zeros, next to the signal."""
    if isinstance(window, str):
        if window not in _NAMED:
            raise ArgumentError(
                f"If a string is passed to {name} as a window, it is 'hann' or 'hamming'. "
                f"Got {window!r}."
            )
        first = _NAMED[window]
        turns = 2 * np.pi * np.arange(sequence_length) / sequence_length
        window = (first - (1 - first) * np.cos(turns)).astype(numpy_dtype_of(like))
        taper = place_next_to(like, window)
    else:
        taper = in_dtype(as_operand(window), like.dtype)
    if tuple(taper.shape) != (sequence_length,):
        raise ShapeError(
            f"The shape of `window` must be equal to ({sequence_length},). "
            f"Got {tuple(taper.shape)}."
        )
    before = (fft_length - sequence_length) // 2
    return pad(taper, [(before, fft_length - sequence_length - before)])


def _check_lengths(name: str, sequence_length: int, sequence_stride: int, fft_length: int) -> None:
    check_count("sequence_length", sequence_length, name, least=1)
    check_count("sequence_stride", sequence_stride, name, least=1)
    if check_count("fft_length", fft_length, name, least=1) < sequence_length:
        raise ArgumentError(
            f"`fft_length` must equal or exceed the {sequence_length} samples of a frame. "
            f"Got {fft_length}."
        )


def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> tuple[Any, Any]:
    """Return the short-time Fourier transform: the Fourier transform of each windowed frame.

    With `center`, the signal is reflected at its ends, so that frames lie around their places.

    >>> stft([1.0, 1.0, 1.0, 1.0], 2, 2, 2, window=None, center=False)[0].tolist()
    [[2.0, 0.0], [2.0, 0.0]]
    """
    signal = as_operand(x)
    if str(signal.dtype.name) not in ("float32", "float64"):
        raise ArgumentTypeError(
            f"stft takes signals of `float32` or `float64`. Got {signal.dtype.name}."
        )
    _check_lengths("stft", sequence_length, sequence_stride, fft_length)
    if center:
        half = fft_length // 2
        widths = [(0, 0)] * (len(signal.shape) - 1) + [(half, half)]
        signal = pad(signal, widths, "REFLECT")
    frames = frame(signal, fft_length, sequence_stride)
    if window is not None:
        frames = frames * _window(signal, window, sequence_length, fft_length, "stft")
    real, imag = rfft(frames, fft_length)
    return in_dtype(real, signal.dtype), in_dtype(imag, signal.dtype)


def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: int | None = None,
    window: Any = "hann",
    center: bool = True,
) -> Any:
    """Return the inverse of `stft`: the sum of overlapping windows.

    >>> parts = stft([1.0, 2.0, 3.0, 4.0], 2, 2, 2, window=None, center=False)
    >>> istft(parts, 2, 2, 2, window=None, center=False).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    _check_lengths("istft", sequence_length, sequence_stride, fft_length)
    dtype = as_operand(x[0]).dtype
    frames = in_dtype(irfft(x, fft_length), dtype)
    if window is not None:
        taper = _window(frames, window, sequence_length, fft_length, "istft")
        frames = frames * (taper / _sum_of_windows(taper * taper, fft_length, sequence_stride))
    signal = overlap_and_add(frames, sequence_stride)
    start = fft_length // 2 if center else 0
    if length is not None:
        end = start + check_count("length", length, "istft")
    else:
        end = signal.shape[-1] - start
    return signal[..., start:end]


def _sum_of_windows(squares: Any, length: int, stride: int) -> Any:
    """Return the sum of all windows that overlap at a place, far from the ends."""
    turns = -(-length // stride)
    rows = reshape(pad(squares, [(0, turns * stride - length)]), (turns, stride))
    return tile(reduce_sum(rows, 0), [turns])[:length]
