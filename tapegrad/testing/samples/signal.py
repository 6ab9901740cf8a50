"""Samples of frames, short-time transforms, windows and convolution of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.convolution import sequences as convolve
from tapegrad.ops.fourier import frames as signal, tapers as window_functions
from tapegrad.testing.sample import (
    Maker,
    Sample,
    alike,
    complex_normal,
    fixed,
    named,
    normal,
    of_scipy,
    uniform,
)


def _frames(x: Any, length: int, step: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, length, -1)[..., ::step, :]


def _added(x: Any, step: int) -> Any:
    *lead, count, length = x.shape
    whole = np.zeros((*lead, (count - 1) * step + length), x.dtype)
    for k in range(count):
        whole[..., k * step : k * step + length] += x[..., k, :]
    return whole


def _stft(x: Any, length: int, step: int, n: int, window: str | Any) -> Any:
    import scipy.signal

    weights = scipy.signal.get_window(window, length)
    _, _, bins = scipy.signal.stft(
        x, 1.0, weights, length, length - step, n, boundary=None, padded=False
    )
    return np.swapaxes(bins, -1, -2) * weights.sum()  # SciPy divides by the sum


def _inverse_stft(x: Any, length: int, step: int, n: int) -> Any:
    import scipy.signal

    frames = np.fft.irfft(x, n)[..., :length]
    return _added(frames * scipy.signal.get_window("hann", length), step)


def _there_and_back(x: Any) -> Any:
    bins = signal.stft(x, 4, 2)
    back = signal.inverse_stft(bins, 4, 2, window_fn=signal.inverse_stft_window_fn(2))
    return back[2:-2]


def _mel_weights(x: Any) -> Any:
    low, high = 1127 * np.log(1 + np.array([300.0, 3000.0]) / 700)
    bands = np.linspace(low, high, 5)
    bins = 1127 * np.log(1 + np.linspace(0, 4000, 9) / 700)
    rows = [np.interp(bins, bands[k : k + 3], [0, 1, 0]) for k in range(3)]
    return x @ np.array(rows).T


def _mfccs(x: Any) -> Any:
    return of_scipy("fft", "dct", type=2)(x) / np.sqrt(2 * x.shape[-1])


def _pair(name: str, mode: str, first: Maker, second: Maker, label: str = "") -> Sample:
    function, reference = getattr(convolve, name), getattr(np, name)
    return alike(f"{name}-{mode}{label and '-'}{label}", function, [first, second], reference, mode)


SAMPLES = [
    alike("frame", signal.frame, [normal(2, 8)], _frames, 3, 2),
    alike("frame-gaps", signal.frame, [normal(9)], _frames, 2, 3),
    Sample(
        "frame-pad_end",
        lambda x: signal.frame(x, 4, 2, pad_end=True, pad_value=0.5),
        [normal(2, 7)],
        lambda x: _frames(np.pad(x, [(0, 0), (0, 3)], constant_values=0.5), 4, 2),
    ),
    Sample(
        "frame-axis",
        lambda x: signal.frame(x, 2, 1, axis=0),
        [normal(4, 3)],
        lambda x: np.moveaxis(_frames(x.T, 2, 1), 0, -1),
    ),
    Sample("frame-short", lambda x: signal.frame(x, 5, 2), [normal(4)], lambda x: np.empty((0, 5))),
    alike("overlap_and_add", signal.overlap_and_add, [normal(2, 4, 5)], _added, 2),
    alike("overlap_and_add-few", signal.overlap_and_add, [complex_normal(2, 4)], _added, 1),
    alike("overlap_and_add-gaps", signal.overlap_and_add, [normal(3, 2)], _added, 3),
    Sample(
        "stft", lambda x: signal.stft(x, 6, 2), [normal(2, 12)], lambda x: _stft(x, 6, 2, 8, "hann")
    ),
    Sample(
        "stft-fft_length",
        lambda x: signal.stft(x, 4, 3, 9, window_functions.hamming_window),
        [normal(11)],
        lambda x: _stft(x, 4, 3, 9, "hamming"),
    ),
    Sample(
        "stft-pad_end",
        lambda x: signal.stft(x, 4, 2, window_fn=None, pad_end=True),
        [normal(5)],
        lambda x: _stft(np.pad(x, (0, 3)), 4, 2, 4, "boxcar"),
    ),
    Sample(
        "inverse_stft",
        lambda x: signal.inverse_stft(x, 6, 2),
        [complex_normal(2, 3, 5)],
        lambda x: _inverse_stft(x, 6, 2, 8),
    ),
    Sample("inverse_stft_window_fn", _there_and_back, [normal(10)], lambda x: x[2:-2]),
    Sample(
        "kaiser_window",
        lambda beta: window_functions.kaiser_window(5, beta, beta.dtype),
        [fixed(2.5)],
        of_scipy("signal.windows", "kaiser", 5),
    ),
    Sample(
        "kaiser_bessel_derived_window",
        lambda beta: window_functions.kaiser_bessel_derived_window(6, beta, beta.dtype),
        [fixed(1.5)],
        of_scipy("signal.windows", "kaiser_bessel_derived", 6),
    ),
    Sample(
        "linear_to_mel_weight_matrix",
        lambda x: x @ window_functions.linear_to_mel_weight_matrix(3, 9, 8e3, 300, 3e3, x.dtype),
        [uniform(0.0, 2.0, 2, 9)],
        _mel_weights,
    ),
    named(window_functions.mfccs_from_log_mel_spectrograms, [normal(2, 5)], _mfccs),
    _pair("convolve", "full", normal(5), normal(3)),
    _pair("convolve", "full", complex_normal(2), complex_normal(4), "complex"),
    _pair("convolve", "same", normal(4), normal(5)),
    _pair("convolve", "valid", normal(6), normal(2)),
    _pair("convolve", "valid", complex_normal(3), complex_normal(5), "complex"),
    _pair("correlate", "full", complex_normal(5), complex_normal(3), "complex"),
    _pair("correlate", "same", normal(6), normal(4)),
    _pair("correlate", "same", normal(4), normal(5), "longer"),
    _pair("correlate", "valid", normal(3), normal(6)),
    _pair("correlate", "valid", complex_normal(5), complex_normal(2), "complex"),
    _pair("correlate", "valid", normal(1), normal(1), "one"),
]
