"""keras.utils.bounding_boxes against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.utils import bounding_boxes as bb

RNG = np.random.default_rng(0)
CORNERS = np.sort(RNG.uniform(0, 40, (2, 5, 2, 2)), axis=2).reshape(2, 5, 4)
HEIGHT, WIDTH = 50.0, 80.0


def written(x, form):
    """Boxes "xyxy" in another format, by its letters."""
    form, is_relative = form.removeprefix("rel_"), form.startswith("rel_")
    x = x / np.array([WIDTH, HEIGHT] * 2) if is_relative else x
    x1, y1, x2, y2 = np.moveaxis(x, -1, 0)
    places = {"x": iter([x1, x2]), "y": iter([y1, y2]), "w": iter([x2 - x1]), "h": iter([y2 - y1])}
    if form.startswith("center_"):
        places |= {"x": iter([(x1 + x2) / 2]), "y": iter([(y1 + y2) / 2])}
    return np.stack([next(places[letter]) for letter in form.removeprefix("center_")], -1)


@pytest.mark.parametrize("target", bb.FORMATS)
@pytest.mark.parametrize("source", bb.FORMATS)
def test_formats_say_the_same(source, target):
    found = bb.convert_format(written(CORNERS, source), source, target, HEIGHT, WIDTH, "float64")

    np.testing.assert_allclose(found, written(CORNERS, target))


def test_boxes_in_a_dict_and_wrong_formats():
    found = bb.convert_format({"boxes": CORNERS, "labels": 1}, "xyxy", "XYWH")
    assert found["labels"] == 1
    np.testing.assert_allclose(found["boxes"], written(CORNERS, "xywh"), rtol=1e-6)
    with pytest.raises(ArgumentError, match="target must be one of xyxy"):
        bb.convert_format(CORNERS, "xyxy", "xyz")
    with pytest.raises(ArgumentError, match="needs the height and width"):
        bb.convert_format(CORNERS, "xyxy", "rel_xyxy")
    with pytest.raises(ShapeError, match="four numbers along their last axis"):
        bb.convert_format(CORNERS[..., :3], "xyxy", "xywh")


def test_overlaps_of_all_pairs():
    def area(x1, y1, x2, y2):
        return max(x2 - x1, 0) * max(y2 - y1, 0)

    def share(a, b):
        both = area(max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))
        return both / (area(*a) + area(*b) - both)

    first, second = CORNERS
    expected = [[share(a, b) for b in second] for a in first]

    np.testing.assert_allclose(bb.compute_iou(first, second, "xyxy"), expected, rtol=1e-4)
    yx = bb.compute_iou(written(CORNERS, "yxyx"), written(second, "yxyx"), "yxyx")
    np.testing.assert_allclose(yx[0], expected, rtol=1e-4)
    hidden = bb.compute_iou(np.concatenate([first, -first]), second, "xyxy", True, -7.0)
    assert (hidden.numpy()[5:] == -7).all()


def test_complete_overlaps_and_their_gradients():
    a, b = np.array([0.0, 0.5, 4.0, 2.0]), np.array([1.0, 0.0, 3.0, 4.0])
    iou = 3 / 11
    shape = 4 / math.pi**2 * (math.atan(2 / 4) - math.atan(4 / 1.5)) ** 2
    expected = iou - 0.75**2 / 32 - shape**2 / (1 - iou + shape)

    def total(x):
        return tf.reduce_sum(bb.compute_ciou(x, b, "xyxy"))

    step = np.array([0.02, -0.01, 0.015, 0.01], "float32")
    slope = np.sum(tf.grad(total)(tf.constant(a, "float32")).numpy() * step)
    rise = float(total(a + step) - total(a - step)) / 2
    assert float(total(a)) == pytest.approx(expected, rel=1e-5)
    assert slope == pytest.approx(rise, rel=1e-2)


@pytest.mark.parametrize("form", ["center_xywh", "center_yxhw"])
@pytest.mark.parametrize("variance", [None, [0.1, 0.1, 0.2, 0.2]])
def test_deltas_lead_back_to_the_boxes(form, variance):
    anchors = written(CORNERS[0], "yxyx")

    deltas = bb.encode_box_to_deltas(anchors, CORNERS, "yxyx", "xyxy", form, variance)
    found = bb.decode_deltas_to_boxes(anchors, deltas, "yxyx", "xyxy", form, variance)
    levels = bb.decode_deltas_to_boxes(
        {"p3": anchors}, {"p3": deltas}, "yxyx", "xyxy", form, variance
    )

    np.testing.assert_allclose(found, CORNERS, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(levels["p3"], found)
    np.testing.assert_allclose(deltas[0], np.zeros((5, 4)), atol=1e-5)
    with pytest.raises(ShapeError, match="variance has four numbers"):
        bb.encode_box_to_deltas(anchors, CORNERS, "yxyx", "xyxy", form, [0.1])
    with pytest.raises(ArgumentError, match="encoded as 'center_xywh' or 'center_yxhw'"):
        bb.encode_box_to_deltas(anchors, CORNERS, "yxyx", "xyxy", "xyxy")


def test_boxes_of_parts_and_padded_images():
    found = bb.crop(CORNERS, 5, 10, 20, 15)
    expected = np.clip(CORNERS - [10, 5, 10, 5], 0, [15, 20, 15, 20])
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(bb.pad(CORNERS, 5, 10), CORNERS + np.array([10, 5] * 2))

    data = {"boxes": CORNERS - 20, "labels": np.arange(10).reshape(2, 5)}
    clipped = bb.clip_to_image_size(data, 15, 10)
    boxes = np.clip(CORNERS - 20, 0, [10, 15, 10, 15])
    is_there = (boxes[..., 2] > boxes[..., 0]) & (boxes[..., 3] > boxes[..., 1])
    np.testing.assert_allclose(clipped["boxes"], boxes)
    np.testing.assert_array_equal(clipped["labels"], np.where(is_there, data["labels"], -1))
    with pytest.raises(ArgumentError, match="needs the height and width of images for 'xyxy'"):
        bb.clip_to_image_size(data)
    with pytest.raises(ArgumentError, match="takes the formats 'xyxy' and 'rel_xyxy'"):
        bb.clip_to_image_size(data, 1, 1, "xywh")
    with pytest.raises(ArgumentError, match="crop takes the format 'xyxy'"):
        bb.crop(CORNERS, 1, 1, 1, 1, "xywh")
