"""Resizing of images in all of TensorFlow's methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_count, check_elements, check_wholes
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import as_shape
from tapegrad.ops.image.cropping import pad_to_bounding_box
from tapegrad.ops.image.interpolation import METHODS, resized
from tapegrad.ops.image.pixels import as_images, in_single


class ResizeMethod:
    """The methods of `resize` under TensorFlow's names.

    >>> ResizeMethod.NEAREST_NEIGHBOR
    'nearest'
    """

    AREA = "area"
    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    GAUSSIAN = "gaussian"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    MITCHELLCUBIC = "mitchellcubic"
    NEAREST_NEIGHBOR = "nearest"


def resize(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Any:
    """Resize images to `size = (height, width)`; samples are at the centres of pixels.

    With `antialias`, the kernel is widened when images shrink; "nearest" and "area" ignore it. With
    `preserve_aspect_ratio`, `size` is the largest size. The result is float32, or float64 for
    images of float64; "nearest" keeps the dtype, and so do images that have this size already.

    >>> resize([[[0.0], [4.0]]], (1, 4)).numpy().ravel().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    x = as_images(images, "resize")
    check_choice("method", method, METHODS)
    sizes = as_shape(size, "size")
    if len(sizes) != 2 or min(sizes) < 1:
        raise ShapeError(f"resize needs a size (height, width) of two numbers >= 1. Got {sizes}.")
    return _resized(x, sizes, method, preserve_aspect_ratio, antialias)


def _resized(x: Any, size: Any, method: str, preserve_aspect_ratio: bool, antialias: bool) -> Any:
    old = x.shape[-3:-1]
    if 0 in old:
        raise ShapeError(f"resize needs images with pixels. Got shape {tuple(x.shape)}.")
    if preserve_aspect_ratio:
        # TensorFlow computes in float32, which decides where a size is rounded to.
        ratio = min(np.float32(new) / np.float32(n) for new, n in zip(size, old, strict=True))
        size = tuple(max(1, int(np.round(ratio * np.float32(n)))) for n in old)
    check_elements("resize", (*x.shape[:-3], *size, x.shape[-1]))
    if tuple(size) == tuple(old):
        return x
    y = x if method == "nearest" else in_single(x)
    first = len(x.shape) - 3
    for axis, wanted in enumerate(size, first):
        y = resized(y, axis, wanted, method, antialias)
    return y


def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: Any = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Any:
    """Resize images without a change of their aspect ratio, and pad them with zeros.

    >>> resize_with_pad([[[1.0], [1.0]]], 3, 2).numpy()[..., 0].tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    """
    x = as_images(image, "resize_with_pad")
    targets = check_wholes("target", (target_height, target_width), "resize_with_pad")
    for what, value in zip(("target_height", "target_width"), targets, strict=True):
        check_count(what, value, "resize_with_pad", least=1)
    check_choice("method", method, METHODS)
    sizes = np.array(x.shape[-3:-1], np.float32)
    if 0 in sizes:
        raise ArgumentError(
            f"resize_with_pad needs images with pixels. Got shape {tuple(x.shape)}."
        )
    # In float32, as TensorFlow does.
    fitted = sizes / np.max(sizes / np.array(targets, np.float32))
    size = [max(1, int(n)) for n in fitted]
    before = [max(0, int((n - m) / 2)) for n, m in zip(targets, fitted, strict=True)]
    y = _resized(x, size, method, False, antialias)
    return pad_to_bounding_box(y, *before, *targets)
