"""Spectral analysis with windowed segments: stft, istft, csd, welch, periodogram, detrend."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_wholes
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.ops.fourier.frames import frame, overlap_and_add
from tapegrad.ops.fourier.transforms import fft, ifft, irfft, rfft
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.signal.windows import host_window
from tapegrad.scipy.vocabulary import (
    as_constant,
    concat,
    conjugate,
    is_complex,
    mean,
    moveaxis,
    numpy_dtype_of,
    operand,
    operands,
    place_next_to,
    real,
    sum_over,
)


@dataclass(frozen=True)
class Segments:
    """The segmentation of a signal: window, segment length, overlap and transform length."""

    window: np.ndarray
    length: int
    overlap: int
    bins: int
    onesided: bool

    @property
    def step(self) -> int:
        return self.length - self.overlap

    def frequencies(self, fs: float) -> Any:
        """Return the frequency of each bin."""
        make = np.fft.rfftfreq if self.onesided else np.fft.fftfreq
        return as_constant(make(self.bins, 1 / fs))


def _segments(
    window: Any, nperseg: Any, noverlap: Any, nfft: Any, longest: int, onesided: bool
) -> Segments:
    wanted = 256 if nperseg is None else int(nperseg)
    if not isinstance(window, str | tuple) and nperseg is None:
        wanted = len(window)
    length = min(wanted, longest)
    overlap = length // 2 if noverlap is None else int(noverlap)
    bins = length if nfft is None else int(nfft)
    if length < 1 or not 0 <= overlap < length or bins < length:
        raise ArgumentError(
            "Segments need 1 <= nperseg, 0 <= noverlap < nperseg and nfft >= nperseg. Got "
            f"{length}, {overlap} and {bins}."
        )
    return Segments(host_window(window, length), length, overlap, bins, onesided)


def _like(x: Any, values: np.ndarray) -> Any:
    kind = numpy_dtype_of(x)
    return place_next_to(x, values.astype(kind if kind.kind != "c" else kind.type(0).real.dtype))


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: bool = False
) -> Any:
    """Subtract the mean ('constant') or the best fitting line ('linear') from a signal.

    With the breakpoints `bp`, each part between them has its own line. The data are not changed;
    `overwrite_data` is ignored.

    >>> detrend([1.0, 2.0, 3.0]).round(6).tolist()
    [0.0, 0.0, 0.0]
    """
    x = operand(data)
    if type in ("constant", "c"):
        return x - mean(x, axis, keepdims=True)
    if type not in ("linear", "l"):
        raise ArgumentError(f"type must be 'linear' or 'constant'. Got {type!r}.")
    axis = normalize_axis(axis, x.ndim, "detrend")
    rows = moveaxis(x, axis, -1)
    n = rows.shape[-1]
    ends = sorted({0, n, *check_wholes("bp", bp)})
    if ends[0] < 0 or ends[-1] > n:
        raise ArgumentError(f"The breakpoints bp must lie between 0 and {n}. Got {bp}.")
    parts = [_without_line(rows[..., a:b]) for a, b in itertools.pairwise(ends)]
    return moveaxis(concat(parts, -1) if parts else rows, -1, axis)


def _without_line(rows: Any) -> Any:
    """Subtract the line that fits each row best."""
    ramp = np.arange(rows.shape[-1]) - 0.5 * (rows.shape[-1] - 1)
    rows = rows - mean(rows, -1, keepdims=True)
    place = _like(rows, ramp)
    slope = sum_over(rows * place, -1, keepdims=True) / max(float((ramp * ramp).sum()), 1e-300)
    return rows - slope * place


def _transforms(x: Any, cut: Segments, trend: Any) -> Any:
    """Return the transforms of the segments along the last axis: [..., segments, bins]."""
    pieces = frame(x, cut.length, cut.step)
    if trend:
        pieces = trend(pieces) if callable(trend) else detrend(pieces, -1, trend)
    pieces = pieces * _like(x, cut.window)
    return rfft(pieces, cut.bins) if cut.onesided else fft(pieces, cut.bins)


def _scale(cut: Segments, fs: float, scaling: str, names: tuple[str, str]) -> float:
    """Return the scale of a power spectrum: a density, or the power of a spectral line."""
    check_choice("scaling", scaling, names)
    if scaling == names[0]:
        return 1 / (fs * float((cut.window**2).sum()))
    return 1 / float(cut.window.sum()) ** 2


def stft(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Any, Any, Any]:
    """Return frequencies, times and the short-time Fourier transform `[..., bins, times]`.

    The boundary is 'zeros', which pads half a segment on both sides, or None.

    >>> f, t, z = stft([0.0] * 8, nperseg=4)
    >>> z.shape
    (3, 5)
    """
    check_choice("boundary", boundary, ("zeros", None))
    x = operand(x)
    axis = normalize_axis(axis, x.ndim, "stft")
    rows = moveaxis(x, axis, -1)
    longest = rows.shape[-1]
    cut = _segments(window, nperseg, noverlap, nfft, longest, return_onesided and not is_complex(x))
    half = cut.length // 2 if boundary else 0
    extra = -(longest + 2 * half - cut.length) % cut.step if padded else 0
    ends = [(0, 0)] * (rows.ndim - 1) + [(half, half + extra)]
    z = _transforms(pad(rows, ends), cut, detrend)
    z = z * _scale(cut, fs, scaling, ("psd", "spectrum")) ** 0.5
    first = 0.0 if boundary else 0.5 * cut.length
    times = as_constant((np.arange(z.shape[-2]) * cut.step + first) / fs)
    return cut.frequencies(fs), times, moveaxis(z, (-1, -2), (axis, -1))


def istft(
    Zxx: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Any, Any]:
    """Return the times and the inverse of `stft`.

    >>> f, t, z = stft([1.0, 2.0, 3.0, 4.0], nperseg=2)
    >>> istft(z, nperseg=2)[1].round(6).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    z = operand(Zxx)
    z = moveaxis(z, (time_axis, freq_axis), (-2, -1))
    bins = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = bins if nperseg is None else int(nperseg)
    if input_onesided and nfft is None and length == bins + 1:
        bins = length  # `bins` comes from a one-sided transform of odd length
    cut = _segments(window, length, noverlap, nfft or bins, length, input_onesided)
    pieces = irfft(z, cut.bins) if input_onesided else ifft(z, cut.bins)
    pieces = pieces[..., : cut.length]
    pieces = pieces / _scale(cut, fs, scaling, ("psd", "spectrum")) ** 0.5
    count = z.shape[-2]
    y = overlap_and_add(pieces * _like(pieces, cut.window), cut.step)
    squares = np.zeros(cut.length + (count - 1) * cut.step)
    for k in range(count):
        squares[k * cut.step : k * cut.step + cut.length] += cut.window**2
    y = y / _like(y, np.where(squares > 1e-10, squares, 1.0))
    if boundary:
        half = cut.length // 2
        y = y[..., half : y.shape[-1] - half]
    return as_constant(np.arange(y.shape[-1]) / fs), y


