"""JPEG and GIF files, and images after a round trip; Pillow is the judge."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, FileFormatError, ShapeError

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (17, 12, 3)).astype(np.uint8)


def file_of(pixels, kind="JPEG", **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"comment": b"x" * 500}])
def test_the_shape_of_a_file_is_read_without_its_pixels(options):
    colour, grey = file_of(PIXELS, **options), file_of(PIXELS[..., 0], **options)

    assert tf.io.extract_jpeg_shape(colour).tolist() == [17, 12, 3]
    assert tf.io.extract_jpeg_shape(grey, "int64").tolist() == [17, 12, 1]
    assert bool(tf.io.is_jpeg(colour))
    assert not bool(tf.io.is_jpeg(file_of(PIXELS, "PNG")))
    for broken in (b"", colour[:40], file_of(PIXELS, "PNG")):
        with pytest.raises(FileFormatError, match="is not a JPEG file, or it is damaged"):
            tf.io.extract_jpeg_shape(broken)


def test_a_part_of_a_file_is_that_of_the_image():
    file = file_of(PIXELS)
    whole = np.asarray(Image.open(io.BytesIO(file)))

    found = tf.image.decode_and_crop_jpeg(file, [3, 2, 10, 7])

    np.testing.assert_array_equal(found, whole[3:13, 2:9])
    with pytest.raises(ShapeError, match="inside the image of 17 x 12 pixels"):
        tf.image.decode_and_crop_jpeg(file, [8, 2, 10, 7])
    with pytest.raises(ArgumentError, match="crop_window takes four numbers"):
        tf.image.decode_and_crop_jpeg(file, [8, 2])


def test_all_frames_of_a_gif():
    frames = np.repeat(np.array([10, 200, 90], np.uint8), 8 * 6 * 3).reshape(3, 8, 6, 3)
    pictures = [Image.fromarray(one) for one in frames]
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:])

    np.testing.assert_array_equal(tf.io.decode_gif(file.getvalue()), frames)


@pytest.mark.parametrize("quality", [5, 60])
def test_an_image_looks_as_after_it_was_stored(quality):
    expected = np.asarray(Image.open(io.BytesIO(file_of(PIXELS, quality=quality))))

    found = tf.image.adjust_jpeg_quality(PIXELS, quality)
    floats = tf.image.adjust_jpeg_quality(PIXELS / 255.0, quality)

    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(floats, expected / 255.0)
    assert floats.dtype == "float64"
    assert tf.image.adjust_jpeg_quality(PIXELS[..., :1], quality).shape == (17, 12, 1)


def test_random_qualities_are_those_of_a_seed_in_a_range():
    kept = [np.asarray(tf.image.adjust_jpeg_quality(PIXELS, q)) for q in range(20, 24)]

    found = [np.asarray(tf.image.stateless_random_jpeg_quality(PIXELS, 20, 24, (1, k)))
             for k in range(12)]  # fmt: skip
    drawn = [[bool((one == other).all()) for other in kept].index(True) for one in found]

    assert len({*drawn}) > 1
    again = tf.image.stateless_random_jpeg_quality(PIXELS, 20, 24, (1, 3))
    np.testing.assert_array_equal(again, found[3])
    assert tf.image.random_jpeg_quality(PIXELS, 20, 24, seed=1).shape == PIXELS.shape
    with pytest.raises(ArgumentError, match=r"min_jpeg_quality < max_jpeg_quality"):
        tf.image.random_jpeg_quality(PIXELS, 30, 30)
    with pytest.raises(ArgumentError, match=r"must be from 0 to 100. Got 101"):
        tf.image.adjust_jpeg_quality(PIXELS, 101)
    with pytest.raises(ShapeError, match="1 or 3 channels"):
        tf.image.adjust_jpeg_quality(PIXELS[..., :2], 50)
