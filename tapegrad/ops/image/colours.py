"""Colour spaces: grey, HSV, YIQ and YUV."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.elementwise.selection import clip, maximum, minimum, where
from tapegrad.ops.image.pixels import as_colours, as_fractions, channels, convert_image_dtype
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.kinds import require_floating
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.rearranging import tile

# Each row has the shares of one channel of the first space in the channels of the second.
_TO_GREY = np.array([[0.2989], [0.5870], [0.1140]])
_TO_YIQ = np.array(
    [
        [0.299, 0.59590059, 0.2115],
        [0.587, -0.27455667, -0.52273617],
        [0.114, -0.32134392, 0.31119955],
    ]
)
_FROM_YIQ = np.array(
    [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
)
_TO_YUV = np.array(
    [
        [0.299, -0.14714119, 0.61497538],
        [0.587, -0.28886916, -0.51496512],
        [0.114, 0.43601035, -0.10001026],
    ]
)
_FROM_YUV = np.array(
    [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]
)


def _mixed(x: Any, shares: np.ndarray) -> Any:
    return matmul(x[..., None, :], place_next_to(x, shares.astype(numpy_dtype_of(x))))[..., 0, :]


def _mixed_floats(name: str, images: Any, shares: np.ndarray) -> Any:
    x = as_colours(images, name)
    require_floating(name, x)
    return _mixed(x, shares)


def rgb_to_grayscale(images: Any, name: str | None = None) -> Any:
    """Return the brightness of colours as images of one channel, in the same dtype.

    >>> rgb_to_grayscale([[[1.0, 1.0, 1.0]]]).numpy().round(4).tolist()
    [[[0.9998999834060669]]]
    """
    x = as_colours(images, "rgb_to_grayscale")
    return convert_image_dtype(_mixed(as_fractions(x), _TO_GREY), x.dtype)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Any:
    """Return images of one channel with three equal channels.

    >>> grayscale_to_rgb([[[0.5]]]).tolist()
    [[[0.5, 0.5, 0.5]]]
    """
    x = as_colours(images, "grayscale_to_rgb", 1)
    return tile(x, [1] * (len(x.shape) - 1) + [3])


def rgb_to_yiq(images: Any) -> Any:
    """Convert colours from RGB to YIQ.

    >>> rgb_to_yiq([1.0, 0.0, 0.0]).numpy().round(3).astype("float64").round(3).tolist()
    [0.299, 0.596, 0.212]
    """
    return _mixed_floats("rgb_to_yiq", images, _TO_YIQ)


def yiq_to_rgb(images: Any) -> Any:
    """Convert colours from YIQ to RGB.

    >>> yiq_to_rgb([0.5, 0.0, 0.0]).tolist()
    [0.5, 0.5, 0.5]
    """
    return _mixed_floats("yiq_to_rgb", images, _FROM_YIQ)


def rgb_to_yuv(images: Any) -> Any:
    """Convert colours from RGB to YUV.

    >>> rgb_to_yuv([1.0, 0.0, 0.0]).numpy().astype("float64").round(3).tolist()
    [0.299, -0.147, 0.615]
    """
    return _mixed_floats("rgb_to_yuv", images, _TO_YUV)


def yuv_to_rgb(images: Any) -> Any:
    """Convert colours from YUV to RGB.

    >>> yuv_to_rgb([0.5, 0.0, 0.0]).tolist()
    [0.5, 0.5, 0.5]
    """
    return _mixed_floats("yuv_to_rgb", images, _FROM_YUV)


def split_hue(x: Any) -> tuple[Any, Any, Any]:
    """Return the hue in [0, 1), the smallest and the largest channel of RGB colours.

    >>> import tapegrad
    >>> [float(part) for part in split_hue(tapegrad.constant([0.0, 0.5, 1.0]))[1:]]
    [0.0, 1.0]
    """
    red, green, blue = channels(x)
    high = maximum(maximum(red, green), blue)
    low = minimum(minimum(red, green), blue)
    spread = high - low
    sixth = 1.0 / (6.0 * where(spread > 0, spread, 1.0))
    hue = where(high == green, sixth * (blue - red) + 1 / 3, sixth * (red - green) + 2 / 3)
    hue = where(high == red, sixth * (green - blue), hue)
    hue = where(spread > 0, hue, 0.0)
    return where(hue < 0, hue + 1.0, hue), low, high


def join_hue(hue: Any, low: Any, high: Any) -> Any:
    """Return RGB colours from their hue, smallest and largest channel.

    >>> import tapegrad
    >>> join_hue(*[tapegrad.constant(number) for number in (0.5, 0.0, 1.0)]).tolist()
    [0.0, 1.0, 1.0]
    """
    place = hue * 6.0
    shares = (
        magnitude(place - 3.0) - 1.0,
        2.0 - magnitude(place - 2.0),
        2.0 - magnitude(place - 4.0),
    )
    return stack([low + (high - low) * clip(share, 0.0, 1.0) for share in shares], -1)


def rgb_to_hsv(images: Any, name: str | None = None) -> Any:
    """Convert colours from RGB to hue, saturation and value, all in [0, 1].

    >>> rgb_to_hsv([0.0, 0.5, 0.5]).tolist()
    [0.5, 1.0, 0.5]
    """
    x = as_colours(images, "rgb_to_hsv")
    require_floating("rgb_to_hsv", x)
    hue, low, high = split_hue(x)
    saturation = where(high > 0, (high - low) / where(high > 0, high, 1.0), 0.0)
    return stack([hue, saturation, high], -1)


def hsv_to_rgb(images: Any, name: str | None = None) -> Any:
    """Convert colours from hue, saturation and value to RGB.

    >>> hsv_to_rgb([0.5, 1.0, 0.5]).tolist()
    [0.0, 0.5, 0.5]
    """
    x = as_colours(images, "hsv_to_rgb")
    require_floating("hsv_to_rgb", x)
    hue, saturation, value = channels(x)
    return join_hue(hue, value * (1.0 - saturation), value)
