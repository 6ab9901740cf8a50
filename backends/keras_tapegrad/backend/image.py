"""Functions of images with the signatures and errors of Keras' backends."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import is_float_dtype
from keras.src.random.seed_generator import draw_seed

import tapegrad as tg
import tapegrad.numpy as tnp
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.keras.ops import image as functions
from tapegrad.keras.ops.image_warps import METHODS, moved_by_noise
from tapegrad.random import split, stateless_normal

RESIZE_INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic")
AFFINE_TRANSFORM_INTERPOLATIONS = {"nearest": 0, "bilinear": 1}
AFFINE_TRANSFORM_FILL_MODES = {"constant", "nearest", "wrap", "mirror", "reflect"}
MAP_COORDINATES_FILL_MODES = AFFINE_TRANSFORM_FILL_MODES
SCALE_AND_TRANSLATE_METHODS = {*METHODS}


def _images(images: Any) -> Any:
    x = convert_to_tensor(images)
    if x.ndim not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 for one image, or 4 for a batch. "
            f"Got an array of shape {tuple(x.shape)}."
        )
    return x


def _format(data_format: str | None) -> str:
    return str(config.standardize_data_format(data_format))


def _check_choice(name: str, value: Any, known: Any) -> None:
    if value not in known:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected of one {set(known)}. "
            f"Received: {name}={value}"
        )


def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Any:
    """Return the brightness as one channel."""
    x, data_format = _images(images), _format(data_format)
    if x.shape[-1 if data_format == "channels_last" else -3] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). "
            f"Got an array of shape {tuple(x.shape)}."
        )
    return functions.rgb_to_grayscale(x, data_format=data_format)


def _check_floating(x: Any) -> None:
    if not is_float_dtype(x.dtype):
        raise ValueError(
            f"Invalid images dtype: expected float dtype. Got {x.dtype.name}; cast them first."
        )


def rgb_to_hsv(images: Any, data_format: str | None = None) -> Any:
    """Return hue, saturation and value."""
    x = _images(images)
    _check_floating(x)
    return functions.rgb_to_hsv(x, data_format=_format(data_format))


def hsv_to_rgb(images: Any, data_format: str | None = None) -> Any:
    """Return the inverse of `rgb_to_hsv`."""
    x = _images(images)
    _check_floating(x)
    return functions.hsv_to_rgb(x, data_format=_format(data_format))


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
    """Resize images, in their dtype."""
    _check_choice("interpolation", interpolation, RESIZE_INTERPOLATIONS)
    if fill_mode != "constant":
        raise ValueError(
            f"Invalid value for argument `fill_mode`: {fill_mode!r}. It must be 'constant'."
        )
    if pad_to_aspect_ratio and crop_to_aspect_ratio:
        raise ValueError(
            "Only one of cropping and padding can keep the aspect ratio. Both were requested."
        )
    if len(size) != 2:
        raise ValueError(f"resize takes a size of two numbers, height and width. Got {size}.")
    return functions.resize(
        _images(images),
        tuple([int(one) for one in size]),
        interpolation=interpolation,
        antialias=antialias,
        crop_to_aspect_ratio=crop_to_aspect_ratio,
        pad_to_aspect_ratio=pad_to_aspect_ratio,
        fill_value=fill_value,
        data_format=_format(data_format),
    )


def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Any:
    """Move the pixels of images by transforms of 8 numbers."""
    _check_choice("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    _check_choice("fill_mode", fill_mode, AFFINE_TRANSFORM_FILL_MODES)
    x, rows = _images(images), convert_to_tensor(transform)
    if rows.ndim not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 for one transform, or 2 for a batch. "
            f"Got an array of shape {tuple(rows.shape)}."
        )
    return functions.affine_transform(
        x, rows, interpolation, fill_mode, fill_value, data_format=_format(data_format)
    )


def _check_points(points: Any, name: str) -> None:
    if points.ndim not in (2, 3) or tuple(points.shape)[-2:] != (4, 2):
        raise ValueError(
            f"Invalid {name} shape: expected four points of two coordinates per image. "
            f"Got {tuple(points.shape)}."
        )


def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: Any = 0,
    data_format: str | None = None,
) -> Any:
    """Move four points of images to four others, and the other pixels accordingly."""
    start, end = convert_to_tensor(start_points), convert_to_tensor(end_points)
    _check_choice("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    x = _images(images)
    _check_points(start, "start_points")
    _check_points(end, "end_points")
    if tuple(start.shape) != tuple(end.shape):
        raise ValueError(
            "The points of both ends must have the same shape. "
            f"Got {tuple(start.shape)} and {tuple(end.shape)}."
        )
    return functions.perspective_transform(
        x, start, end, interpolation, fill_value, data_format=_format(data_format)
    )


def compute_homography_matrix(start_points: Any, end_points: Any) -> Any:
    """Return the 8 numbers that map the end points of each image to its start points."""
    start, end = convert_to_tensor(start_points), convert_to_tensor(end_points)
    dtype = result_type(start.dtype, end.dtype, float)
    wide = result_type(dtype, "float32")
    start, end = tg.cast(start, wide), tg.cast(end, wide)
    one = tnp.ones_like(end[..., :1])
    none = tnp.zeros_like(one)
    rows = []
    for axis in (0, 1):
        goal = start[..., axis : axis + 1]
        own, other = tnp.concatenate([end, one], -1), tnp.concatenate([none, none, none], -1)
        halves = [own, other] if axis == 0 else [other, own]
        rows.append(tnp.concatenate([*halves, -goal * end], -1))
    matrix = tnp.concatenate(rows, axis=-2)
    goals = tnp.concatenate([start[..., 0], start[..., 1]], axis=-1)
    found = tnp.linalg.solve(matrix, goals[..., None])[..., 0]
    return tg.cast(found, dtype)


def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: Any = 0.0
) -> Any:
    """Return the values of an array at coordinates."""
    x, places = convert_to_tensor(inputs), convert_to_tensor(coordinates)
    if places.shape[0] != x.ndim:
        raise ValueError(
            "The number of coordinates must be the same as the rank of `inputs`. "
            f"Got {places.shape[0]} coordinates for an array of shape {tuple(x.shape)}."
        )
    if places.ndim < 2:
        raise ValueError(
            f"Coordinates of shape {tuple(places.shape)} name no places: expected at least rank 2."
        )
    _check_choice("fill_mode", fill_mode, MAP_COORDINATES_FILL_MODES)
    if order not in range(2):
        raise ValueError(
            f"Invalid value for argument `order`: {order}. Interpolation has order 0 or 1."
        )
    return functions.map_coordinates(x, list(places), order, fill_mode, fill_value)


def gaussian_blur(
    images: Any, kernel_size: Any = (3, 3), sigma: Any = (1.0, 1.0), data_format: str | None = None
) -> Any:
    """Blur images with a Gaussian window."""
    x, data_format = _images(images), _format(data_format)
    widths = convert_to_tensor(sigma, "float32")
    dtype = x.dtype
    x = tg.cast(x, result_type(dtype, "float32"))
    is_one = x.ndim == 3
    x = x[None] if is_one else x
    x = tnp.moveaxis(x, 1, -1) if data_format == "channels_first" else x
    for axis, size in ((1, int(kernel_size[1])), (2, int(kernel_size[0]))):
        places = np.arange(size, dtype="float32") - (size - 1) / 2
        window = tnp.exp(-0.5 * tnp.square(places / widths[2 - axis]))
        window = window / tnp.sum(window)
        shape = [1, 1, 1, 1]
        shape[axis - 1] = size
        filters = tnp.reshape(tg.cast(window, x.dtype), shape)
        filters = tnp.broadcast_to(filters, (*shape[:2], x.shape[-1], 1))
        x = tg.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME")
    x = tnp.moveaxis(x, -1, 1) if data_format == "channels_first" else x
    return tg.cast(x[0] if is_one else x, dtype)


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
    """Move each pixel by smooth random noise."""
    data_format = _format(data_format)
    _check_choice("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    _check_choice("fill_mode", fill_mode, AFFINE_TRANSFORM_FILL_MODES)
    x = _images(images)
    is_last = data_format == "channels_last"
    height, width = x.shape[-3:-1] if is_last else x.shape[-2:]
    shape = (x.shape[0] if x.ndim == 4 else 1, height, width, 1)
    keys = split(tg.cast(convert_to_tensor(draw_seed(seed)), "int64"))
    noise = [stateless_normal(shape, key) for key in (keys[0], keys[1])]
    return moved_by_noise(
        x, noise, float(alpha), float(sigma), interpolation, fill_mode, fill_value, data_format
    )


def scale_and_translate(
    images: Any,
    output_shape: Any,
    scale: Any,
    translation: Any,
    spatial_dims: Any,
    method: str,
    antialias: bool = True,
) -> Any:
    """Scale and shift arrays along axes."""
    _check_choice("method", method, SCALE_AND_TRANSLATE_METHODS)
    return functions.scale_and_translate(
        convert_to_tensor(images),
        tuple([int(size) for size in output_shape]),
        convert_to_tensor(scale, "float32"),
        convert_to_tensor(translation, "float32"),
        tuple([int(axis) for axis in spatial_dims]),
        method,
        antialias,
    )


def sobel_edges(images: Any, data_format: str | None = None) -> Any:
    """Return vertical and horizontal edges along a new last axis."""
    return functions.sobel_edges(convert_to_tensor(images), _format(data_format))
