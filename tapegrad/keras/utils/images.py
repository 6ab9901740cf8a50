"""Images as arrays, as Pillow's images and as files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.call_site import warn_outside
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.config import floatx
from tapegrad.keras.utils.pillow import opened, pillow, resampling
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.image.interpolation import kernel_names, resized

_FORMATS = ("channels_last", "channels_first")
INTERPOLATIONS = ("nearest", *kernel_names())


def array_to_img(
    x: Any, data_format: str | None = None, scale: bool = True, dtype: Any = None
) -> Any:
    """Return an array `[height, width, channels]` of 1, 3 or 4 channels as an image of Pillow.

    With `scale`, the values are mapped to 0 to 255: the smallest becomes 0 and the largest 255.

    >>> array_to_img(np.zeros((2, 3, 1))).size  # doctest: +SKIP
    (3, 2)
    """
    image_module = pillow("array_to_img")
    pixels = np.array(_on_host(x), dtype=_dtype(dtype))
    if pixels.ndim != 3:
        raise ShapeError(
            "array_to_img takes one image of 3 dimensions: height, width and channels. "
            f"Got shape {pixels.shape}."
        )
    if _data_format(data_format) == "channels_first":
        pixels = pixels.transpose(1, 2, 0)
    if scale:
        pixels = pixels - pixels.min(initial=np.inf if pixels.size else 0)
        largest = pixels.max(initial=0)
        pixels = pixels * (255.0 / largest) if largest else pixels
    channels = pixels.shape[2]
    if channels == 1:
        # 8 bits do not hold values above 255.
        is_wide = pixels.max(initial=0) > 255
        grey = pixels[:, :, 0].astype("int32" if is_wide else "uint8")
        return image_module.fromarray(grey)
    if channels not in (3, 4):
        raise ShapeError(
            f"array_to_img takes images of 1, 3 or 4 channels. Got {channels} channels in the "
            f"format {_data_format(data_format)!r}."
        )
    return image_module.fromarray(pixels.astype("uint8"))


def img_to_array(img: Any, data_format: str | None = None, dtype: Any = None) -> Any:
    """Return an image of Pillow as a NumPy array `[height, width, channels]`, by default float32.

    >>> img_to_array([[0, 128], [255, 0]]).shape
    (2, 2, 1)
    """
    pixels = np.array(_on_host(img), dtype=_dtype(dtype))
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3:
        raise ShapeError(
            f"img_to_array takes one image of 2 or 3 dimensions. Got shape {pixels.shape}."
        )
    return pixels.transpose(2, 0, 1) if _data_format(data_format) == "channels_first" else pixels


def load_img(
    path: Any,
    color_mode: str = "rgb",
    target_size: Any = None,
    interpolation: str = "nearest",
    keep_aspect_ratio: bool = False,
) -> Any:
    """Read an image file with Pillow, and resize it to `target_size`, (height, width), if given.

    With `keep_aspect_ratio`, the largest part in the middle that has the wanted ratio is resized.

    >>> image = load_img("cat.png", color_mode="grayscale", target_size=(64, 64))  # doctest: +SKIP
    """
    image = opened(path, color_mode, "load_img")
    if target_size is None:
        return image
    height, width = checked_size("target_size", target_size)
    if image.size == (width, height):
        return image
    box = None
    if keep_aspect_ratio:
        top, left, rows, columns = middle_part((image.size[1], image.size[0]), (height, width))
        box = (left, top, left + columns, top + rows)
    return image.resize((width, height), resampling(interpolation, "load_img"), box=box)


def save_img(
    path: Any,
    x: Any,
    data_format: str | None = None,
    file_format: str | None = None,
    scale: bool = True,
    **kwargs: Any,
) -> None:
    """Write an array to an image file; Pillow gets the other keyword arguments.

    The extension of the path gives the format, unless `file_format` does. Transparency is dropped
    for JPEG files.

    >>> save_img("noise.png", np.random.default_rng(0).random((8, 8, 3)))  # doctest: +SKIP
    """
    image = array_to_img(x, data_format, scale)
    ending = os.fspath(path).rpartition(".")[2] if isinstance(path, str | os.PathLike) else ""
    if image.mode == "RGBA" and (file_format or ending).lower() in ("jpg", "jpeg"):
        warn_outside("JPEG has no transparency: the fourth channel is dropped.")
        image = image.convert("RGB")
    try:
        image.save(path, format=file_format, **kwargs)
    except (KeyError, ValueError) as error:
        raise ArgumentError(
            f"Pillow cannot write the format {file_format or ending!r}: {error}. Give a "
            "path with an extension such as .png, or file_format."
        ) from error


def smart_resize(
    x: Any,
    size: Any,
    interpolation: str = "bilinear",
    data_format: str = "channels_last",
    backend_module: Any = None,
) -> Any:
    """Resize an image, or a batch of images, to (height, width) without distortion.

    The largest part in the middle that has the wanted ratio is resized. An array gives an array,
    a tensor gives a tensor. `backend_module` is accepted for Keras and ignored.

    >>> smart_resize(np.ones((6, 4, 3)), (2, 2)).shape
    (2, 2, 3)
    """
    wanted = checked_size("size", size)
    images = x if isinstance(x, Tensor | Variable) else np.asarray(x)
    if len(images.shape) not in (3, 4):
        raise ShapeError(
            "smart_resize takes an image of 3 dimensions, or a batch of them. "
            f"Got shape {tuple(images.shape)}."
        )
    down = len(images.shape) - (2 if _data_format(data_format) == "channels_first" else 3)
    top, left, rows, columns = middle_part(images.shape[down : down + 2], wanted)
    part = (slice(top, top + rows), slice(left, left + columns))
    found = resized_image(images[(slice(None),) * down + part], wanted, interpolation, down)
    return found if isinstance(x, Tensor | Variable) else found.numpy()


def resized_image(images: Any, size: tuple[int, int], interpolation: str, down: int = 0) -> Any:
    """Return images as a tensor with (height, width) of `size`; `down` is the axis of the height.

    Only "nearest" keeps integers; other interpolations return float32, without antialiasing.
    """
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    tensor = images if isinstance(images, Tensor | Variable) else constant(images)
    if interpolation != "nearest" and not tensor.dtype.is_floating:
        tensor = cast(tensor, "float32")
    tensor = resized(tensor, down, size[0], interpolation)
    return resized(tensor, down + 1, size[1], interpolation)


def middle_part(found: Any, wanted: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the first row and column, and the size, of the largest part with the wanted ratio.

    >>> middle_part((100, 60), (2, 1))
    (0, 5, 100, 50)
    """
    (height, width), (rows, columns) = found, wanted
    tall, wide = min(height, width * rows // columns), min(width, height * columns // rows)
    return (height - tall) // 2, (width - wide) // 2, tall, wide


def checked_size(name: str, size: Any) -> tuple[int, int]:
    """Return (height, width) as two positive integers."""
    is_pair = isinstance(size, list | tuple) and len(size) == 2
    if not is_pair or not all(isinstance(n, int | np.integer) and n > 0 for n in size):
        raise ArgumentError(f"{name} must be (height, width), two positive integers. Got {size!r}.")
    return int(size[0]), int(size[1])


def _data_format(given: str | None) -> str:
    if given is not None:
        check_choice("data_format", given, _FORMATS)
    return given or "channels_last"


def _dtype(given: Any) -> Any:
    return as_dtype(floatx() if given is None else given).dtype


def _on_host(x: Any) -> Any:
    return x.numpy() if isinstance(x, Tensor | Variable) else np.asarray(x)
