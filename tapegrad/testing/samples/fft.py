"""Samples of Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.fourier import functions as spectra, transforms as fft
from tapegrad.testing.sample import (
    Function,
    Maker,
    Sample,
    alike,
    complex_normal,
    named,
    normal,
    of_scipy,
)


def _both(name: str, maker: Maker, label: str = "", **options: Any) -> Sample:
    """Make a sample of a function and of NumPy's function of the same name."""
    function = getattr(fft, name, None) or getattr(spectra, name)
    return alike(
        f"{name}{label and '-'}{label}", function, [maker], getattr(np.fft, name), **options
    )


def _cosine(name: str, kind: int, norm: str | None = None) -> Sample:
    # Without a norm neither direction is scaled, as in TensorFlow.
    unscaled = "forward" if name == "idct" else "backward"
    reference = of_scipy("fft", name, type=kind, norm=norm or unscaled, axis=1)
    function: Function = getattr(spectra, name)
    return Sample(
        f"{name}-{kind}{'-ortho' if norm else ''}",
        lambda x: function(x, kind, axis=1, norm=norm),
        [normal(2, 5, 2)],
        reference,
    )


SAMPLES = [
    _both("fft", complex_normal(2, 5)),
    _both("fft", normal(4), "real"),
    _both("fft", complex_normal(3, 2), "ortho", axis=0, norm="ortho"),
    _both("fft", complex_normal(4), "crop", n=3, norm="forward"),
    _both("fft", complex_normal(4), "pad", n=7),
    _both("ifft", complex_normal(2, 5)),
    _both("ifft", complex_normal(4), "pad", n=6, norm="forward"),
    _both("rfft", normal(2, 6)),
    _both("rfft", normal(2, 5), "odd"),
    _both("rfft", normal(5, 2), "axis", axis=0, norm="ortho"),
    _both("rfft", normal(5), "pad", n=8, norm="forward"),
    _both("rfft", normal(1), "one"),
    _both("irfft", complex_normal(2, 4)),
    _both("irfft", complex_normal(2, 4), "odd", n=7),
    _both("irfft", complex_normal(4, 2), "axis", axis=0, norm="ortho"),
    _both("irfft", complex_normal(4), "crop", n=4),
    _both("irfft", complex_normal(3), "pad", n=9, norm="forward"),
    _both("fftn", complex_normal(2, 3, 2)),
    _both("fftn", complex_normal(2, 3, 2), "axes", axes=(0, 2), s=(3, 2), norm="ortho"),
    _both("ifftn", complex_normal(2, 3)),
    _both("rfftn", normal(2, 3, 4)),
    _both("rfftn", normal(2, 3, 5), "axes", s=(4, 3), axes=(1, 0), norm="forward"),
    _both("irfftn", complex_normal(2, 3)),
    _both("irfftn", complex_normal(2, 3, 3), "axes", s=(3, 5), axes=(0, 2), norm="ortho"),
    _both("fft2", complex_normal(2, 3, 2)),
    _both("ifft2", complex_normal(2, 3, 2)),
    _both("rfft2", normal(2, 3, 4)),
    _both("irfft2", complex_normal(2, 3, 3)),
    _both("hfft", complex_normal(4)),
    _both("hfft", complex_normal(4), "odd", n=7, norm="ortho"),
    _both("ihfft", normal(6)),
    _both("ihfft", normal(5), "odd", norm="forward"),
    _both("fftshift", normal(5, 4)),
    _both("fftshift", normal(5, 4), "axis", axes=0),
    _both("ifftshift", normal(5, 4)),
    named(spectra.fft2d, [complex_normal(2, 3, 2)], np.fft.fft2),
    named(spectra.ifft2d, [complex_normal(2, 3, 2)], np.fft.ifft2),
    Sample(
        "rfft2d",
        lambda x: spectra.rfft2d(x, [4, 3]),
        [normal(2, 3, 4)],
        lambda x: np.fft.rfft2(x, (4, 3)),
    ),
    Sample(
        "irfft2d",
        lambda x: spectra.irfft2d(x, [3, 5]),
        [complex_normal(2, 3, 3)],
        lambda x: np.fft.irfft2(x, (3, 5)),
    ),
    named(spectra.fft3d, [complex_normal(2, 3, 2)], np.fft.fftn),
    named(spectra.ifft3d, [complex_normal(2, 3, 2)], np.fft.ifftn),
    named(spectra.rfft3d, [normal(2, 3, 4)], np.fft.rfftn),
    named(spectra.irfft3d, [complex_normal(2, 3, 3)], np.fft.irfftn),
    _cosine("dct", 1),
    _cosine("dct", 2),
    _cosine("dct", 2, "ortho"),
    _cosine("dct", 3),
    _cosine("dct", 3, "ortho"),
    _cosine("idct", 1),
    _cosine("idct", 2),
    _cosine("idct", 2, "ortho"),
    _cosine("idct", 3),
]
