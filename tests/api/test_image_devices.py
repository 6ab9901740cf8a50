"""tf.image and keras.ops.image on a device that refuses to give its values away."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras.ops import image
from tests.neighbours import alone

__all__ = ["alone"]

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

POINTS = [[0.0, 0.0], [7.0, 0.0], [0.0, 5.0], [7.0, 5.0]]
MOVED = [[1.0, 0.5], [6.0, 0.0], [0.0, 5.0], [6.5, 4.0]]
SEED = {"seed": (1, 2)}

# Host values beside images: seeds, boxes, transforms.
CALLS = {
    "resize": lambda x: tf.image.resize(x, (9, 5), "bicubic", antialias=True),
    "random_flip": tf.image.random_flip_left_right,
    "random_crop": lambda x: tf.image.random_crop(x, (2, 3, 2, 3)),
    "random_hue": lambda x: tf.image.random_hue(x, 0.4),
    "stateless_flip": lambda x: tf.image.stateless_random_flip_up_down(x, **SEED),
    "stateless_crop": lambda x: tf.image.stateless_random_crop(x, (2, 3, 2, 3), **SEED),
    "stateless_contrast": lambda x: tf.image.stateless_random_contrast(x, 0.2, 1.8, **SEED),
    "stateless_hue": lambda x: tf.image.stateless_random_hue(x, 0.4, **SEED),
    "crop_and_resize": lambda x: tf.image.crop_and_resize(x, [[0.0, 0.2, 1.0, 1.0]], [1], (3, 3)),
    "ssim": lambda x: tf.image.ssim(x, x, 1.0, filter_size=3),
    "bytes": lambda x: tf.image.adjust_hue(tf.image.convert_image_dtype(x, "uint8"), 0.3),
    "affine": lambda x: image.affine_transform(x, [0.9, 0.2, 0.5, -0.1, 1.1, 0.3, 0.0, 0.0]),
    "perspective": lambda x: image.perspective_transform(x, POINTS, MOVED),
    "blur": image.gaussian_blur,
    "map": lambda x: image.map_coordinates(x[0, ..., 0], [[0.5, 1.0], [0.2, 0.3]], 1),
}


@pytest.fixture
def images() -> Iterator[tf.Tensor]:
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            x = tf.constant(np.random.default_rng(0).uniform(size=(2, 6, 8, 3)).astype("float32"))
        yield x
    finally:
        unregister_backend("strict")


@pytest.mark.parametrize("name", CALLS)
def test_everything_is_placed_beside_the_images(name, images):
    with strict.forbidding_reads():
        y = CALLS[name](images)

    assert y.device == "strict:0"


def test_chosen_boxes_are_where_the_boxes_are(images):
    with tf.device("strict:0"):
        boxes = tf.constant([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]])
        scores = tf.constant([0.5, 0.75])

    chosen = tf.image.non_max_suppression(boxes, scores, 2)

    assert chosen.device == "strict:0"
    assert chosen.numpy().tolist() == [1]
