"""Fourier transforms and frames on the GPU against NumPy and against the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.ops.fourier import frames, transforms
from tests.gpu.test_function_on_cuda import captures_of

pytest.importorskip("cupy")


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_transforms(dtype: str, n: int, norm: str) -> None:
    rng = np.random.default_rng(n)
    bound = 1e-4 if dtype == "float32" else 1e-11
    for shape, axis in (((n,), 0), ((5, n), 1), ((n, 6), 0), ((3, n, 4), 1)):
        x = rng.normal(size=shape).astype(dtype)
        spectrum = np.fft.rfft(x.astype("float64"), axis=axis, norm=norm)
        with tf.device("cuda:0"):
            given = tf.constant(
                spectrum.astype("complex64" if dtype == "float32" else "complex128")
            )
            before = given.numpy()
            found = transforms.rfft(tf.constant(x), axis=axis, norm=norm)
            back = transforms.irfft(given, n, axis=axis, norm=norm)
            np.testing.assert_array_equal(given.numpy(), before)  # cuFFT would overwrite it
        assert found.dtype == given.dtype
        assert back.dtype == dtype
        scale = max(1.0, np.abs(spectrum).max())
        np.testing.assert_allclose(found.numpy(), spectrum, atol=bound * scale)
        np.testing.assert_allclose(back.numpy(), x, atol=bound * 4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "float16", "int32"])
@pytest.mark.parametrize(
    ("size", "length", "step"), [(100, 16, 4), (100, 7, 3), (50, 5, 9), (9, 9, 1), (4, 9, 2)]
)
def test_frames(size: int, length: int, step: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-4, 5, (3, 2, size)).astype(dtype)
    with tf.device("cpu"):
        expected = frames.frames_p(tf.constant(x), length=length, step=step).numpy()
        total = frames.overlap_p(tf.constant(expected), step=step).numpy()
    with tf.device("cuda:0"):
        found = frames.frames_p(tf.constant(x), length=length, step=step)
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(frames.overlap_p(found, step=step).numpy(), total)
        turned = tf.transpose(tf.constant(np.ascontiguousarray(x.T)))
        again = frames.frames_p(turned, length=length, step=step)
        np.testing.assert_array_equal(again.numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axes", [(1, 2), (0, 1), (2, 1), (0, 2), (0, 1, 2)])
def test_transforms_of_planes(axes: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(6, 8, 5)).astype(dtype)
    w = rng.normal(size=np.fft.rfftn(x, axes=axes).shape).astype(dtype)
    shape = tuple([x.shape[axis] for axis in axes])

    @tf.function
    def step(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            spectrum = tnp.fft.rfftn(x, axes=axes) * w
            y = tnp.fft.irfftn(spectrum, shape, axes)
            loss = tnp.sum(y * y)
        return y, spectrum, *tape.gradient(loss, [x, w])

    with tf.device("cpu"):
        expected = [one.numpy() for one in step(tf.constant(x), tf.constant(w))]
    bound = 1e-4 if dtype == "float32" else 1e-11
    with tf.device("cuda:0"):
        given = tf.constant(x), tf.constant(w)
        for _ in range(3):
            found = [one.numpy() for one in step(*given)]
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, atol=bound * np.abs(other).max())
        assert "real_fourier_nd" in str(step.program(*given))
        np.testing.assert_array_equal(given[0].numpy(), x)


def spectral(x: Any) -> Any:
    y = transforms.irfft(transforms.rfft(x) * tf.complex(0.5, 0.25), 60)
    bins = frames.stft(y * y, 16, 8)
    clean = tf.complex(tf.math.real(bins) * 0.9, tf.zeros_like(tf.math.real(bins))) + bins
    again = frames.inverse_stft(clean, 16, 8)
    both = transforms.fft(tf.complex(again, again), norm="ortho")
    return tf.reduce_sum(tf.math.real(both) ** 2) + tf.reduce_sum(y**3)


def test_programs_with_gradients() -> None:
    gradient = tf.value_and_grad(spectral)
    recorded = tf.function(gradient)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(4, 60))
        with tf.device("cpu"):
            value, slope = gradient(tf.constant(x))
        with tf.device("cuda:0"):
            found = recorded(tf.constant(x))
        np.testing.assert_allclose(found[0].numpy(), value.numpy(), rtol=1e-10)
        np.testing.assert_allclose(found[1].numpy(), slope.numpy(), rtol=1e-9, atol=1e-9)
    run = captures_of(recorded)
    assert run.reason == ""
    assert not getattr(run, "uncaptured", [])


def test_a_spectrum_that_is_read_later_is_not_overwritten() -> None:
    def both(x: Any) -> Any:
        spectrum = transforms.rfft(x) * 2.0
        return transforms.irfft(spectrum, 32), transforms.irfft(spectrum * 3.0, 32), spectrum

    recorded = tf.function(both)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(5, 32))
        with tf.device("cuda:0"):
            first, second, spectrum = recorded(tf.constant(x))
        np.testing.assert_allclose(first.numpy(), 2 * x, atol=1e-12)
        np.testing.assert_allclose(second.numpy(), 6 * x, atol=1e-12)
        np.testing.assert_allclose(spectrum.numpy(), 2 * np.fft.rfft(x), atol=1e-12)
