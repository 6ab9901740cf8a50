"""SciPy's signal processing with gradients: convolution, filters, spectra."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.signal.convolving import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
    hilbert,
)
from tapegrad.scipy.signal.filtering import lfilter
from tapegrad.scipy.signal.spectral import csd, detrend, istft, periodogram, stft, welch
from tapegrad.scipy.signal.windows import get_window

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve",
    "get_window", "hilbert", "istft", "lfilter", "periodogram", "stft", "welch",
]  # fmt: skip

_check_calls(globals(), __all__)
