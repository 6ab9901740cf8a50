"""Random crops that keep a part of some box: their place and size depend on values, on the host."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.random.generator import source_for
from tapegrad.ops.random.primitives import draw_uniform
from tapegrad.ops.random.stateless import SeedPair

Host = np.ndarray[Any, Any]


class SampledBox(NamedTuple):
    """The first corner and the size of a crop for `tapegrad.slice`, and the crop as a box."""

    begin: Any
    size: Any
    bboxes: Any


class _Wanted(NamedTuple):
    """What a crop must have: its part of a box, ratio of width to height, and part of the image."""

    covered: float
    ratios: tuple[float, float]
    areas: tuple[float, float]


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = 0,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampledBox:
    """Return a random crop of an image that covers a part of at least one box.

    `image_size` is (height, width, channels), and boxes are (y1, x1, y2, x2) in parts of it. The
    crop has a ratio of width to height in `aspect_ratio_range`, (0.75, 1.33) by default, a part of
    the image in `area_range`, (0.05, 1) by default, and `min_object_covered` of a box. Where
    `max_attempts` (100) draws find none, it is the whole image.

    >>> boxes = [[[0.0, 0.0, 1.0, 1.0]]]
    >>> found = sample_distorted_bounding_box((8, 8, 3), boxes, area_range=(1, 1))
    >>> found.begin.tolist(), found.size.tolist(), found.bboxes.shape
    ([0, 0, 0], [8, 8, -1], (1, 1, 4))
    """
    boxes = as_operand(bounding_boxes)
    source = (boxes, source_for, seed or None)
    wanted = _wanted(min_object_covered, aspect_ratio_range, area_range)
    return _sampled(
        image_size, source, wanted, max_attempts, use_image_if_no_bounding_boxes is True
    )


def stateless_sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: Any,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampledBox:
    """Return the crop of `sample_distorted_bounding_box` that a seed pair determines.

    >>> size, boxes = (8, 8, 3), [[[0.0, 0.0, 1.0, 1.0]]]
    >>> found = stateless_sample_distorted_bounding_box(size, boxes, (1, 2), area_range=(1, 1))
    >>> found.size.tolist()
    [8, 8, -1]
    """
    boxes = as_operand(bounding_boxes)
    wanted = _wanted(min_object_covered, aspect_ratio_range, area_range)
    return _sampled(
        image_size,
        (boxes, SeedPair, seed),
        wanted,
        max_attempts,
        use_image_if_no_bounding_boxes is True,
    )


def _wanted(covered: Any, ratios: Any, areas: Any) -> _Wanted:
    low, high = (0.75, 1.33) if ratios is None else [float(ratio) for ratio in ratios]
    least, most = (0.05, 1.0) if areas is None else [float(area) for area in areas]
    if not 0 < low <= high:
        raise ArgumentError(
            f"aspect_ratio_range needs two positive ratios that rise. Got {(low, high)}."
        )
    if not 0 < least <= most <= 1:
        raise ArgumentError(
            f"area_range needs two parts of an image, above 0 and up to 1, that rise. "
            f"Got {(least, most)}."
        )
    if not 0 <= float(covered) <= 1:
        raise ArgumentError(f"min_object_covered must be from 0 to 1. Got {covered!r}.")
    return _Wanted(float(covered), (low, high), (least, most))


def _sampled(
    image_size: Any, source: tuple[Any, Any, Any], wanted: _Wanted, attempts: Any, is_image: bool
) -> SampledBox:
    called = "sample_distorted_bounding_box"
    x, make_source, seed = source
    size = as_operand(image_size)
    if tuple(size.shape) != (3,):
        raise ShapeError(
            f"{called} needs an image_size of height, width and channels. "
            f"Got shape {tuple(size.shape)}."
        )
    if not x.shape or x.shape[-1] != 4:
        raise ShapeError(
            f"{called} needs bounding_boxes of shape (images, boxes, 4). Got {tuple(x.shape)}."
        )
    lengths = read_on_host(size, called)
    height, width = int(lengths[0]), int(lengths[1])
    boxes = _in_pixels(read_on_host(x, called).reshape(-1, 4), height, width, is_image)
    count = 100 if attempts is None else check_count("max_attempts", attempts, called)
    with device(x.device):
        draws = read_on_host(
            draw_uniform(make_source(seed), (count, 4), 0.0, 1.0, "float32"), called
        )
    y, x1, h, w = _first_fit(draws, (height, width), wanted, boxes)
    crop = np.array([[[y / height, x1 / width, (y + h) / height, (x1 + w) / width]]], np.float32)
    kind = lengths.dtype
    results = np.array([y, x1, 0], kind), np.array([h, w, -1], kind), crop
    return SampledBox(*[place_next_to(x, one) for one in results])


def _in_pixels(boxes: Host, height: int, width: int, is_image: bool) -> Host:
    """Return the boxes as corners in pixels."""
    if not len(boxes):
        if not is_image:
            raise ArgumentError(
                "sample_distorted_bounding_box got no boxes. Pass "
                "use_image_if_no_bounding_boxes=True to take the whole image as the box."
            )
        return np.array([[0, 0, height, width]])
    if not ((boxes >= 0) & (boxes <= 1)).all() or (boxes[:, :2] > boxes[:, 2:]).any():
        raise ArgumentError(
            "bounding_boxes are (y1, x1, y2, x2) in parts of the image, from 0 to 1, with y1 <= y2 "
            f"and x1 <= x2. Got {boxes.tolist()}."
        )
    corners: Host = np.trunc(boxes * [height, width, height, width])
    return corners


def _first_fit(
    draws: Host, image: tuple[int, int], wanted: _Wanted, boxes: Host
) -> tuple[int, int, int, int]:
    """Return y, x, height and width of the first crop that fits, or else of the whole image."""
    for draw in draws:
        found = _crop(draw.tolist(), image, wanted)
        if found is not None and _covers(found, boxes, wanted.covered):
            return found
    return 0, 0, *image


def _crop(
    draw: list[float], image: tuple[int, int], wanted: _Wanted
) -> tuple[int, int, int, int] | None:
    """Return a crop from four numbers between 0 and 1: ratio, height and the place."""
    (low, high), whole = wanted.ratios, image[0] * image[1]
    ratio = low + draw[0] * (high - low)
    least, most = (round(math.sqrt(area * whole / ratio)) for area in wanted.areas)
    most = min(most, image[0], int((image[1] + 0.5) / ratio))
    height = min(least, most) + int(draw[1] * (most - min(least, most) + 1))
    width = round(height * ratio)
    part = height * width / whole
    if not (0 < height <= image[0] and 0 < width <= image[1]):
        return None
    if not wanted.areas[0] <= part <= wanted.areas[1]:
        return None
    y, x = (
        int(draw[2] * (image[0] - height + 1)),
        int(draw[3] * (image[1] - width + 1)),
    )
    return y, x, height, width


def _covers(crop: tuple[int, int, int, int], boxes: Host, part: float) -> bool:
    """Return whether the crop has this part of at least one box with an area."""
    low = np.array(crop[:2])
    high = low + crop[2:]
    common = np.minimum(high, boxes[:, 2:]) - np.maximum(low, boxes[:, :2])
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    shared = np.maximum(common, 0).prod(axis=1)
    return bool(((areas > 0) & (shared >= part * areas)).any())
