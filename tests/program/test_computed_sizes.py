"""Programs for other sizes where a number is not linear in the size, such as the end of `x[:6]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.core.values.sizes import _FOLLOWED
from tapegrad.program.saved.sizes import trial_lengths
from tests.house.sources import find_modules

KERNEL = np.random.default_rng(1).normal(size=(3, 1, 1))


def signal(x: Any) -> Any:
    return tf.reshape(x[:, 0], (1, -1, 1))


def image(x: Any) -> Any:
    return tnp.reshape(x, (x.shape[0], 2, 1))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "first rows": lambda x: x[:6] * 2.0,
    "last rows": lambda x: x[-5:] * 2.0,
    "with a step": lambda x: x[1:6:2],
    "backwards": lambda x: x[8::-1] * 1.0,
    "parts at places": lambda x: tnp.array_split(x, [4, 7])[1] * 2.0,
    "equal parts": lambda x: tnp.array_split(x, 3)[1] * 2.0,
    "strided convolution": lambda x: tf.nn.conv1d(signal(x), KERNEL, 2, "SAME"),
    "short window": lambda x: tf.nn.conv1d(signal(x), KERNEL[:2], 3, "SAME"),
    "pooling": lambda x: tf.nn.max_pool1d(signal(x), 3, 2, "SAME"),
    "same part": lambda x: tnp.convolve(x[:, 0], tnp.array([1.0, 2.0, 3.0, 4.0]), "same"),
    "mean of an end": lambda x: tnp.pad(x, ((2, 1), (0, 0)), mode="mean", stat_length=5),
    "cropped transform": lambda x: tf.abs(tnp.fft.fft(x, n=6, axis=0)),
    "shifted": lambda x: tnp.fft.fftshift(x, axes=0),
    "frames": lambda x: tf.signal.frame(tf.transpose(x), 3, 2, pad_end=True),
    "crop or pad": lambda x: tf.image.resize_with_crop_or_pad(image(x), 5, 3),
    "half of the centre": lambda x: tf.image.central_crop(image(x), 0.5),
    "cropping layer": lambda x: tf.keras.layers.CenterCrop(4, 2)(image(x)[None]),
    "lower quantile": lambda x: tnp.percentile(x, 20, axis=0, method="lower"),
    "quantile": lambda x: tf.keras.ops.quantile(x, 0.3, axis=0),
}


@pytest.mark.filterwarnings("ignore:.*recorded:UserWarning")
@pytest.mark.parametrize("sizes", [(6, 2, 3, 12), (3, 6, 9, 12), (4, 5, 7, 20)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_result_is_that_of_eager_code(name: str, sizes: tuple[int, ...]) -> None:
    function = tf.function(FUNCTIONS[name])
    for n in sizes:
        x = tf.constant(np.random.default_rng(n).normal(size=(n, 2)))

        found, wanted = function(x), FUNCTIONS[name](x)

        assert found.shape == wanted.shape, n
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


SAVED: dict[str, Callable[[Any], Any]] = {
    "first rows": lambda x: x[:100] * 2.0,
    "last rows": lambda x: x[-6:],
    "without an end": lambda x: x[:-6],
    "backwards": lambda x: x[6::-1],
    "parts of a part": lambda x: x[::-1][:8],
    "two ends": lambda x: x[2:-2] * x[1:-3],
}


@pytest.mark.parametrize("name", SAVED)
def test_saved_slices_are_right_for_all_lengths(name: str, tmp_path: Any) -> None:
    module = tf.Module()
    module.f = tf.function(
        SAVED[name], input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")]
    )
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for n in (1, 4, 5, 7, 20, 150):
        x = tf.constant(np.random.default_rng(n).normal(size=(n, 2)).astype("float32"))

        found, wanted = loaded.f(x), SAVED[name](x)

        assert found.shape == wanted.shape, n
        np.testing.assert_allclose(found, wanted)


def test_every_followed_module_exists() -> None:
    modules = [f"{name}." for name in find_modules()]

    assert [name for name in _FOLLOWED if not any(m.startswith(name) for m in modules)] == []


@pytest.mark.parametrize("way", [{}, {"are_round": True}, {"row": 784}, {"row": 10}], ids=str)
def test_trial_lengths_are_beyond_the_bounds_of_slices(way: dict[str, Any]) -> None:
    lengths = trial_lengths(3, beyond=1000, **way)

    assert len(lengths) == 9
    assert min(n for one in lengths for n in one) > 1000


def test_a_constant_combined_with_a_size_keeps_its_dtype() -> None:
    numbers = tf.constant(np.arange(3, dtype="float32"))

    @tf.function
    def mixed(x: Any) -> Any:
        n = x.shape[0]
        parts = (numbers * n, numbers / (n - 1.0), tf.where(numbers > 1, numbers, n), n - numbers)
        assert {part.dtype.name for part in parts} == {"float32"}
        return [x[0] + part for part in parts]

    for n in (5, 6, 9, 5):
        found = mixed(tf.ones([n]))

        plain = np.arange(3, dtype="float32")
        wanted = [plain * n, plain / (n - 1), np.where(plain > 1, plain, n), n - plain]
        np.testing.assert_allclose(np.stack([part.numpy() for part in found]), 1 + np.stack(wanted))
