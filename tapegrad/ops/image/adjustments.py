"""Changes of brightness, contrast, gamma, hue and saturation."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.composed import is_tensor
from tapegrad.ops.elementwise.powers import power
from tapegrad.ops.elementwise.rounding import mod
from tapegrad.ops.elementwise.selection import clip, maximum
from tapegrad.ops.image.colours import hsv_to_rgb, join_hue, rgb_to_hsv, split_hue
from tapegrad.ops.image.pixels import (
    as_colours,
    as_fractions,
    as_stack,
    channels,
    convert_image_dtype,
    is_floating,
)
from tapegrad.ops.reduction.functions import reduce_mean, reduce_std
from tapegrad.ops.shape.joining import stack


def _number(value: Any, x: Any) -> Any:
    """Return a factor in the dtype of the pixels, whose dtype decides that of the result."""
    return in_dtype(value, x.dtype) if is_tensor(value) else value


def _restored(y: Any, x: Any) -> Any:
    return convert_image_dtype(y, x.dtype, saturate=True)


def _refuse_below(name: str, what: str, value: Any, least: float, most: float | None) -> None:
    if is_tensor(value) or (least <= value and (most is None or value <= most)):
        return
    limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
    raise ArgumentError(f"{name} needs a {what} {limits}. Got {value!r}.")


def adjust_brightness(image: Any, delta: Any) -> Any:
    """Add a number to all pixels; integer pixels are taken as numbers in [0, 1].

    >>> adjust_brightness([0.25, 0.5], 0.25).tolist()
    [0.5, 0.75]
    """
    x = as_operand(image)
    y = as_fractions(x)
    return _restored(y + _number(delta, y), x)


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """Scale the deviation of each channel from its mean over the image.

    >>> adjust_contrast([[[1.0], [3.0]]], 2.0).numpy().ravel().tolist()
    [0.0, 4.0]
    """
    x = as_stack(images, "adjust_contrast")
    y = as_fractions(x)
    mean = reduce_mean(y, (-3, -2), keepdims=True)
    return _restored((y - mean) * _number(contrast_factor, y) + mean, x)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    """Return `gain * image ** gamma`.

    >>> adjust_gamma([0.5, 1.0], 2.0).tolist()
    [0.25, 1.0]
    """
    x = as_operand(image)
    _refuse_below("adjust_gamma", "gamma", gamma, 0, None)
    y = as_fractions(x)
    return _restored(power(y, _number(gamma, y)) * _number(gain, y), x)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Any:
    """Turn the hue of RGB colours by a fraction of the circle of hues, from -1 to 1.

    >>> adjust_hue([[[1.0, 0.0, 0.0]]], 0.5).tolist()
    [[[0.0, 1.0, 1.0]]]
    """
    x = as_colours(as_stack(image, "adjust_hue"), "adjust_hue")
    _refuse_below("adjust_hue", "delta", delta, -1, 1)
    y = as_fractions(x)
    hue, low, high = split_hue(y)
    return _restored(join_hue(mod(hue + _number(delta, y), 1.0), low, high), x)


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Any:
    """Scale the saturation of RGB colours.

    >>> adjust_saturation([[[1.0, 0.5, 0.5]]], 2.0).tolist()
    [[[1.0, 0.0, 0.0]]]
    """
    x = as_colours(as_stack(image, "adjust_saturation"), "adjust_saturation")
    y = as_fractions(x)
    hue, saturation, value = channels(rgb_to_hsv(y))
    saturation = clip(saturation * _number(saturation_factor, y), 0.0, 1.0)
    return _restored(hsv_to_rgb(stack([hue, saturation, value], -1)), x)


def per_image_standardization(image: Any) -> Any:
    """Scale each image to mean 0 and variance 1; integer pixels become float32.

    The standard deviation is taken as at least 1 / sqrt(number of values), so that a uniform image
    gives zeros.

    >>> per_image_standardization([[[1.0], [3.0]]]).numpy().ravel().tolist()
    [-1.0, 1.0]
    """
    x = as_stack(image, "per_image_standardization")
    x = x if is_floating(x) else in_dtype(x, "float32")
    axes = (-3, -2, -1)
    least = max(1, prod(x.shape[-3:])) ** -0.5
    deviation = reduce_std(x, axes, keepdims=True)
    return (x - reduce_mean(x, axes, keepdims=True)) / maximum(deviation, least)
