"""The kernel that adds overlapping frames, run on the host, against a loop over frames."""

from __future__ import annotations

import numpy as np
import pytest

from tests.house.host_cuda import run_kernel

pytest.importorskip("cupy")
frames = pytest.importorskip("tapegrad_cupy.kernels.fourier.frames")


@pytest.mark.parametrize(
    ("count", "length", "step"), [(1, 5, 2), (7, 16, 4), (6, 5, 3), (4, 3, 5), (9, 4, 4), (3, 1, 1)]
)
def test_overlapping_frames_are_added(count, length, step):
    x = np.random.default_rng(0).normal(size=(3, count, length))
    whole = (count - 1) * step + length
    expected = np.zeros((3, whole))
    for k in range(count):
        expected[:, k * step : k * step + length] += x[:, k]
    y = np.full((3, whole), 7.0)
    numbers = [y.size, whole, count, length, step]
    run_kernel(frames._text("float64"), "overlap", [x, y, *numbers], -(-y.size // 256), 256)
    np.testing.assert_allclose(y, expected, rtol=1e-14, atol=1e-14)
