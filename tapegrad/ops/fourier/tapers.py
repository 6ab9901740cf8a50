"""Window functions for short-time spectra, and the mel filter bank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.arithmetic import divide, multiply
from tapegrad.ops.elementwise.bessel import bessel_i0e
from tapegrad.ops.elementwise.exponential import exp
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.fourier.functions import dct
from tapegrad.ops.fourier.transforms import as_real
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.reduction.cumulative import cumsum
from tapegrad.ops.shape.joining import concat

Host = np.ndarray


def _length(window_length: Any, name: str) -> int:
    if int(window_length) != window_length or int(window_length) < 1:
        raise ArgumentError(
            f"{name} needs an integer >= 1 as window_length. Got {window_length!r}."
        )
    return int(window_length)


def _on_device(values: Host, dtype: Any) -> Any:
    return constant(values.astype(numpy_dtype(dtype)))


def hann_window(
    window_length: int, periodic: bool = True, dtype: Any = "float32", name: str | None = None
) -> Any:
    """Return the Hann window, (1 - cos) / 2.

    >>> hann_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return _raised_cosine(_length(window_length, "hann_window"), periodic, 0.5, dtype)


def hamming_window(
    window_length: int, periodic: bool = True, dtype: Any = "float32", name: str | None = None
) -> Any:
    """Return the Hamming window, 0.54 - 0.46 cos.

    >>> hamming_window(2, dtype="float64").round(2).tolist()
    [0.08, 1.0]
    """
    return _raised_cosine(_length(window_length, "hamming_window"), periodic, 0.54, dtype)


def _raised_cosine(length: int, periodic: bool, offset: float, dtype: Any) -> Any:
    if length == 1:
        return _on_device(np.ones(1), dtype)
    # As in TensorFlow, a window of odd length is symmetric even with periodic=True.
    period = length if periodic and length % 2 == 0 else length - 1
    wave = np.cos(2 * math.pi * np.arange(length) / period)
    return _on_device(offset - (1 - offset) * wave, dtype)


def vorbis_window(window_length: int, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return the Vorbis window, sin(π/2 sin²).

    >>> vorbis_window(2, "float64").round(4).tolist()
    [0.7071, 0.7071]
    """
    length = _length(window_length, "vorbis_window")
    inner = np.sin(math.pi / length * (np.arange(length) + 0.5))
    return _on_device(np.sin(math.pi / 2 * inner**2), dtype)


def kaiser_window(
    window_length: int, beta: Any = 12.0, dtype: Any = "float32", name: str | None = None
) -> Any:
    """Return the Kaiser window, I₀(β √(1 - x²)) / I₀(β); differentiable in `beta`.

    >>> kaiser_window(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    length = _length(window_length, "kaiser_window")
    position = np.linspace(-1.0, 1.0, length) if length > 1 else np.zeros(1)
    root = np.sqrt(np.maximum(0.0, 1.0 - position**2))
    beta = cast(as_operand(beta), dtype)
    # The scaled Bessel function avoids overflow for a large beta.
    ratio = divide(bessel_i0e(multiply(beta, _on_device(root, dtype))), bessel_i0e(beta))
    return multiply(ratio, exp(multiply(beta, _on_device(root - 1.0, dtype))))


def kaiser_bessel_derived_window(
    window_length: int, beta: Any = 12.0, dtype: Any = "float32", name: str | None = None
) -> Any:
    """Return the window whose square, added to its shift by half the length, is 1.

    >>> kaiser_bessel_derived_window(2, 0.0, "float64").round(4).tolist()
    [0.7071, 0.7071]
    """
    half = _length(window_length, "kaiser_bessel_derived_window") // 2
    sums = cumsum(kaiser_window(half + 1, beta, dtype), axis=0)
    early = slice_p(sums, index=(slice(0, half),))
    rise = sqrt(divide(early, slice_p(sums, index=(slice(half, None),))))
    return concat([rise, slice_p(rise, index=(slice(None, None, -1),))], 0)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: float = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = "float32",
    name: str | None = None,
) -> Any:
    """Return the mel filter bank `[spectrogram bins, mel bins]`: overlapping triangles.

    Multiply magnitudes `[..., spectrogram bins]` by it.

    >>> linear_to_mel_weight_matrix(4, 9).shape
    (9, 4)
    """
    if num_mel_bins < 1 or num_spectrogram_bins < 1 or sample_rate <= 0:
        raise ArgumentError(
            "linear_to_mel_weight_matrix needs at least one mel bin, one spectrogram bin and a "
            f"positive sample rate. Got {num_mel_bins}, {num_spectrogram_bins} and {sample_rate}."
        )
    if not 0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2:
        raise ArgumentError(
            "The edges must increase and lie between 0 and half the sample rate "
            f"({sample_rate / 2} Hz). Got {lower_edge_hertz} and {upper_edge_hertz}."
        )
    edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    # The first bin is the mean of the signal, which is in no band.
    bins = _mel(np.linspace(0.0, sample_rate / 2, num_spectrogram_bins)[1:, None])
    rise, fall = (bins - lower) / (centre - lower), (upper - bins) / (upper - centre)
    weights = np.maximum(0.0, np.minimum(rise, fall))
    return _on_device(np.concatenate([np.zeros((1, num_mel_bins)), weights]), dtype)


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Any:
    """Return the mel-frequency cepstral coefficients: a scaled cosine transform.

    >>> mfccs_from_log_mel_spectrograms([[1.0, 1.0]]).round(4).tolist()
    [[2.0, 0.0]]
    """
    x = as_real(log_mel_spectrograms, "mfccs_from_log_mel_spectrograms")
    return multiply(dct(x, 2), 1 / math.sqrt(2.0 * x.shape[-1]))
