"""Flips, rotations by right angles, and transposes of images."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.image.pixels import as_images
from tapegrad.ops.shape.functions import swapaxes
from tapegrad.ops.shape.rearranging import flip, rot90 as rotated


def flip_left_right(image: Any) -> Any:
    """Flip images from left to right.

    >>> flip_left_right([[[1.0], [2.0]]]).tolist()
    [[[2.0], [1.0]]]
    """
    return flip(as_images(image, "flip_left_right"), -2)


def flip_up_down(image: Any) -> Any:
    """Flip images upside down.

    >>> flip_up_down([[[1.0]], [[2.0]]]).tolist()
    [[[2.0]], [[1.0]]]
    """
    return flip(as_images(image, "flip_up_down"), -3)


def rot90(image: Any, k: int = 1, name: str | None = None) -> Any:
    """Rotate images counterclockwise by `k` right angles.

    >>> rot90([[[1.0], [2.0]]]).tolist()
    [[[2.0]], [[1.0]]]
    """
    return rotated(as_images(image, "rot90"), int(k), (-3, -2))


def transpose(image: Any, name: str | None = None) -> Any:
    """Exchange the rows and the columns of images.

    >>> transpose([[[1.0], [2.0]]]).tolist()
    [[[1.0]], [[2.0]]]
    """
    return swapaxes(as_images(image, "transpose"), -3, -2)
