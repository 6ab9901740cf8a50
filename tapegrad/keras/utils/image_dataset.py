"""image_dataset_from_directory: a dataset of the image files in a directory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.keras.utils.directory_dataset import LABEL_MODES, datasets_of, in_batches
from tapegrad.keras.utils.directory_index import check_parts, indexed
from tapegrad.keras.utils.images import (
    INTERPOLATIONS,
    checked_size,
    img_to_array,
    middle_part,
    resized_image,
)
from tapegrad.keras.utils.pillow import CHANNELS, opened, pillow

_FORMATS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def image_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: Any = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    format: str = "tf",
    verbose: bool = True,
    smart_resize: bool = False,
) -> Any:
    """Make a dataset of image files, labelled by their subdirectories; Pillow must be installed.

    Images are float32 from 0 to 255 and have the size `image_size`, (height, width). The dataset
    has the attributes `class_names` and `file_paths`. `subset="both"` returns two datasets.
    `smart_resize` is the old name of `crop_to_aspect_ratio`.

    >>> train, test = image_dataset_from_directory(  # doctest: +SKIP
    ...     "flowers", validation_split=0.2, subset="both", seed=1, image_size=(64, 64)
    ... )
    """
    pillow("image_dataset_from_directory")
    check_choice("label_mode", label_mode, LABEL_MODES)
    check_choice("color_mode", color_mode, CHANNELS)
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    check_choice("format", format, ("tf",))
    check_choice("data_format", data_format, (None, "channels_last", "channels_first"))
    check_parts(validation_split, subset, shuffle, seed)
    crop_to_aspect_ratio = crop_to_aspect_ratio or smart_resize
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ArgumentError(
            "crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other. Got both."
        )
    labels = None if label_mode is None else labels
    files = indexed(directory, labels, _FORMATS, class_names, follow_links, "images")
    ways = "crop" if crop_to_aspect_ratio else "pad" if pad_to_aspect_ratio else ""
    size = checked_size("image_size", image_size)

    def read(path: str) -> Any:
        image = opened(path, color_mode, "image_dataset_from_directory")
        pixels = _resized(img_to_array(image, dtype="float32"), size, interpolation, ways)
        return pixels.transpose(2, 0, 1) if data_format == "channels_first" else pixels

    return datasets_of(
        files,
        read,
        label_mode=label_mode,
        batch=in_batches(batch_size),
        shuffle=shuffle,
        seed=seed,
        validation_split=validation_split,
        subset=subset,
        verbose=verbose,
    )


def _resized(pixels: Any, size: tuple[int, int], interpolation: str, ways: str) -> Any:
    if ways == "crop":
        top, left, rows, columns = middle_part(pixels.shape[:2], size)
        pixels = pixels[top : top + rows, left : left + columns]
    elif ways == "pad":
        pixels = _padded(pixels, size)
    return resized_image(pixels, size, interpolation).numpy()


def _padded(pixels: Any, size: tuple[int, int]) -> Any:
    """Add zeros around an image, so that it has the ratio of `size`."""
    height, width = pixels.shape[:2]
    more_rows = max(height, width * size[0] // size[1]) - height
    more_columns = max(width, height * size[1] // size[0]) - width
    top, left = more_rows // 2, more_columns // 2
    return np.pad(pixels, ((top, more_rows - top), (left, more_columns - left), (0, 0)))
