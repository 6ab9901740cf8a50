"""Arguments of Keras and TensorFlow that few programs use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError


def test_an_input_layer_takes_a_tensor_and_flags() -> None:
    start = keras.Input((4, 2), batch_size=3, dtype="int32")

    layer = keras.layers.InputLayer(input_tensor=start, ragged=False, optional=False)

    assert layer.batch_shape == (3, 4, 2)
    assert layer.output.dtype == "int32"


def test_names_begin_anew_with_and_without_freeing_memory() -> None:
    keras.utils.clear_session(free_memory=False)
    first = keras.layers.Dense(1).name
    keras.backend.clear_session(free_memory=True)

    assert keras.layers.Dense(1).name == first


def test_model_files_are_archives(tmp_path: Any) -> None:
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path / "model.keras", zipped=True)

    assert keras.models.load_model(tmp_path / "model.keras").output_shape == (None, 1)
    with pytest.raises(ArgumentError, match=r"one archive. Got zipped=False"):
        model.save(tmp_path / "model.keras", zipped=False)


def test_folds_take_the_arguments_of_loops() -> None:
    x = tf.constant([10.0, 2.0, 3.0])

    found = tf.foldl(lambda a, b: a - b, x, None, 4, True, False, "fold")

    assert float(found) == 5.0
    assert float(tf.foldr(lambda a, b: a - b, x, back_prop=False)) == 3.0 - 2.0 - 10.0


def test_jpeg_files_have_the_chosen_form() -> None:
    image = pytest.importorskip("PIL.Image")
    from io import BytesIO

    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)

    plain = tf.io.encode_jpeg(pixels, quality=90).numpy()
    fine = tf.io.encode_jpeg(
        pixels, quality=90, progressive=True, optimize_size=True, chroma_downsampling=False,
        density_unit="cm", x_density=100, y_density=50,
    ).numpy()  # fmt: skip

    shown = image.open(BytesIO(fine))
    assert len(fine) > len(plain)  # all of the colours
    assert shown.info.get("progressive")
    assert not image.open(BytesIO(plain)).info.get("progressive")
    assert shown.info["dpi"] == pytest.approx((254, 127), abs=1)


def test_l2_normalize_takes_the_older_name_of_the_axis() -> None:
    x = tf.constant([[3.0, 4.0], [6.0, 8.0]])

    np.testing.assert_allclose(tf.math.l2_normalize(x, dim=1), [[0.6, 0.8]] * 2, rtol=1e-6)


def test_losses_have_the_options_of_their_function() -> None:
    loss = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1)

    assert (loss.from_logits, loss.label_smoothing, loss.axis) == (True, 0.1, -1)
    with pytest.raises(AttributeError, match="no attribute 'gamma'"):
        loss.gamma  # noqa: B018


@pytest.mark.parametrize(
    ("module", "name", "sentence"),
    [
        (keras, "engine", "internal to Keras"),
        (keras.layers, "DenseFeatures", "such as keras.layers.StringLookup"),
        (keras.optimizers, "experimental", "Use the optimizers of keras.optimizers"),
        (keras.utils, "np_utils", "Use keras.utils.to_categorical"),
        (tf.experimental, "dtensor", "one process per GPU"),
    ],
)
def test_names_of_earlier_versions_get_a_sentence(module: Any, name: str, sentence: str) -> None:
    with pytest.raises(AttributeError, match=sentence):
        getattr(module, name)
