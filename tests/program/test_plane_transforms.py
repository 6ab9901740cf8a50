"""Real transforms over several axes become one call, which the kernels of CUDA compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.program.passes.algebra import simplified
from tapegrad.program.passes.plane_transforms import with_plane_transforms
from tests.program.recorded_graphs import assert_same_results, count, recorded

rng = np.random.default_rng(6)


def merged(function: Any, *arrays: Any) -> Any:
    before = simplified(recorded(function, arrays))
    after = with_plane_transforms(before)
    assert_same_results(before, after, arrays)
    return after


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (2, 0), (0, 1, 2)])
def test_a_transform_and_its_inverse_are_two_calls(axes: tuple[int, ...], norm: str) -> None:
    x = rng.normal(size=(4, 6, 5))

    def there_and_back(x: Any) -> Any:
        spectrum = tnp.fft.rfftn(x, axes=axes, norm=norm)
        lengths = [x.shape[axis] for axis in axes]
        return (spectrum, tnp.fft.irfftn(spectrum * spectrum, lengths, axes, norm))

    after = merged(there_and_back, x)
    assert count(after, "real_fourier_nd") == count(after, "inverse_real_fourier_nd") == 1
    assert not count(after, "fourier", "real_fourier", "inverse_real_fourier")


def test_gradients_weigh_the_bins_outside_of_the_calls() -> None:
    x, w = rng.normal(size=(3, 8, 6)), rng.normal(size=(8, 4))

    def gradients(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            spectrum = tnp.fft.rfft2(x) * w
            loss = tnp.sum(tnp.fft.irfft2(spectrum) ** 3)
        return tuple(tape.gradient(loss, [x, w]))

    after = merged(gradients, x, w)
    assert count(after, "real_fourier_nd") == count(after, "inverse_real_fourier_nd") == 2
    assert not count(after, "fourier", "real_fourier", "inverse_real_fourier")


def test_transforms_that_are_read_twice_or_differ_in_their_factors_stay() -> None:
    x = rng.normal(size=(4, 6))

    def separate(x: Any) -> Any:
        half = tnp.fft.rfft(x, axis=1)
        return (half, tnp.fft.fft(half, axis=0), tnp.fft.fft(tnp.fft.rfft(x), axis=0, norm="ortho"))

    assert not count(merged(separate, x), "real_fourier_nd")


def test_cropped_spectra_are_not_transformed_together() -> None:
    x = rng.normal(size=(4, 6)) + 0j

    def cropped(x: Any) -> Any:
        return (tnp.fft.irfft(tnp.fft.ifft(x, axis=0), 8, axis=1),)

    merged(cropped, x)
