"""Pillow, which reads and writes image files: an optional library that is loaded on first use."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentTypeError, FileFormatError, TapegradError

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
"""The colour modes, with their numbers of channels."""
_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_GREY = ("L", "I", "I;16")
_FILTERS = ("nearest", "bilinear", "bicubic", "hamming", "box", "lanczos")


def pillow(function: str) -> Any:
    """Return the module PIL.Image, or raise an error that names the function that needs it."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise TapegradError(
            f"{function} needs Pillow, which is not installed: pip install pillow."
        ) from error


def resampling(name: str, function: str) -> Any:
    """Return the resampling filter of Pillow for the name that Keras gives it."""
    check_choice("interpolation", name, _FILTERS)
    return getattr(pillow(function).Resampling, name.upper())


def opened(path: Any, color_mode: str, function: str) -> Any:
    """Return the image of a file in a colour mode: a path, or an object with a `read` method."""
    check_choice("color_mode", color_mode, CHANNELS)
    pillow(function)
    if not isinstance(path, str | os.PathLike) and not hasattr(path, "read"):
        raise ArgumentTypeError(
            f"{function} takes the path of an image, or an open file. "
            f"Got {type(path).__name__}: {path!r}."
        )
    if hasattr(path, "read"):
        image = _decoded(path, "The file", function)
    else:
        with open(path, "rb") as file:
            image = _decoded(file, os.fspath(path), function)
    if color_mode == "grayscale" and image.mode in _GREY:
        return image  # 16 and 32 bits per pixel are kept
    return image if image.mode == _MODES[color_mode] else image.convert(_MODES[color_mode])


def _decoded(file: Any, name: str, function: str) -> Any:
    image_module = pillow(function)
    try:
        image = image_module.open(file)
        image.load()
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise FileFormatError(f"{name} is damaged, or is not an image: {error}") from error
    return image
