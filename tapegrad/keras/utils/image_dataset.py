"""image_dataset_from_directory: a dataset of the image files in a directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.data.constants import AUTOTUNE
from tapegrad.data.dataset import Dataset
from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.logs import say
from tapegrad.keras.utils.directory_index import Files, check_parts, indexed, parts_of
from tapegrad.keras.utils.images import (
    INTERPOLATIONS,
    checked_size,
    img_to_array,
    middle_part,
    resized_image,
)
from tapegrad.keras.utils.pillow import CHANNELS, opened, pillow

_FORMATS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_MODES = ("int", "categorical", "binary", None)


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
) -> Any:
    """Make a dataset of image files, labelled by their subdirectories; Pillow must be installed.

    Images are float32 from 0 to 255 and have the size `image_size`, (height, width). The dataset
    has the attributes `class_names` and `file_paths`. `subset="both"` returns two datasets.

    >>> train, test = image_dataset_from_directory(  # doctest: +SKIP
    ...     "flowers", validation_split=0.2, subset="both", seed=1, image_size=(64, 64)
    ... )
    """
    pillow("image_dataset_from_directory")
    check_choice("label_mode", label_mode, _MODES)
    check_choice("color_mode", color_mode, CHANNELS)
    check_choice("interpolation", interpolation, INTERPOLATIONS)
    check_choice("format", format, ("tf",))
    check_choice("data_format", data_format, (None, "channels_last", "channels_first"))
    check_parts(validation_split, subset, shuffle, seed)
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ArgumentError(
            "crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other. Got both."
        )
    labels = None if label_mode is None else labels
    files = indexed(directory, labels, _FORMATS, class_names, follow_links)
    if not files.paths:
        raise ArgumentError(
            f"There are no images in {directory}. Their names must end in {', '.join(_FORMATS)}; "
            "with labels='inferred' they are in one subdirectory for each class."
        )
    label_of = _labelling(files, label_mode)
    if shuffle:
        seed = int(np.random.default_rng().integers(1_000_000)) if seed is None else seed
        files = files.shuffled(seed)
    parts = parts_of(files, validation_split, subset)
    if verbose:
        _report(files, parts, subset)
    ways = "crop" if crop_to_aspect_ratio else "pad" if pad_to_aspect_ratio else ""
    size = checked_size("image_size", image_size)

    def read(path: str) -> Any:
        image = opened(path, color_mode, "image_dataset_from_directory")
        pixels = _resized(img_to_array(image, dtype="float32"), size, interpolation, ways)
        return pixels.transpose(2, 0, 1) if data_format == "channels_first" else pixels

    # A validation set that is requested together with a training set keeps its order.
    made = [
        _dataset(part, read, label_of, batch_size, seed if shuffle and k == 0 else None)
        for k, part in enumerate(parts)
    ]
    return made if len(made) > 1 else made[0]


def _labelling(files: Files, mode: str | None) -> Callable[[int], Any] | None:
    """Return the function from the number of a class to the label, None without labels."""
    count = len(files.class_names)
    if files.labels is None:
        return None
    if mode == "binary":
        if count != 2:
            raise ArgumentError(
                f"label_mode='binary' needs 2 classes. Got {count}: {files.class_names}."
            )
        return lambda label: np.array([label], np.float32)
    if mode == "categorical":
        return lambda label: (np.arange(count) == label).astype(np.float32)
    return lambda label: np.array(label, np.int32)


def _dataset(
    files: Files,
    read: Callable[[str], Any],
    label_of: Callable[[int], Any] | None,
    batch_size: int | None,
    seed: int | None,
) -> Dataset:
    def load(number: Any) -> Any:
        place = int(number)
        image = read(files.paths[place])
        if label_of is None or files.labels is None:
            return image
        return image, label_of(files.labels[place])

    # Numbers are shuffled, and not images: the buffer holds all of them.
    dataset = Dataset.range(len(files.paths))
    if seed is not None:
        dataset = dataset.shuffle(len(files.paths), seed)
    dataset = dataset.map(load, num_parallel_calls=AUTOTUNE)
    if batch_size is not None:
        dataset = dataset.batch(batch_size)
    dataset = dataset.prefetch(AUTOTUNE)
    noted: Any = dataset
    noted.class_names, noted.file_paths = files.class_names, files.paths
    return dataset


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


def _report(files: Files, parts: list[Files], subset: str | None) -> None:
    classes = "" if files.labels is None else f" belonging to {len(files.class_names)} classes"
    say(f"Found {len(files.paths)} files{classes}.")
    names = ("training", "validation") if subset == "both" else (subset,)
    for name, part in zip(names, parts):
        if subset is not None:
            say(f"Using {len(part.paths)} files for {name}.")