def csd(
    x: Any,
    y: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Any, Any]:
    """Return frequencies and the cross spectral density of two signals by Welch's method.

    >>> f, p = csd([1.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 1.0], nperseg=4)
    >>> p.shape
    (3,)
    """
    x, y = operands(x, y)
    # Signals with fewer axes broadcast, so each has its own axis number.
    x, y = (moveaxis(s, normalize_axis(axis, s.ndim, "csd"), -1) for s in (x, y))
    axis = normalize_axis(axis, max(x.ndim, y.ndim), "csd")
    longest = max(x.shape[-1], y.shape[-1])
    x, y = (_lengthened(signal, longest) for signal in (x, y))
    onesided = return_onesided and not is_complex(x)
    cut = _segments(window, nperseg, noverlap, nfft, longest, onesided)
    power = conjugate(_transforms(x, cut, detrend)) * _transforms(y, cut, detrend)
    power = mean(power, -2) * _scale(cut, fs, scaling, ("density", "spectrum"))
    if onesided:
        twice = np.full(power.shape[-1], 2.0)
        twice[0] = 1.0
        if cut.bins % 2 == 0:
            twice[-1] = 1.0
        power = power * _like(power, twice)
    return cut.frequencies(fs), moveaxis(power, -1, axis)


def _lengthened(x: Any, length: int) -> Any:
    missing = length - x.shape[-1]
    return pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)]) if missing else x


def welch(
    x: Any,
    fs: float = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Any, Any]:
    """Return frequencies and the power spectral density by Welch's method.

    >>> f, p = welch([1.0, -1.0, 1.0, -1.0], nperseg=4, window="boxcar")
    >>> p.round(6).tolist()
    [0.0, 0.0, 4.0]
    """
    f, power = csd(
        x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis
    )
    return f, real(power)


def periodogram(
    x: Any,
    fs: float = 1.0,
    window: Any = "boxcar",
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Any, Any]:
    """Return frequencies and the power spectral density of the whole signal.

    >>> periodogram([1.0, -1.0, 1.0, -1.0])[1].round(6).tolist()
    [0.0, 0.0, 4.0]
    """
    x = operand(x)
    place = normalize_axis(axis, x.ndim, "periodogram")
    length = x.shape[place]
    if nfft is not None and nfft < length:
        # As in SciPy, nfft below the length of the signal truncates it.
        x = x[(slice(None),) * place + (slice(0, int(nfft)),)]
        length = int(nfft)
    return welch(x, fs, window, length, 0, nfft, detrend, return_onesided, scaling, axis)
