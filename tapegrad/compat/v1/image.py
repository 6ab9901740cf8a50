"""`tf.compat.v1.image`: resizing with the pixel positions of the first version."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import image
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing.gather import gather

__all__ = ["ResizeMethod", "resize", "resize_bilinear", "resize_images", "resize_nearest_neighbor"]


class ResizeMethod:
    """The methods of `resize`.

    >>> ResizeMethod.NEAREST_NEIGHBOR
    1
    """

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def resize_bilinear(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Any:
    """Resize images by linear interpolation; pixel 0 stays at position 0.

    >>> resize_bilinear([[[[0.0], [2.0]]]], [1, 4]).numpy().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0]
    """
    x = cast(as_operand(images), "float32")
    for axis, count in zip((-3, -2), _two(size)):
        where = _positions(x.shape[axis], count, align_corners, half_pixel_centers)
        low = np.floor(where).clip(0).astype(np.int64)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        share = (where - low).clip(0).astype(np.float32).reshape((-1, *(1,) * (-axis - 1)))
        first, second = gather(x, low, axis=axis), gather(x, high, axis=axis)
        x = first + (second - first) * constant(share)
    return x


def resize_nearest_neighbor(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Any:
    """Resize images by repeating and leaving out pixels.

    >>> resize_nearest_neighbor([[[[0], [2]]]], [1, 4]).numpy().ravel().tolist()
    [0, 0, 2, 2]
    """
    x = as_operand(images)
    for axis, count in zip((-3, -2), _two(size)):
        where = _positions(x.shape[axis], count, align_corners, half_pixel_centers)
        if half_pixel_centers:
            where = where + 0.5
        nearest = np.floor(where + 0.5) if align_corners else np.floor(where)
        x = gather(x, nearest.clip(0, x.shape[axis] - 1).astype(np.int64), axis=axis)
    return x


def _two(size: Any) -> list[int]:
    return [int(one) for one in np.asarray(as_operand(size)).tolist()]


def _positions(length: int, count: int, align_corners: bool, centers: bool) -> np.ndarray:
    """Return the positions in the input of the pixels of the result."""
    if align_corners and centers:
        raise ArgumentError("align_corners and half_pixel_centers cannot both be True.")
    if align_corners and count > 1:
        return np.arange(count) * np.float32((length - 1) / (count - 1))
    scale = np.float32(length / count)
    return (np.arange(count) + 0.5) * scale - 0.5 if centers else np.arange(count) * scale


def resize_images(
    images: Any,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Any:
    """Resize images by a method of `ResizeMethod`: BILINEAR or NEAREST_NEIGHBOR.

    >>> resize_images([[[[0.0], [2.0]]]], [1, 4]).shape
    (1, 1, 4, 1)
    """
    methods = {
        ResizeMethod.BILINEAR: resize_bilinear,
        ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    }
    if method not in methods or preserve_aspect_ratio:
        raise ArgumentError(
            "compat.v1.image.resize takes the methods BILINEAR and NEAREST_NEIGHBOR, without "
            f"preserve_aspect_ratio. Use tapegrad.image.resize for others. Got method={method!r}."
        )
    return methods[method](images, size, align_corners)


resize = resize_images


def __getattr__(name: str) -> Any:
    return getattr(image, name)


_check_calls(globals(), [name for name in __all__ if name != "ResizeMethod"])
