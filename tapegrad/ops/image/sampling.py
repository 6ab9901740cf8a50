"""Pixels at any coordinates, by gathers: the core of crop_and_resize and of Keras' transforms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import common_operands
from tapegrad.errors import ShapeError
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import as_shape, numpy_dtype_of, ones_like
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.rounding import floor
from tapegrad.ops.elementwise.selection import clip, minimum, where
from tapegrad.ops.image.pixels import as_batch, in_single
from tapegrad.ops.indexing.gather import gather, index_operand, place_next_to, take_p
from tapegrad.ops.shape.functions import reshape

FILL_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")
INTERPOLATIONS = ("nearest", "bilinear")

Neighbour = tuple[Any, Any]


def sample(
    rows: Any,
    first: Any,
    sizes: Sequence[int],
    places: Sequence[Any],
    interpolation: str = "bilinear",
    fill_mode: str = "nearest",
    fill_value: Any = 0.0,
) -> Any:
    """Return interpolated pixels at places, which are one array of coordinates per axis.

    `rows` has one row of channels per pixel, in C order of axes with these `sizes`, and `first` is
    the number of entries of the first axis before the image of each place. Places have a last axis
    of length 1, for the channels. Beyond the edges of a row a b c d, `fill_mode` gives, on the
    left | on the right: "reflect": d c b a | d c b a, "mirror": d c b | c b a, "wrap": a b c d |
    a b c d, "nearest": a a a a | d d d d, and "constant": `fill_value`.

    >>> import tapegrad
    >>> pixels, place = tapegrad.constant([[1.0], [3.0]]), tapegrad.constant([[0.5], [1.0]])
    >>> sample(pixels, 0, [2], [place]).tolist()
    [[2.0], [3.0]]
    """
    fill = fill_value if fill_mode == "constant" else 0.0
    if type(fill) not in (int, float) or fill:
        rows = rows - fill
    around = [
        _neighbours(place, size, interpolation, fill_mode)
        for place, size in zip(places, sizes, strict=True)
    ]
    y: Any = fill
    for corner in product(*around):
        row, weight = first, None
        for k, ((index, share), size) in enumerate(zip(corner, sizes, strict=True)):
            row = row + index if not k else row * size + index
            weight = share if weight is None else weight * share
        y = y + take_p(rows, reshape(row, row.shape[:-1]), axis=0) * weight
    return y


def _neighbours(place: Any, size: int, interpolation: str, fill_mode: str) -> list[Neighbour]:
    """Return the one or two neighbouring pixels along an axis, each with its weight."""
    if interpolation == "nearest":
        return [_pixel(floor(place + 0.5), ones_like(place), size, fill_mode)]
    low = floor(place)
    part = place - low
    return [
        _pixel(low, 1.0 - part, size, fill_mode),
        _pixel(low + 1.0, part, size, fill_mode),
    ]


def _pixel(place: Any, weight: Any, size: int, fill_mode: str) -> Neighbour:
    """Return valid indices for integer coordinates, with weight 0 where `fill_value` goes."""
    index = cast(place, "int64")
    if fill_mode == "reflect":
        index = index % (2 * size)
        return minimum(index, 2 * size - 1 - index), weight
    if fill_mode == "mirror":
        period = max(1, 2 * size - 2)
        index = index % period
        return minimum(index, period - index if size > 1 else index), weight
    if fill_mode == "wrap":
        return index % size, weight
    if fill_mode == "constant":
        weight = where(logical_and(index >= 0, index < size), weight, 0.0)
    return clip(index, 0, size - 1), weight


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Any:
    """Return parts of images, each resized to `crop_size = (height, width)`.

    Row i of `boxes` has (y1, x1, y2, x2) in the image `box_indices[i]`, where 0 is the centre of
    the first pixel and 1 that of the last. With y1 > y2 the crop is flipped. Places outside the
    image get `extrapolation_value`. Images and boxes have gradients.

    >>> image = [[[[1.0], [2.0]], [[3.0], [4.0]]]]
    >>> crop_and_resize(image, [[0.0, 0.0, 1.0, 1.0]], [0], (1, 3)).numpy().ravel().tolist()
    [2.0, 2.5, 3.0]
    """
    x, corners = common_operands(image, boxes)
    x = in_single(as_batch(x, "crop_and_resize"))
    which = index_operand(box_indices, "crop_and_resize")
    check_choice("method", method, INTERPOLATIONS)
    size = as_shape(crop_size, "crop_size")
    count = which.shape[0] if len(which.shape) == 1 else -1
    if tuple(corners.shape) != (count, 4) or len(size) != 2 or min(size) < 1:
        raise ShapeError(
            "crop_and_resize needs boxes of shape (boxes, 4), box_indices of shape (boxes,) and a "
            f"crop_size of two numbers >= 1. Got shapes {tuple(corners.shape)} and "
            f"{tuple(which.shape)}, and {size}."
        )
    batch, height, width, depth = x.shape
    if not height or not width:
        raise ShapeError(f"crop_and_resize needs images with pixels. Got shape {tuple(x.shape)}.")
    corners = in_dtype(corners, x.dtype)
    down = _between(corners[:, 0], corners[:, 2], height, size[0], (count, size[0], 1, 1))
    across = _between(corners[:, 1], corners[:, 3], width, size[1], (count, 1, size[1], 1))
    starts = place_next_to(x, np.arange(batch, dtype=np.int64))
    # The rows of images are counted first; sample() multiplies by the width.
    first = reshape(gather(starts, which) * height, (count, 1, 1, 1))
    rows = reshape(x, (prod(x.shape[:3]), depth))
    y = sample(rows, first, (height, width), (down, across), method)
    inside = logical_and(_is_inside(down, height), _is_inside(across, width))
    return where(inside, y, float(extrapolation_value))


def _between(low: Any, high: Any, size: int, count: int, shape: tuple[int, ...]) -> Any:
    """Return `count` coordinates from `low` to `high`, or the one in the middle."""
    steps = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    share = place_next_to(low, steps.astype(numpy_dtype_of(low)))
    rest = place_next_to(low, (1.0 - steps).astype(numpy_dtype_of(low)))
    # This form is exact at both ends, so that an end at the edge stays inside.
    return reshape((low[:, None] * rest + high[:, None] * share) * (size - 1.0), shape)


def _is_inside(place: Any, size: int) -> Any:
    return logical_and(place >= 0, place <= size - 1)
