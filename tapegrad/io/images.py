"""Image files as tensors, by Pillow, and tensors as image files."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import string_tensor
from tapegrad.errors import FileFormatError, ShapeError, TapegradError
from tapegrad.io.messages import bytes_of
from tapegrad.io.png import png_file
from tapegrad.ops.image.pixels import convert_image_dtype
from tapegrad.strings.ragged import as_tensor

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_KNOWN = ("L", "RGB", "RGBA")


def _pillow(function: str) -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise TapegradError(
            f"{function} needs Pillow, which is not installed: pip install pillow."
        ) from error


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = "uint8",
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """Return the pixels of an image file, of shape (height, width, channels); Pillow is needed.

    `channels` is 1, 3 or 4, or 0 for those of the file. Floats are from 0 to 1.

    >>> decode_image(encode_png(np.zeros((2, 3, 3), np.uint8))).shape  # doctest: +SKIP
    (2, 3, 3)
    """
    return _decoded(contents, channels, dtype, "decode_image")


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """Return the pixels of a JPEG file as uint8; Pillow is needed.

    >>> decode_jpeg(tapegrad.io.read_file("photo.jpg"), channels=3)  # doctest: +SKIP
    """
    return _decoded(contents, channels, "uint8", "decode_jpeg")


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = "uint8", name: str | None = None
) -> Any:
    """Return the pixels of a PNG file; Pillow is needed.

    >>> decode_png(tapegrad.io.read_file("drawing.png"))  # doctest: +SKIP
    """
    return _decoded(contents, channels, dtype, "decode_png")


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Any:
    """Return the pixels of a BMP file as uint8; Pillow is needed.

    >>> decode_bmp(tapegrad.io.read_file("drawing.bmp"))  # doctest: +SKIP
    """
    return _decoded(contents, channels, "uint8", "decode_bmp")


def _decoded(contents: Any, channels: int | None, dtype: Any, function: str) -> Any:
    check_choice("channels", channels, (None, 0, 1, 3, 4))
    image = opened_image(contents, function)
    mode = _MODES[channels] if channels else image.mode if image.mode in _KNOWN else "RGB"
    pixels = np.array(image.convert(mode), np.uint8)
    tensor = as_tensor(pixels.reshape(*pixels.shape[:2], -1))
    wanted = as_dtype(dtype)
    return tensor if wanted.name == "uint8" else convert_image_dtype(tensor, wanted)


def opened_image(contents: Any, function: str) -> Any:
    """Return the bytes of a file as an image of Pillow."""
    opened = _pillow(function)
    try:
        image = opened.open(io.BytesIO(bytes_of(contents)))
        image.load()
    except (OSError, SyntaxError, ValueError, EOFError):
        raise FileFormatError(
            f"{function}: this is not an image, or it is damaged. "
            f"Got {len(bytes_of(contents))} bytes."
        ) from None
    return image


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Any:
    """Return uint8 pixels of shape (height, width, channels) as a PNG file.

    >>> encode_png(np.zeros((2, 2, 1), np.uint8)).numpy()[1:4]
    b'PNG'
    """
    return string_tensor(png_file(_pixels(image, "encode_png", (1, 2, 3, 4)), compression))


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: Any = b"",
    name: str | None = None,
) -> Any:
    """Return uint8 pixels of shape (height, width, channels) as a JPEG file; Pillow is needed.

    The densities are in pixels per inch, or per centimetre with `density_unit="cm"`.

    >>> encode_jpeg(np.zeros((8, 8, 3), np.uint8)).numpy()[:2]  # doctest: +SKIP
    b'\\xff\\xd8'
    """
    pixels = _pixels(image, "encode_jpeg", (1, 3))
    file = io.BytesIO()
    shown = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    check_choice("density_unit", density_unit, ("in", "cm"))
    scale = 2.54 if density_unit == "cm" else 1
    metadata = {"xmp": bytes_of(xmp_metadata)} if xmp_metadata else {}
    _pillow("encode_jpeg").fromarray(shown).save(
        file,
        "JPEG",
        quality=int(quality),
        progressive=progressive,
        optimize=optimize_size,
        subsampling=2 if chroma_downsampling else 0,
        dpi=(round(x_density * scale), round(y_density * scale)),
        **metadata,
    )
    return string_tensor(file.getvalue())


def _pixels(image: Any, function: str, channels: tuple[int, ...]) -> np.ndarray:
    pixels = np.asarray(read_on_host(image, function))
    if pixels.ndim != 3 or pixels.shape[-1] not in channels:
        raise ShapeError(
            f"{function} takes shape (height, width, channels) with "
            f"{' or '.join(map(str, channels))} channels. Got {pixels.shape}."
        )
    return pixels.astype(np.uint8)
