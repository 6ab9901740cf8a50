"""Functions of images with Keras' signatures, on those of tapegrad.ops.image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_count, check_wholes
from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.config import image_data_format
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.composed import saturate_cast
from tapegrad.ops.convolution.functions import depthwise_conv2d
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.rounding import round as rounded
from tapegrad.ops.image import colours, cropping, interpolation as kernels, pixels
from tapegrad.ops.image.sampling import FILL_MODES, INTERPOLATIONS, sample
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.linalg.solve import solve
from tapegrad.ops.shape.functions import broadcast_to, moveaxis, reshape
from tapegrad.ops.shape.joining import concat, stack
from tapegrad.ops.shape.padding import pad


class Images:
    """Images with their channels last, and the conversion to their original layout and dtype."""

    def __init__(self, images: Any, data_format: str | None, name: str) -> None:
        self.name = name
        data_format = data_format or image_data_format()
        check_choice("data_format", data_format, ("channels_last", "channels_first"))
        self.is_first = data_format == "channels_first"
        x = pixels.as_images(images, f"keras.ops.image.{name}")
        self.dtype = x.dtype
        self.last = moveaxis(x, -3, -1) if self.is_first else x

    def batch(self) -> Any:
        """Return the images in floating-point numbers, with a batch axis."""
        x = pixels.in_single(self.last)
        return x if len(x.shape) == 4 else x[None]

    def restored(self, y: Any, has_batch: bool = False) -> Any:
        """Return a result in the layout and dtype of the images; integers are rounded."""
        if has_batch and len(self.last.shape) == 3:
            y = y[0]
        y = moveaxis(y, -1, -3) if self.is_first else y
        if as_dtype(self.dtype).is_integer and pixels.is_floating(y):
            return saturate_cast(rounded(y), self.dtype)
        return in_dtype(y, self.dtype)


def _by_colour(name: str, function: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(images: Any, data_format: str | None = None) -> Any:
        x = Images(images, data_format, name)
        return x.restored(function(x.last))

    run.__name__ = run.__qualname__ = name
    return run


rgb_to_hsv = _by_colour("rgb_to_hsv", colours.rgb_to_hsv)
rgb_to_hsv.__doc__ = """Convert images from RGB to hue, saturation and value.

    >>> rgb_to_hsv([[[0.0, 0.5, 0.5]]]).tolist()
    [[[0.5, 1.0, 0.5]]]
    """
hsv_to_rgb = _by_colour("hsv_to_rgb", colours.hsv_to_rgb)
hsv_to_rgb.__doc__ = """Convert images from hue, saturation and value to RGB.

    >>> hsv_to_rgb([[[0.5, 1.0, 0.5]]]).tolist()
    [[[0.0, 0.5, 0.5]]]
    """


def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Any:
    """Return the brightness of images as one channel; grey images do not change.

    >>> rgb_to_grayscale([[[0.0, 1.0, 0.0]]]).numpy().round(3).tolist() == [[[np.float32(0.587)]]]
    True
    """
    x = Images(images, data_format, "rgb_to_grayscale")
    if x.last.shape[-1] == 1:
        return x.restored(x.last)
    return x.restored(colours.rgb_to_grayscale(x.last))


def resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: str | None = None,
) -> Any:
    """Resize images to `size = (height, width)`, in their dtype; integers are rounded.

    To keep the aspect ratio, images are cropped at their centre or padded first.

    >>> resize([[[0.0], [4.0]]], (1, 4)).numpy().ravel().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    x = Images(images, data_format, "resize")
    check_choice("interpolation", interpolation, ("nearest", *kernels.kernel_names()))
    check_choice("fill_mode", fill_mode, ("constant",))
    wanted = check_wholes("size", size, "keras.ops.image.resize")
    if len(wanted) != 2 or min(wanted) < 1:
        raise ArgumentError(f"keras.ops.image.resize needs a size (height, width). Got {size!r}.")
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ArgumentError(
            "keras.ops.image.resize takes crop_to_aspect_ratio or pad_to_aspect_ratio. Got both as "
            "True."
        )
    y = x.last if interpolation == "nearest" else pixels.in_single(x.last)
    height, width = y.shape[-3:-1]
    fitting = int(width * wanted[0] / wanted[1]), int(height * wanted[1] / wanted[0])
    if crop_to_aspect_ratio:
        sizes = [max(1, min(pair)) for pair in zip((height, width), fitting, strict=True)]
        starts = [(n - m) // 2 for n, m in zip((height, width), sizes, strict=True)]
        y = cropping.crop_to_bounding_box(y, *starts, *sizes)
    elif pad_to_aspect_ratio:
        pairs = [(max(0, m - n) // 2,) * 2 for n, m in zip((height, width), fitting, strict=True)]
        none = (0, 0)
        y = pad(y, [*[none] * (len(y.shape) - 3), *pairs, none], constant_values=fill_value)
    for axis, count in enumerate(wanted, len(y.shape) - 3):
        y = kernels.resized(y, axis, count, interpolation, antialias)
    return x.restored(y)


def _edges(name: str, sides: str, before: Any, after: Any, target: Any) -> list[Any]:
    """Return the three numbers of an axis, exactly one of which is None."""
    first, last, whole = sides.split()
    given = [
        None if value is None else check_count(word, value, f"keras.ops.image.{name}")
        for word, value in zip((first, last, whole), (before, after, target), strict=True)
    ]
    if sum(value is not None for value in given) != 2:
        raise ArgumentError(
            f"keras.ops.image.{name} needs exactly two of {first}, {last} and {whole}. "
            f"Got {given[0]}, {given[1]} and {given[2]}."
        )
    return given


def pad_images(
    images: Any,
    top_padding: int | None = None,
    left_padding: int | None = None,
    bottom_padding: int | None = None,
    right_padding: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Any:
    """Pad images with zeros; of two paddings and the target size, two are given.

    >>> pad_images([[[1.0]]], 0, 1, 0, target_width=3).numpy().ravel().tolist()
    [0.0, 1.0, 0.0]
    """
    x = Images(images, data_format, "pad_images")
    pairs = [(0, 0)] * len(x.last.shape)
    for axis, sides, values in (
        (-3, "top_padding bottom_padding target_height", (top_padding, bottom_padding)),
        (-2, "left_padding right_padding target_width", (left_padding, right_padding)),
    ):
        size = x.last.shape[axis]
        target = target_height if axis == -3 else target_width
        before, after, whole = _edges("pad_images", sides, *values, target)
        before = whole - size - after if before is None else before
        after = whole - size - before if after is None else after
        if min(before, after) < 0:
            raise ShapeError(
                f"keras.ops.image.pad_images cannot pad {size} pixels to {whole} with {values}."
            )
        pairs[axis] = (before, after)
    return x.restored(pad(x.last, pairs))


def crop_images(
    images: Any,
    top_cropping: int | None = None,
    left_cropping: int | None = None,
    bottom_cropping: int | None = None,
    right_cropping: int | None = None,
    target_height: int | None = None,
    target_width: int | None = None,
    data_format: str | None = None,
) -> Any:
    """Crop images; of two croppings and the target size, two are given.

    >>> crop_images([[[1.0], [2.0], [3.0]]], 0, 1, 0, target_width=1).numpy().ravel().tolist()
    [2.0]
    """
    x = Images(images, data_format, "crop_images")
    boxes = []
    for axis, sides, values in (
        (-3, "top_cropping bottom_cropping target_height", (top_cropping, bottom_cropping)),
        (-2, "left_cropping right_cropping target_width", (left_cropping, right_cropping)),
    ):
        size = x.last.shape[axis]
        target = target_height if axis == -3 else target_width
        before, after, whole = _edges("crop_images", sides, *values, target)
        whole = size - before - after if whole is None else whole
        before = size - whole - after if before is None else before
        if before < 0 or whole < 1 or before + whole > size:
            raise ShapeError(
                f"keras.ops.image.crop_images cannot take {whole} pixels from offset {before} of "
                f"{size}."
            )
        boxes.append((before, whole))
    (top, height), (left, width) = boxes
    return x.restored(cropping.crop_to_bounding_box(x.last, top, left, height, width))


def extract_patches(
    images: Any,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
) -> Any:
    """Return patches of images; each has its pixels and channels along the axis of channels.

    Without `strides`, patches do not overlap.

    >>> extract_patches([[[1.0], [2.0]], [[3.0], [4.0]]], 2).tolist()
    [[[1.0, 2.0, 3.0, 4.0]]]
    """
    x = Images(images, data_format, "extract_patches")
    sizes, rates = (1, *_two("size", size), 1), (1, *_two("dilation_rate", dilation_rate), 1)
    steps = sizes if strides is None else (1, *_two("strides", strides), 1)
    batch = x.last if len(x.last.shape) == 4 else x.last[None]
    y = cropping.extract_patches(batch, sizes, steps, rates, padding)
    return x.restored(y, has_batch=True)


def _two(what: str, value: Any) -> tuple[int, int]:
    found = check_wholes(what, value, "keras.ops.image.extract_patches")
    if len(found) == 1:
        return found * 2
    if len(found) == 4 and found[0] == found[3] == 1:
        return found[1], found[2]  # also for the axes of batch and channels, as in tf.image
    if len(found) != 2:
        raise ArgumentError(
            f"keras.ops.image.extract_patches needs {what} of one or two numbers. Got {found}."
        )
    return found


def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: Any = 0
) -> Any:
    """Return the values of an array at coordinates, which are one array per axis.

    Order 0 takes the nearest element, order 1 interpolates. `fill_mode` is one of "constant",
    "nearest", "wrap", "mirror" and "reflect".

    >>> map_coordinates([[0.0, 1.0], [2.0, 3.0]], [[0.5], [0.5]], 1).tolist()
    [1.5]
    """
    x = as_operand(inputs)
    values = pixels.in_single(x)
    places = stack(common_operands(values, *coordinates)[1:])
    check_choice("order", order, (0, 1))
    check_choice("fill_mode", fill_mode, FILL_MODES)
    sizes = tuple(x.shape)
    if not sizes or 0 in sizes or places.shape[0] != len(sizes):
        raise ShapeError(
            "keras.ops.image.map_coordinates needs one array of coordinates for each axis of an "
            f"array with elements. Got shapes {tuple(places.shape)} and {sizes}."
        )
    points = in_dtype(places, values.dtype)
    y = sample(
        reshape(values, (prod(sizes), 1)),
        0,
        sizes,
        [points[k][..., None] for k in range(len(sizes))],
        INTERPOLATIONS[order],
        fill_mode,
        fill_value,
    )[..., 0]
    is_whole = as_dtype(x.dtype).is_integer
    return saturate_cast(rounded(y), x.dtype) if is_whole else in_dtype(y, x.dtype)


def _transformed(
    x: Images, transform: Any, interpolation: str, fill_mode: str, fill_value: Any
) -> Any:
    """Read each pixel from the place to which its row of 8 numbers of `transform` maps it."""
    y = x.batch()
    batch, height, width, _ = y.shape
    rows = in_dtype(common_operands(y, transform)[1], y.dtype)
    if len(rows.shape) == 1:
        rows = rows[None]
    if len(rows.shape) != 2 or rows.shape[1] != 8 or rows.shape[0] not in (1, batch):
        raise ShapeError(
            f"keras.ops.image.{x.name} needs a transform of 8 numbers, or one for each of the "
            f"{batch} images. Got shape {tuple(rows.shape)}."
        )
    dtype = numpy_dtype_of(y)
    down = place_next_to(y, np.arange(height, dtype=dtype).reshape(height, 1, 1))
    across = place_next_to(y, np.arange(width, dtype=dtype).reshape(width, 1))
    a, b, c, d, e, f, g, h = (rows[:, k][:, None, None, None] for k in range(8))
    scale = g * across + h * down + 1.0
    places = (d * across + e * down + f) / scale, (a * across + b * down + c) / scale
    return read_at(x, y, places, interpolation, fill_mode, fill_value)


def read_at(
    x: Images, y: Any, places: Sequence[Any], interpolation: str, fill_mode: str, fill_value: Any
) -> Any:
    """Return the pixels of the batch `y` at rows and columns, in the layout of the images `x`."""
    batch, height, width, depth = y.shape
    first = place_next_to(y, (np.arange(batch) * height).reshape(batch, 1, 1, 1))
    flat = reshape(y, (batch * height * width, depth))
    found = sample(flat, first, (height, width), places, interpolation, fill_mode, fill_value)
    return x.restored(found, has_batch=True)


def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Any:
    """Move the pixels of images by a transform (a0, a1, a2, b0, b1, b2, c0, c1), or one per image.

    The pixel (x, y) of the result is read at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with
    k = c0 x + c1 y + 1.

    >>> move = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    >>> affine_transform([[[1.0], [2.0], [3.0]]], move).numpy().ravel().tolist()
    [2.0, 3.0, 0.0]
    """
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    check_choice("fill_mode", fill_mode, FILL_MODES)
    x = Images(images, data_format, "affine_transform")
    return _transformed(x, transform, interpolation, fill_mode, fill_value)


def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Any:
    """Move four points (x, y) of images to four others, and the other pixels accordingly.

    Points have the shape (4, 2), or (batch, 4, 2) for images with different points.

    >>> corners = [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [2.0, 1.0]]
    >>> image = [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]
    >>> flipped = [[2.0, 0.0], [0.0, 0.0], [2.0, 1.0], [0.0, 1.0]]
    >>> perspective_transform(image, corners, flipped).numpy().round(4)[..., 0].tolist()
    [[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]]
    """
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    x = Images(images, data_format, "perspective_transform")
    _, start, end = common_operands(x.batch(), start_points, end_points)
    start, end = pixels.in_single(start), pixels.in_single(end)
    if start.shape != end.shape or tuple(start.shape[-2:]) != (4, 2):
        raise ShapeError(
            "keras.ops.image.perspective_transform needs start_points and end_points of shape "
            f"(4, 2) or (batch, 4, 2). Got {tuple(start.shape)} and {tuple(end.shape)}."
        )
    return _transformed(x, _homography(end, start), interpolation, "constant", fill_value)


def _homography(source: Any, target: Any) -> Any:
    """Return the 8 numbers of the transform that maps four points to four others."""
    one = place_next_to(source, np.ones((4, 1), numpy_dtype_of(source)))
    one = broadcast_to(one, (*source.shape[:-1], 1))
    none = one * 0.0
    blocks, values = [], []
    for k in (0, 1):
        goal = target[..., k : k + 1]
        own = [source, one] if k == 0 else [none, none, none, source, one]
        own += [none, none, none] if k == 0 else []
        blocks.append(concat([*own, -goal * source], -1))
        values.append(goal)
    return solve(concat(blocks, -2), concat(values, -2))[..., 0]


def gaussian_blur(
    images: Any, kernel_size: Any = (3, 3), sigma: Any = (1.0, 1.0), data_format: str | None = None
) -> Any:
    """Blur images with a Gaussian window of this size; there are zeros around the images.

    >>> gaussian_blur([[[0.0], [1.0], [0.0]]], (1, 3), (1.0, 50.0)).numpy().round(2)[0, 1, 0] < 0.34
    np.True_
    """
    x = Images(images, data_format, "gaussian_blur")
    sizes = check_wholes("kernel_size", kernel_size, "keras.ops.image.gaussian_blur")
    widths = np.array(sigma, np.float64).reshape(-1)
    if len(sizes) != 2 or min(sizes) < 1 or widths.shape != (2,) or not (widths > 0).all():
        raise ArgumentError(
            "keras.ops.image.gaussian_blur needs a kernel_size of two numbers >= 1 and a sigma of "
            f"two numbers above 0. Got {kernel_size!r} and {sigma!r}."
        )
    y = x.batch()
    for axis, (size, width) in enumerate(zip(sizes, widths, strict=True)):
        line = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / width) ** 2)
        shape = (size, 1, 1, 1) if axis == 0 else (1, size, 1, 1)
        window = (line / line.sum()).astype(numpy_dtype_of(y)).reshape(shape)
        window = np.repeat(window, y.shape[-1], axis=2)
        y = depthwise_conv2d(y, place_next_to(y, window), 1, "SAME")
    return x.restored(y, has_batch=True)
