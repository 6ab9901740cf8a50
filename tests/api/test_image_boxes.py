"""Boxes that are drawn and crops that cover boxes, with TensorFlow's results as figures."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf

BOX = [[[0.1, 0.2, 0.6, 0.7]]]


def test_edges_of_boxes_stand_where_tensorflow_draws_them() -> None:
    found = tf.image.draw_bounding_boxes(
        tf.zeros([1, 6, 8, 3]), [[[0.1, 0.2, 0.6, 0.9]]], [[1.0, 2.0, 3.0]]
    ).numpy()[0]

    expected = np.zeros((6, 8))
    expected[[0, 3], 1:7] = 1
    expected[0:4, [1, 6]] = 1
    np.testing.assert_array_equal(found, expected[..., None] * [1.0, 2.0, 3.0])


def test_a_second_box_is_blue_and_ends_at_the_edge_of_the_image() -> None:
    boxes = [[[0.1, 0.2, 0.6, 0.9], [-0.2, 0.5, 0.4, 1.4]]]

    found = tf.image.draw_bounding_boxes(tf.zeros([1, 6, 8, 3]), boxes, None).numpy()[0]

    blue = np.zeros((6, 8))
    blue[0:2, 3] = 1
    blue[2, 3:] = 1
    np.testing.assert_array_equal(found[..., 2], blue)
    np.testing.assert_array_equal(found[3, :, 0], [0, 1, 1, 1, 1, 1, 1, 0])


@pytest.mark.parametrize("seed", range(1, 20))
def test_crops_have_the_wanted_ratio_and_area_and_cover_the_box(seed: int) -> None:
    begin, size, crop = tf.image.sample_distorted_bounding_box(
        tf.constant([60, 80, 3]), BOX, seed=seed, min_object_covered=0.3, area_range=(0.2, 0.9)
    )

    y, x, _ = begin.numpy()
    height, width, _ = size.numpy()
    assert begin.dtype == size.dtype == tf.int32
    assert size.numpy()[2] == -1
    assert 0 <= y <= 60 - height
    assert 0 <= x <= 80 - width
    assert 0.2 <= height * width / 4800 <= 0.9
    assert 0.75 * height - 0.5 <= width <= 1.33 * height + 0.5
    covered = (min(y + height, 36) - max(y, 6)) * (min(x + width, 56) - max(x, 16))
    assert covered >= 0.3 * 30 * 40
    np.testing.assert_allclose(
        crop.numpy(), [[[y / 60, x / 80, (y + height) / 60, (x + width) / 80]]], rtol=1e-6
    )


def test_places_and_sizes_vary_between_calls_and_seeds_repeat_them() -> None:
    def drawn() -> list[list[int]]:
        return [
            tf.image.sample_distorted_bounding_box([60, 80, 3], BOX).begin.tolist()
            for _ in range(10)
        ]

    tf.random.set_seed(3)
    first = drawn()
    tf.random.set_seed(3)

    assert first == drawn()
    assert len({tuple(place) for place in first}) > 3


def test_seed_pairs_determine_the_crop() -> None:
    first, second, third = [
        tf.image.stateless_sample_distorted_bounding_box([60, 80, 3], BOX, seed=(1, k))
        for k in (2, 2, 3)
    ]

    assert first.bboxes.tolist() == second.bboxes.tolist() != third.bboxes.tolist()


def test_the_whole_image_is_taken_where_no_crop_fits() -> None:
    found = tf.image.sample_distorted_bounding_box(
        [60, 80, 3], [[[0.0, 0.0, 1.0, 1.0]]], aspect_ratio_range=(50.0, 60.0), max_attempts=5
    )

    assert (found.begin.tolist(), found.size.tolist()) == ([0, 0, 0], [60, 80, -1])
    assert found.bboxes.tolist() == [[[0.0, 0.0, 1.0, 1.0]]]


def test_no_boxes_need_the_permission_to_take_the_image() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="use_image_if_no_bounding_boxes"):
        tf.image.sample_distorted_bounding_box([60, 80, 3], tf.zeros([1, 0, 4]))

    found = tf.image.sample_distorted_bounding_box(
        [60, 80, 3], tf.zeros([1, 0, 4]), use_image_if_no_bounding_boxes=True
    )
    assert found.bboxes.shape == (1, 1, 4)


def test_a_crop_can_be_cut_with_slice() -> None:
    image = tf.reshape(tf.range(60.0), [6, 10, 1])
    begin, size, _ = tf.image.sample_distorted_bounding_box(image.shape, BOX, seed=1)

    found = tf.slice(image, begin, size)

    (y, x, _), (height, width, _) = begin.tolist(), size.tolist()
    np.testing.assert_array_equal(found, image.numpy()[y : y + height, x : x + width])
