"""JPEG and GIF files: what they hold, parts of them, and images as after a round trip."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, FileFormatError, ShapeError
from tapegrad.io.images import decode_jpeg, encode_jpeg, opened_image
from tapegrad.io.messages import bytes_of
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.image.pixels import convert_image_dtype
from tapegrad.ops.random.generator import source_for
from tapegrad.ops.random.primitives import draw_integers
from tapegrad.ops.random.stateless import SeedPair
from tapegrad.strings.ragged import as_tensor


def is_jpeg(contents: Any, name: str | None = None) -> Any:
    """Return whether the bytes of a file begin as those of a JPEG file.

    >>> bool(is_jpeg(b"\\xff\\xd8\\xff\\xe0"))
    True
    """
    return constant(bytes_of(contents)[:3] == b"\xff\xd8\xff")


def extract_jpeg_shape(contents: Any, output_type: Any = "int32", name: str | None = None) -> Any:
    """Return height, width and channels of a JPEG file without its pixels.

    >>> extract_jpeg_shape(encode_jpeg(np.zeros((8, 9, 3), np.uint8))).tolist()  # doctest: +SKIP
    [8, 9, 3]
    """
    data = bytes_of(contents)
    place = 2
    while data[:2] == b"\xff\xd8" and place + 9 < len(data) and data[place] == 0xFF:
        marker, length = data[place + 1], int.from_bytes(data[place + 2 : place + 4], "big")
        # Frames begin with these markers, other than the tables 0xC4, 0xC8 and 0xCC.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = (int.from_bytes(data[place + k : place + k + 2], "big") for k in (5, 7))
            return cast(constant([height, width, data[place + 9]]), output_type)
        place += 2 + length
    raise FileFormatError("extract_jpeg_shape: this is not a JPEG file, or it is damaged.")


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """Return a part of a JPEG file: `crop_window` is its top, left, height and width.

    >>> file = encode_jpeg(np.zeros((8, 9, 3), np.uint8))  # doctest: +SKIP
    >>> decode_and_crop_jpeg(file, [1, 2, 3, 4]).shape  # doctest: +SKIP
    (3, 4, 3)
    """
    window = check_wholes("crop_window", crop_window, "decode_and_crop_jpeg")
    if len(window) != 4:
        raise ArgumentError(
            f"crop_window takes four numbers: top, left, height and width. Got {crop_window!r}."
        )
    top, left, height, width = window
    image = decode_jpeg(contents, channels, ratio)
    if (
        min(window) < 0
        or not height
        or not width
        or (top + height > image.shape[0] or left + width > image.shape[1])
    ):
        raise ShapeError(
            f"crop_window must lie inside the image of {image.shape[0]} x {image.shape[1]} pixels. "
            f"Got {list(window)}."
        )
    return image[top : top + height, left : left + width]


def decode_gif(contents: Any, name: str | None = None) -> Any:
    """Return the frames of a GIF file, of shape (frames, height, width, 3); Pillow is needed.

    >>> decode_gif(b"no image")  # doctest: +SKIP
    Traceback (most recent call last):
    tapegrad.errors.FileFormatError: decode_gif: this is not an image, or it is damaged.
    """
    image = opened_image(contents, "decode_gif")
    frames = []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        frames.append(np.array(image.convert("RGB"), np.uint8))
    return as_tensor(np.stack(frames))


def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Any:
    """Return an image as it looks after it was stored as a JPEG file of this quality, 0 to 100.

    >>> adjust_jpeg_quality(np.zeros((8, 8, 3), np.uint8), 50).shape  # doctest: +SKIP
    (8, 8, 3)
    """
    x = as_operand(image)
    if len(x.shape) != 3 or x.shape[-1] not in (1, 3):
        raise ShapeError(
            "adjust_jpeg_quality takes an image of shape (height, width, channels) with 1 or 3 "
            f"channels. Got shape {tuple(x.shape)}."
        )
    quality = int(as_operand(jpeg_quality))
    if not 0 <= quality <= 100:
        raise ArgumentError(f"jpeg_quality must be from 0 to 100. Got {quality}.")
    pixels = convert_image_dtype(x, "uint8", saturate=True)
    found = decode_jpeg(encode_jpeg(pixels, quality=quality), x.shape[-1])
    return convert_image_dtype(found, x.dtype, saturate=True)


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Any:
    """Return an image as after it was stored with a random quality of a range.

    >>> random_jpeg_quality(np.zeros((8, 8, 3), np.uint8), 50, 90).shape  # doctest: +SKIP
    (8, 8, 3)
    """
    return _at_random(image, min_jpeg_quality, max_jpeg_quality, source_for(seed))


def stateless_random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any
) -> Any:
    """Return an image as after it was stored with a quality that a pair of integers determines.

    >>> image = np.zeros((8, 8, 3), np.uint8)
    >>> stateless_random_jpeg_quality(image, 50, 90, (1, 2)).shape  # doctest: +SKIP
    (8, 8, 3)
    """
    return _at_random(image, min_jpeg_quality, max_jpeg_quality, SeedPair(seed))


def _at_random(image: Any, least: int, most: int, source: Any) -> Any:
    if not 0 <= least < most <= 100:
        raise ArgumentError(
            "A random quality needs 0 <= min_jpeg_quality < max_jpeg_quality <= 100. "
            f"Got {least} and {most}."
        )
    return adjust_jpeg_quality(image, draw_integers(source, (), least, most, "int32"))
