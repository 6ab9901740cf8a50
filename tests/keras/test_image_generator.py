"""ImageDataGenerator: batches, random changes and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError

keras = tf.keras
ImageDataGenerator = keras.preprocessing.image.ImageDataGenerator
IMAGES = np.arange(6 * 5 * 4 * 3.0).reshape(6, 5, 4, 3).astype("float32")
LABELS = np.arange(6)


def test_batches_go_on_for_ever_and_have_a_length() -> None:
    batches = ImageDataGenerator(rescale=0.5).flow(IMAGES, LABELS, batch_size=4, shuffle=False)

    x, y = next(batches)
    sizes = [len(one[1]) for one, _ in zip(batches, range(4))]

    np.testing.assert_allclose(x, IMAGES[:4] / 2)
    assert (y.tolist(), len(batches), sizes) == ([0, 1, 2, 3], 2, [2, 4, 2, 4])


def test_a_model_takes_one_pass_for_an_epoch() -> None:
    model = keras.Sequential(
        [keras.Input((5, 4, 3)), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    batches = ImageDataGenerator(rescale=1e-3).flow(IMAGES, LABELS * 1.0, batch_size=4)

    history = model.fit(batches, epochs=2, validation_data=batches, verbose=0)

    assert len(history.history["val_loss"]) == 2
    assert model.predict(batches, verbose=0).shape == (6, 1)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"flip_horizontal": True}, lambda x: x[:, ::-1]),
        ({"flip_vertical": True}, lambda x: x[::-1]),
        ({"tx": 1.0}, lambda x: np.concatenate([x[1:], x[-1:]])),
        ({"ty": -1.0}, lambda x: np.concatenate([x[:, :1], x[:, :-1]], axis=1)),
        ({"theta": 180.0}, lambda x: x[::-1, ::-1]),
        ({"brightness": 2.0}, lambda x: np.minimum(2 * x, 255)),
    ],
)
def test_parameters_move_pixels(parameters: dict[str, Any], expected: Any) -> None:
    found = ImageDataGenerator().apply_transform(IMAGES[0], parameters)

    np.testing.assert_allclose(found, expected(IMAGES[0]), atol=1e-3)


def test_changes_stay_within_their_ranges() -> None:
    generator = ImageDataGenerator(
        rotation_range=40, width_shift_range=0.2, shear_range=10, zoom_range=[0.5, 1.5]
    )

    drawn = [generator.get_random_transform((10, 20, 3), seed) for seed in range(50)]

    assert max(abs(one["theta"]) for one in drawn) <= 40
    assert 2 < max(abs(one["ty"]) for one in drawn) <= 4
    assert {one["tx"] for one in drawn} == {0.0}
    assert 0.5 <= min(one["zx"] for one in drawn) < 1 < max(one["zy"] for one in drawn) <= 1.5


def test_images_are_standardized() -> None:
    generator = ImageDataGenerator(featurewise_center=True, featurewise_std_normalization=True)
    generator.fit(IMAGES)

    x = next(generator.flow(IMAGES, batch_size=6, shuffle=False))

    np.testing.assert_allclose(x.mean(axis=(0, 1, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(x.std(axis=(0, 1, 2)), 1, atol=1e-4)
    doubled = ImageDataGenerator(preprocessing_function=lambda image: 2 * image)
    np.testing.assert_allclose(doubled.standardize(IMAGES[0]), 2 * IMAGES[0])


def test_files_are_read_by_class(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for k in range(5):
            keras.utils.save_img(tmp_path / name / f"{k}.png", IMAGES[k], scale=False)
    generator = ImageDataGenerator(validation_split=0.2)

    train = generator.flow_from_directory(
        tmp_path, (8, 6), batch_size=3, class_mode="binary", subset="training"
    )
    valid = generator.flow_from_directory(tmp_path, (8, 6), subset="validation", shuffle=False)

    x, y = train[0]
    assert (x.shape, y.dtype, train.samples) == ((3, 8, 6, 3), np.float32, 8)
    assert train.class_indices == {"cat": 0, "dog": 1}
    assert valid.filenames == ["cat/0.png", "dog/0.png"]
    assert valid[0][1].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_what_is_not_supported_says_so() -> None:
    with pytest.raises(ArgumentError, match="without zca_whitening"):
        ImageDataGenerator(zca_whitening=True)
    with pytest.raises(ArgumentError, match=r"takes images of shape .* Got \(2, 3\)"):
        ImageDataGenerator().flow(np.ones((2, 3)))
