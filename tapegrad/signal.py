"""TensorFlow's `tf.signal` names: Fourier and cosine transforms, frames, windows, mel bands.

`convolve` and `correlate` are NumPy's.
"""

from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.convolution.sequences import convolve, correlate
from tapegrad.ops.fourier.any_axes import fftnd, ifftnd, irfftnd, rfftnd
from tapegrad.ops.fourier.frames import (
    frame,
    inverse_stft,
    inverse_stft_window_fn,
    overlap_and_add,
    stft,
)
from tapegrad.ops.fourier.functions import (
    dct,
    fft2d,
    fft3d,
    fftfreq,
    fftshift,
    idct,
    ifft2d,
    ifft3d,
    ifftshift,
    irfft2d,
    irfft3d,
    rfft2d,
    rfft3d,
    rfftfreq,
)
from tapegrad.ops.fourier.lapped import inverse_mdct, mdct
from tapegrad.ops.fourier.tapers import (
    hamming_window,
    hann_window,
    kaiser_bessel_derived_window,
    kaiser_window,
    linear_to_mel_weight_matrix,
    mfccs_from_log_mel_spectrograms,
    vorbis_window,
)
from tapegrad.ops.fourier.transforms import (
    fft,
    fftn,
    hfft,
    ifft,
    ifftn,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)

__all__ = [
    "convolve", "correlate", "dct", "fft", "fft2d", "fft3d", "fftfreq", "fftn", "fftnd", "fftshift",
    "frame", "hamming_window", "hann_window", "hfft", "idct", "ifft", "ifft2d", "ifft3d", "ifftn",
    "ifftnd", "ifftshift", "ihfft", "inverse_mdct", "inverse_stft", "inverse_stft_window_fn",
    "irfft", "irfft2d", "irfft3d", "irfftn", "irfftnd", "kaiser_bessel_derived_window",
    "kaiser_window", "linear_to_mel_weight_matrix", "mdct", "mfccs_from_log_mel_spectrograms",
    "overlap_and_add", "rfft", "rfft2d", "rfft3d", "rfftfreq", "rfftn", "rfftnd", "stft",
    "vorbis_window",
]  # fmt: skip

_check_calls(globals(), __all__)


def __getattr__(name: str) -> _Any:
    raise _absence("signal", name)
