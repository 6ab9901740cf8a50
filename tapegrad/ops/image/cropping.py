"""Parts of images: crops, borders and patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_count, check_wholes
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.composed import is_tensor
from tapegrad.ops.image.pixels import as_batch, as_images
from tapegrad.ops.indexing.gather import place_next_to, take_p
from tapegrad.ops.kinds import require_integers
from tapegrad.ops.shape.functions import reshape, transpose
from tapegrad.ops.shape.padding import pad


def central_crop(image: Any, central_fraction: float) -> Any:
    """Return the centre of images, with this fraction of their height and width.

    >>> central_crop([[[1.0], [2.0], [3.0], [4.0]]], 0.5).numpy().ravel().tolist()
    [2.0, 3.0]
    """
    x = as_images(image, "central_crop")
    if not 0.0 < central_fraction <= 1.0:
        raise ArgumentError(
            "central_crop needs a central_fraction above 0 and not above 1. "
            f"Got {central_fraction!r}."
        )
    for axis in (len(x.shape) - 3, len(x.shape) - 2):
        size = x.shape[axis]
        start = int((size - size * float(central_fraction)) / 2)
        x = _part(x, axis, start, size - 2 * start)
    return x


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: int, target_width: int
) -> Any:
    """Return the part of images that starts at an offset; offsets may be tensors.

    >>> crop_to_bounding_box([[[1.0], [2.0], [3.0]]], 0, 1, 1, 2).numpy().ravel().tolist()
    [2.0, 3.0]
    """
    x = as_images(image, "crop_to_bounding_box")
    first = len(x.shape) - 3
    for axis, what, start, size in (
        (first, "height", offset_height, target_height),
        (first + 1, "width", offset_width, target_width),
    ):
        check_count(f"target_{what}", size, "crop_to_bounding_box", least=1)
        x = crop_axis(x, axis, start, size, f"crop_to_bounding_box along the {what}")
    return x


def crop_axis(x: Any, axis: int, start: Any, size: int, name: str) -> Any:
    """Return `size` entries along an axis from `start`, a number or a tensor of one integer.

    >>> import tapegrad
    >>> crop_axis(tapegrad.constant([1.0, 2.0, 3.0]), 0, 1, 2, "crop").tolist()
    [2.0, 3.0]
    """
    if is_tensor(start):
        require_integers(name, "an offset", start)
        # The start of a random crop stays on the device.
        return take_p(x, cast(start, "int64") + place_next_to(x, np.arange(size)), axis=axis)
    start = check_count("offset", start, name)
    if start + size > x.shape[axis]:
        raise ShapeError(
            f"{name} cannot take {size} pixels from offset {start}. Images of shape "
            f"{tuple(x.shape)} have {x.shape[axis]} there."
        )
    return _part(x, axis, start, size)


def _part(x: Any, axis: int, start: int, size: int) -> Any:
    index = [slice(None)] * len(x.shape)
    index[axis] = slice(start, start + size)
    return x[tuple(index)]


def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Any:
    """Return images with zeros around them: so many before, and after up to the target size.

    >>> pad_to_bounding_box([[[1.0]]], 0, 1, 1, 3).numpy().ravel().tolist()
    [0.0, 1.0, 0.0]
    """
    x = as_images(image, "pad_to_bounding_box")
    pairs = [(0, 0)] * len(x.shape)
    first = len(x.shape) - 3
    for axis, what, before, size in (
        (first, "height", offset_height, target_height),
        (first + 1, "width", offset_width, target_width),
    ):
        before = check_count(f"offset_{what}", before, "pad_to_bounding_box")
        after = check_count(f"target_{what}", size, "pad_to_bounding_box") - before - x.shape[axis]
        if after < 0:
            raise ShapeError(
                f"pad_to_bounding_box needs target_{what} of at least {before + x.shape[axis]} "
                f"for images of shape {tuple(x.shape)} and offset_{what} {before}. Got {size}."
            )
        pairs[axis] = (before, after)
    return pad(x, pairs)


def resize_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Any:
    """Crop the centre of images, or pad them with zeros on both sides, to a size.

    >>> resize_with_crop_or_pad([[[1.0], [2.0], [3.0]]], 3, 1).numpy().ravel().tolist()
    [0.0, 2.0, 0.0]
    """
    x = as_images(image, "resize_with_crop_or_pad")
    pairs = [(0, 0)] * len(x.shape)
    first = len(x.shape) - 3
    for axis, what, size in (
        (first, "height", target_height),
        (first + 1, "width", target_width),
    ):
        size = check_count(f"target_{what}", size, "resize_with_crop_or_pad", least=1)
        more = size - x.shape[axis]
        if more < 0:
            x = _part(x, axis, -more // 2, size)
        pairs[axis] = (max(0, more) // 2, max(0, more) - max(0, more) // 2)
    return pad(x, pairs)


def extract_patches(
    images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Any:
    """Return patches `[batch, rows, columns, height * width * channels]` of images.

    `sizes`, `strides` and `rates` have the form (1, rows, columns, 1). Entries of a patch are
    `rates` pixels apart. With padding "SAME" there are zeros around the images.

    >>> image = [[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]]
    >>> extract_patches(image, (1, 2, 2, 1), (1, 1, 1, 1), (1, 1, 1, 1), "VALID").tolist()
    [[[[1.0, 2.0, 4.0, 5.0], [2.0, 3.0, 5.0, 6.0]]]]
    """
    x = as_batch(images, "extract_patches")
    size, stride, rate = (
        _of_plane(what, value)
        for what, value in (("sizes", sizes), ("strides", strides), ("rates", rates))
    )
    padding = str(padding).upper()
    check_choice("padding", padding, ("SAME", "VALID"))
    counts = []
    for axis in (1, 2):
        k = axis - 1
        x, count = _patches_along(x, axis, size[k], stride[k], rate[k], padding == "SAME")
        counts.append(count)
    batch, depth = x.shape[0], x.shape[-1]
    x = reshape(x, (batch, counts[0], size[0], counts[1], size[1], depth))
    flat = (batch, *counts, size[0] * size[1] * depth)
    return reshape(transpose(x, (0, 1, 3, 2, 4, 5)), flat)


def _of_plane(what: str, value: Any) -> tuple[int, int]:
    found = check_wholes(what, value, "extract_patches")
    if len(found) != 4 or found[0] != 1 or found[3] != 1 or min(found) < 1:
        raise ArgumentError(
            f"extract_patches takes {what} of the form (1, rows, columns, 1) with numbers >= 1. "
            f"Got {found}."
        )
    return found[1], found[2]


def _patches_along(
    x: Any, axis: int, size: int, stride: int, rate: int, is_same: bool
) -> tuple[Any, int]:
    """Return images with the pixels of each patch side by side along an axis, and their count."""
    reach = (size - 1) * rate + 1
    if is_same:
        count = -(-x.shape[axis] // stride)
        missing = max(0, (count - 1) * stride + reach - x.shape[axis])
        pairs = [(0, 0)] * len(x.shape)
        pairs[axis] = (missing // 2, missing - missing // 2)
        x = pad(x, pairs)
    else:
        count = max(0, (x.shape[axis] - reach) // stride + 1)
    if stride == size and rate == 1:
        return _part(x, axis, 0, count * size), count
    places = np.arange(count)[:, None] * stride + np.arange(size) * rate
    return take_p(x, place_next_to(x, places.reshape(-1)), axis=axis), count
