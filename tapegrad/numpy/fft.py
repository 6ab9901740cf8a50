"""`numpy.fft`: Fourier transforms, shifts and frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.device import device as on_device
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.numpy.values import as_array, deliver, floating
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.composed import is_tensor
from tapegrad.ops.creation import as_constant
from tapegrad.ops.fourier import functions as spectra, transforms
from tapegrad.ops.linalg.common import dtype_of

Norm = str | None


def _numbers(a: Any) -> Any:
    """Return the array as floating point, in at least single precision."""
    x = floating(a)
    return cast(x, "float32") if dtype_of(x) == "float16" else x


def _lengths(s: Any, axes: Any) -> tuple[Any, Any]:
    """Return lengths and axes; lengths without axes refer to the last axes."""
    if s is None:
        return None, axes
    lengths = check_wholes("s", s)
    return lengths, tuple(range(-len(lengths), 0)) if axes is None else axes


def fft(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
    """Return the discrete Fourier transform along an axis.

    >>> fft([1.0, 1.0]).tolist()
    [(2+0j), 0j]
    """
    return deliver(transforms.fft(_numbers(a), n, axis, norm), out)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `fft`.

    >>> ifft([2.0, 0.0]).tolist()
    [(1+0j), (1+0j)]
    """
    return deliver(transforms.ifft(_numbers(a), n, axis, norm), out)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
    """Return the transform of real values: the first n // 2 + 1 entries.

    >>> rfft([1.0, 1.0]).tolist()
    [(2+0j), 0j]
    """
    return deliver(transforms.rfft(_numbers(a), n, axis, norm), out)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `rfft`; give `n` if the number of values is odd.

    >>> irfft([2.0, 0.0]).tolist()
    [1.0, 1.0]
    """
    return deliver(transforms.irfft(_numbers(a), n, axis, norm), out)


def fftn(a: Any, s: Any = None, axes: Any = None, norm: Norm = None, out: Any = None) -> Any:
    """Return the discrete Fourier transform over several axes (None: all).

    >>> fftn([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return deliver(transforms.fftn(_numbers(a), *_lengths(s, axes), norm), out)


def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `fftn`.

    >>> ifftn([[2.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)]]
    """
    return deliver(transforms.ifftn(_numbers(a), *_lengths(s, axes), norm), out)


def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Norm = None, out: Any = None) -> Any:
    """Return the transform of real values over several axes; the last one is halved.

    >>> rfftn([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return deliver(transforms.rfftn(_numbers(a), *_lengths(s, axes), norm), out)


def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `rfftn`.

    >>> irfftn([[2.0, 0.0]]).tolist()
    [[1.0, 1.0]]
    """
    return deliver(transforms.irfftn(_numbers(a), *_lengths(s, axes), norm), out)


def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Norm = None, out: Any = None) -> Any:
    """Return the transform over two axes (by default the last two).

    >>> fft2([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return deliver(spectra.fft2(_numbers(a), s, axes, norm), out)


def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `fft2`.

    >>> ifft2([[2.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)]]
    """
    return deliver(spectra.ifft2(_numbers(a), s, axes, norm), out)


def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Norm = None, out: Any = None) -> Any:
    """Return the transform of real values over two axes; the last one is halved.

    >>> rfft2([[1.0, 1.0]]).tolist()
    [[(2+0j), 0j]]
    """
    return deliver(spectra.rfft2(_numbers(a), s, axes, norm), out)


def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `rfft2`.

    >>> irfft2([[2.0, 0.0]]).tolist()
    [[1.0, 1.0]]
    """
    return deliver(spectra.irfft2(_numbers(a), s, axes, norm), out)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
    """Return the real transform of Hermitian values, given one half of them.

    >>> hfft([1.0, 0.0]).tolist()
    [1.0, 1.0]
    """
    return deliver(transforms.hfft(_numbers(a), n, axis, norm), out)


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Any:
    """Return the inverse of `hfft`.

    >>> ihfft([1.0, 1.0]).shape
    (2,)
    """
    return deliver(transforms.ihfft(_numbers(a), n, axis, norm), out)


def fftshift(x: Any, axes: Any = None) -> Any:
    """Shift the zero-frequency entry to the middle.

    >>> fftshift([0, 1, -1]).tolist()
    [-1, 0, 1]
    """
    return spectra.fftshift(as_array(x), axes)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """Return the inverse of `fftshift`.

    >>> ifftshift([-1, 0, 1]).tolist()
    [0, 1, -1]
    """
    return spectra.ifftshift(as_array(x), axes)


def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """Return the frequencies of the entries of `fft` for samples with spacing `d`.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _spaced(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """Return the frequencies of the entries of `rfft` for samples with spacing `d`.

    >>> rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _spaced(np.fft.rfftfreq, n, d, dtype, device)


def _spaced(function: Any, n: int, d: Any, dtype: Any, device: Any) -> Any:
    """Return frequencies; the spacing may be a tensor with gradients."""
    if is_tensor(d):
        return _placed(function(n), dtype, device) / d
    return _placed(function(n, d), dtype, device)


def _placed(values: np.ndarray, dtype: Any, device: Any) -> Any:
    kind = values.dtype if dtype is None else numpy_dtype(dtype)
    with on_device(device):
        return as_constant(values.astype(kind))


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_check_calls(globals(), __all__)
