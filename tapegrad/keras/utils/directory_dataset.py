"""What datasets of files in directories share: labels, order, batches and reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.data.constants import AUTOTUNE
from tapegrad.data.dataset import Dataset
from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.logs import say
from tapegrad.keras.utils.directory_index import Files

LABEL_MODES = ("int", "categorical", "binary", None)


def labelling(files: Files, mode: str | None) -> Callable[[int], Any] | None:
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


def dataset_of(
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


def report(files: Files, parts: list[Files], subset: str | None) -> None:
    classes = "" if files.labels is None else f" belonging to {len(files.class_names)} classes"
    say(f"Found {len(files.paths)} files{classes}.")
    names = ("training", "validation") if subset == "both" else (subset,)
    for name, part in zip(names, parts):
        if subset is not None:
            say(f"Using {len(part.paths)} files for {name}.")
