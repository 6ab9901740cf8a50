"""keras.ops.image: images that are scaled and shifted, or moved by smooth noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_wholes
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import random
from tapegrad.keras.ops.image_functions import Images, gaussian_blur, read_at
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.elementwise.rounding import round as rounded
from tapegrad.ops.elementwise.selection import clip, maximum, where
from tapegrad.ops.elementwise.trigonometric import sinc
from tapegrad.ops.image.pixels import in_single
from tapegrad.ops.image.sampling import FILL_MODES, INTERPOLATIONS
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.products.functions import tensordot
from tapegrad.ops.reduction.functions import reduce_max, reduce_min, reduce_sum
from tapegrad.ops.shape.functions import moveaxis

_LINEAR = ("linear", "bilinear", "trilinear", "triangle")
_CUBIC = ("cubic", "bicubic", "tricubic")
METHODS = (*_LINEAR, *_CUBIC, "lanczos3", "lanczos5")
"""The kernels of `scale_and_translate`."""


def elastic_transform(
    images: Any,
    alpha: float = 20.0,
    sigma: float = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
    seed: Any = None,
    data_format: str | None = None,
) -> Any:
    """Move each pixel by smooth random noise: `alpha` scales it, `sigma` is its smoothness.

    >>> elastic_transform([[[1.0], [1.0]], [[1.0], [1.0]]], seed=1).shape
    (2, 2, 1)
    """
    x = Images(images, data_format, "elastic_transform")
    batch, height, width, _ = x.batch().shape
    source = random.source_of(seed)
    noise = [random.normal((batch, height, width, 1), seed=source) for _ in range(2)]
    return moved_by_noise(
        images, noise, alpha, sigma, interpolation, fill_mode, fill_value, data_format
    )


def moved_by_noise(
    images: Any,
    noise: list[Any],
    alpha: float,
    sigma: float,
    interpolation: str,
    fill_mode: str,
    fill_value: float,
    data_format: str | None,
) -> Any:
    """Return images whose pixels move across and down by noise `[batch, height, width, 1]`."""
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    check_choice("fill_mode", fill_mode, FILL_MODES)
    if not sigma > 0:
        raise ArgumentError(f"elastic_transform needs a sigma above 0. Got {sigma!r}.")
    x = Images(images, data_format, "elastic_transform")
    y = x.batch()
    size = int(6 * float(sigma)) | 1
    across, down = (
        in_dtype(
            gaussian_blur(part * float(sigma), (size, size), (sigma, sigma), "channels_last")
            * float(alpha),
            y.dtype,
        )
        for part in noise
    )
    dtype = numpy_dtype_of(y)
    rows = place_next_to(y, np.arange(y.shape[1], dtype=dtype).reshape(-1, 1, 1))
    columns = place_next_to(y, np.arange(y.shape[2], dtype=dtype).reshape(-1, 1))
    places = (rows + down, columns + across)
    return read_at(x, y, places, interpolation, fill_mode, fill_value)


def scale_and_translate(
    images: Any,
    output_shape: Any,
    scale: Any,
    translation: Any,
    spatial_dims: Any,
    method: str,
    antialias: bool = True,
) -> Any:
    """Scale arrays and shift them along axes, to an output of another shape.

    The element i of the input goes to `scale * (i + 0.5) + translation - 0.5`.

    >>> x = [[1.0], [2.0]]
    >>> scale_and_translate(x, (4, 1), [2.0], [0.0], [0], "linear").numpy().ravel().tolist()
    [1.0, 1.25, 1.75, 2.0]
    """
    check_choice("method", method, METHODS)
    x = as_operand(images)
    sizes = check_wholes("output_shape", output_shape, "scale_and_translate")
    axes = check_wholes("spatial_dims", spatial_dims, "scale_and_translate")
    y = in_single(x)
    scales, shifts = cast(as_operand(scale), y.dtype), cast(as_operand(translation), y.dtype)
    lengths = (len(axes),)
    if len(sizes) != len(x.shape) or {tuple(scales.shape), tuple(shifts.shape)} != {lengths}:
        raise ShapeError(
            "scale_and_translate needs a length for each axis, and a scale and a translation for "
            f"each of the {len(axes)} axes in spatial_dims. Got output_shape {sizes} for shape "
            f"{tuple(x.shape)}, {tuple(scales.shape)} and {tuple(shifts.shape)}."
        )
    for place, axis in enumerate(axes):
        axis = normalize_axis(axis, len(sizes), "scale_and_translate")
        weights = _weights(
            y, y.shape[axis], sizes[axis], scales[place], shifts[place], method, antialias
        )
        y = moveaxis(tensordot(y, weights, ([axis], [0])), -1, axis)
    if not as_dtype(x.dtype).is_integer:
        return in_dtype(y, x.dtype)
    limits = [cast(end(x), y.dtype) for end in (reduce_min, reduce_max)]
    return cast(clip(rounded(y), *limits), x.dtype)


def _weights(
    y: Any, size: int, new_size: int, scale: Any, shift: Any, method: str, antialias: bool
) -> Any:
    """Return the share of each input element in each output element, as [input, output]."""
    dtype = numpy_dtype_of(y)
    inputs = place_next_to(y, np.arange(size, dtype=dtype).reshape(-1, 1))
    outputs = place_next_to(y, np.arange(new_size, dtype=dtype) + dtype.type(0.5))
    step = 1.0 / scale
    width = maximum(step, 1.0) if antialias else 1.0
    places = outputs * step - shift * step - 0.5
    weights = _kernel(magnitude(places - inputs) / width, method)
    total = reduce_sum(weights, 0, keepdims=True)
    is_safe = magnitude(total) > 1000.0 * float(np.finfo("float32").eps)
    weights = where(is_safe, weights / where(is_safe, total, 1.0), 0.0)
    return where((places >= -0.5) & (places <= size - 0.5), weights, 0.0)


def _kernel(x: Any, method: str) -> Any:
    """Return the weight of an element at a distance."""
    if method in _LINEAR:
        return maximum(1.0 - x, 0.0)
    if method in _CUBIC:
        near = ((1.5 * x - 2.5) * x) * x + 1.0
        far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
        return where(x >= 2.0, 0.0, where(x >= 1.0, far, near))
    radius = float(method[-1])
    return where(x > radius, 0.0, sinc(x) * sinc(x / radius))
