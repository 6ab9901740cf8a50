"""Samples of the modified cosine transform, dilations, and rounded floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.convolution.morphology import dilation2d, erosion2d
from tapegrad.ops.fourier.any_axes import fftnd, ifftnd, irfftnd, rfftnd
from tapegrad.ops.fourier.functions import dct
from tapegrad.ops.fourier.lapped import inverse_mdct, mdct
from tapegrad.ops.indexing.approximate_top import approx_max_k, approx_min_k
from tapegrad.testing.sample import Sample, complex_normal, normal, of_scipy


def _mdct(x: Any, length: int) -> Any:
    """The sum of the definition, with a constant window."""
    half = length // 2
    frames = np.stack([x[..., k : k + length] for k in range(0, x.shape[-1] - half, half)], -2)
    n, k = np.arange(length)[:, None], np.arange(half)
    table = np.cos(np.pi / half * (n + 0.5 + half / 2) * (k + 0.5))
    return frames @ table * np.sqrt(2.0)


def _dilated(x: Any, filters: Any, step: int, rate: int, sign: float = 1.0) -> Any:
    """The largest, or for sign -1 the smallest, sums of each window."""
    height, width = filters.shape[:2]
    rows = range(0, x.shape[1] - (height - 1) * rate, step)
    columns = range(0, x.shape[2] - (width - 1) * rate, step)
    found = [
        [
            (sign * x[:, r : r + height * rate : rate, c : c + width * rate : rate] + filters).max(
                axis=(1, 2)
            )
            for c in columns
        ]
        for r in rows
    ]
    return sign * np.moveaxis(np.array(found), 2, 0)


SAMPLES = [
    Sample("dct-4", lambda x: dct(x, 4), [normal(2, 5)], of_scipy("fft", "dct", type=4)),
    Sample(
        "dct-4-ortho",
        lambda x: dct(x, 4, norm="ortho"),
        [normal(4)],
        of_scipy("fft", "dct", type=4, norm="ortho"),
    ),
    Sample("mdct", lambda x: mdct(x, 8, window_fn=None), [normal(2, 16)], lambda x: _mdct(x, 8)),
    Sample(
        "inverse_mdct",
        lambda x: inverse_mdct(mdct(x, 4, norm="ortho"), norm="ortho")[2:-2],
        [normal(10)],
        lambda x: x[2:-2],
    ),
    Sample("fftnd", fftnd, [complex_normal(2, 3)], np.fft.fftn),
    Sample("ifftnd", lambda x: ifftnd(x, [4], [0]), [normal(3, 2)], lambda x: np.fft.ifft(x, 4, 0)),
    Sample(
        "rfftnd",
        lambda x: rfftnd(x, axes=[0, 2]),
        [normal(3, 2, 4)],
        lambda x: np.fft.rfftn(x, axes=[0, 2]),
    ),
    Sample(
        "irfftnd",
        lambda x: irfftnd(x, [2, 4]),
        [complex_normal(2, 3)],
        lambda x: np.fft.irfftn(x, [2, 4], (0, 1)),
    ),
    Sample(
        "dilation2d",
        lambda x, y: dilation2d(x, y, [1, 2, 2, 1], "VALID", "NHWC", [1, 1, 1, 1]),
        [normal(2, 4, 5, 2), normal(2, 3, 2)],
        lambda x, y: _dilated(x, y, 2, 1),
    ),
    Sample(
        "erosion2d",
        lambda x, y: erosion2d(x, y, [1, 1, 1, 1], "VALID", "NHWC", [1, 2, 2, 1]),
        [normal(1, 4, 5, 2), normal(2, 2, 2)],
        lambda x, y: _dilated(x, y[::-1, ::-1], 1, 2, -1.0),
    ),
    Sample(
        "approx_max_k",
        lambda x: approx_max_k(x, 2, 0)[0],
        [normal(4, 3)],
        lambda x: -np.sort(-x, axis=0)[:2],
    ),
    Sample(
        "approx_min_k",
        lambda x: approx_min_k(x, 2)[0],
        [normal(3, 4)],
        lambda x: np.sort(x, axis=-1)[:, :2],
    ),
]
