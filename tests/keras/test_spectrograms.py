"""STFTSpectrogram, its initializer, and MelSpectrogram, against transforms in NumPy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import signal

import tapegrad as tf
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.keras import Input, Model, initializers, layers
from tests.keras.layer_checks import check_function_equals_eager, slope_and_rise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 40, 2))
LENGTH, STEP, BINS = 8, 4, 9


def spectra(scale="density"):
    """The transforms [batch, steps, frequencies, channels], with a transform of 16 samples."""
    window = signal.get_window("hann", LENGTH, fftbins=False)
    window = window / (np.sqrt(np.sum(window**2)) if scale == "density" else np.sum(window))
    frames = np.lib.stride_tricks.sliding_window_view(X, LENGTH, axis=1)[:, ::STEP]
    return np.fft.rfft(frames * window, 16).transpose(0, 1, 3, 2)


VALUES = {
    "real": lambda y: y.real,
    "imag": lambda y: y.imag,
    "angle": np.angle,
    "stft": lambda y: np.concatenate([y.real, y.imag], 2),
    "magnitude": lambda y: np.sqrt(np.maximum(np.abs(y) ** 2, 1e-7)),
    "log": lambda y: np.log(np.sqrt(np.maximum(np.abs(y) ** 2, 1e-7))),
    "psd": lambda y: np.abs(y) ** 2 * np.r_[1, [2] * (BINS - 2), 1][:, None],
}


def layer_of(mode, **options):
    return layers.STFTSpectrogram(mode, LENGTH, STEP, 16, dtype="float64", **options)


@pytest.mark.parametrize("mode", VALUES)
def test_each_mode_of_the_transform(mode):
    expected = VALUES[mode](spectra())

    y = layer_of(mode, expand_dims=True)(X).numpy()
    joined = layer_of(mode)(X).numpy()

    if mode == "angle":  # real numbers have the angle 0 or pi, with either sign
        y, expected = np.cos(y), np.cos(expected)
    np.testing.assert_allclose(y, expected, atol=1e-6)
    if mode != "angle":
        flat = expected.transpose(0, 1, 3, 2).reshape(2, expected.shape[1], -1)
        np.testing.assert_allclose(joined, flat, atol=1e-6)


@pytest.mark.parametrize("expand_dims", [False, True])
def test_channels_first_gives_the_same_numbers(expand_dims):
    last = layer_of("magnitude", expand_dims=expand_dims, padding="same")
    first = layer_of(
        "magnitude", expand_dims=expand_dims, padding="same", data_format="channels_first"
    )
    moved = np.moveaxis(X, -1, 1)

    y = first(moved).numpy()

    np.testing.assert_allclose(np.moveaxis(y, 1, -1), last(X), atol=1e-12)
    assert y.shape == first.compute_output_shape(moved.shape)
    assert last.compute_output_shape((None, None, 2))[1] is None


def test_a_model_trains_the_kernels():
    start = Input((40, 2), dtype="float64")
    layer = layer_of("magnitude", scaling="spectrum")
    model = Model(start, layer(start))

    check_function_equals_eager(layer, tf.constant(X))
    slope, rise = slope_and_rise(layer, X, 1e-6 * RNG.normal(size=X.shape))

    assert slope == pytest.approx(rise, rel=1e-6)
    assert [w.shape for w in model.trainable_variables] == [(LENGTH, 1, BINS)] * 2


def test_the_configuration_makes_the_same_layers():
    for layer, x in ((layer_of("log"), X), (layers.MelSpectrogram(16, 4, 8), X[..., 0])):
        other = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
        np.testing.assert_array_equal(other(x), layer(x))


def test_the_initializer_fills_transforms_of_frames():
    kernel = initializers.STFT("imag", None)((6, 1, 5), "float64").numpy()

    expected = np.fft.rfft(np.eye(6), 8).imag
    np.testing.assert_allclose(kernel[:, 0], expected, atol=1e-12)
    with pytest.raises(ShapeError, match="shape of three numbers"):
        initializers.STFT("real")((4,))


def test_mel_spectrograms_are_bands_of_the_power_in_decibels():
    x = X[..., 0]
    layer = layers.MelSpectrogram(
        16, 4, 8, num_mel_bins=3, sampling_rate=200, min_freq=5.0, dtype="float64"
    )

    y = layer(x).numpy()

    padded = np.pad(x, ((0, 0), (8, 8)), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 16, axis=-1)[:, ::4]
    power = np.abs(np.fft.rfft(frames * np.pad(signal.get_window("hann", 8), 4))) ** 2
    mel = lambda hertz: 1127 * np.log(1 + hertz / 700)  # noqa: E731
    edges, places = np.linspace(mel(5), mel(100), 5), mel(np.linspace(0, 100, 9))
    bank = np.stack([np.interp(places, edges[k : k + 3], [0, 1, 0]) for k in range(3)], 1)
    bank[0] = 0
    decibels = 10 * np.log10(np.maximum(power @ bank, 1e-10))
    expected = np.maximum(decibels, decibels.max() - 80).swapaxes(-1, -2)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert y.shape == layer.compute_output_shape(x.shape)
    assert layer(x[0]).shape == layer.compute_output_shape((40,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "wrong"}, "mode must be one of"),
        ({"frame_step": 9, "frame_length": 8}, "frame_step of at most the frame_length, 8"),
        ({"fft_length": 7, "frame_length": 8}, "fft_length of at least the frame_length, 8"),
        ({"scaling": "wrong"}, "scaling must be 'density', 'spectrum' or None"),
        ({"window": "wrong"}, "wrong"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        layers.STFTSpectrogram(**options)


def test_wrong_inputs_are_refused():
    with pytest.raises(ShapeError, match="takes a signal, or a batch of them"):
        layers.MelSpectrogram(16, 4)(np.ones((2, 3, 4)))
    with pytest.raises(ShapeError, match="takes inputs of 3 dimensions"):
        layer_of("log")(np.ones((2, 40)))
    with pytest.raises(DTypeError, match="Got bfloat16"):
        layers.STFTSpectrogram(dtype="bfloat16")(np.ones((2, 300, 1)))
