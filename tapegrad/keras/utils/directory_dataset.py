"""What datasets of files in directories share: labels, order, batches and reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.data.constants import AUTOTUNE
from tapegrad.data.dataset import Dataset
from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.logs import say
from tapegrad.keras.utils.directory_index import Files, parts_of

LABEL_MODES = ("int", "categorical", "binary", None)


def datasets_of(
    files: Files,
    read: Callable[[str], Any],
    *,
    label_mode: str | None,
    batch: Callable[[Dataset], Dataset] | None,
    shuffle: bool,
    seed: int | None,
    validation_split: float | None,
    subset: str | None,
    verbose: bool,
) -> Any:
    """Return the dataset of a subset of the files, or a list of two for `subset="both"`.

    A validation set that is requested together with a training set keeps its order.
    """
    label_of = _labelling(files, label_mode)
    if shuffle:
        seed = int(np.random.default_rng().integers(1_000_000)) if seed is None else seed
        files = files.shuffled(seed)
    parts = parts_of(files, validation_split, subset)
    if verbose:
        _report(files, parts, subset)
    made = [
        _dataset_of(part, read, label_of, batch, seed if shuffle and k == 0 else None)
        for k, part in enumerate(parts)
    ]
    return made if len(made) > 1 else made[0]


def in_batches(size: int | None) -> Callable[[Dataset], Dataset] | None:
    """Return the function that makes batches of equal elements, None for single elements."""
    return None if size is None else lambda dataset: dataset.batch(size)


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


def _dataset_of(
    files: Files,
    read: Callable[[str], Any],
    label_of: Callable[[int], Any] | None,
    batch: Callable[[Dataset], Dataset] | None,
    seed: int | None,
) -> Dataset:
    def load(number: Any) -> Any:
        place = int(number)
        value = read(files.paths[place])
        if label_of is None or files.labels is None:
            return value
        return value, label_of(files.labels[place])

    # Numbers are shuffled, and not contents: the buffer holds all of them.
    dataset = Dataset.range(len(files.paths))
    if seed is not None:
        dataset = dataset.shuffle(len(files.paths), seed)
    dataset = dataset.map(load, num_parallel_calls=AUTOTUNE)
    if batch is not None:
        dataset = batch(dataset)
    dataset = dataset.prefetch(AUTOTUNE)
    noted: Any = dataset
    noted.class_names, noted.file_paths = files.class_names, files.paths
    return dataset


def _report(files: Files, parts: list[Files], subset: str | None) -> None:
    classes = "" if files.labels is None else f" belonging to {len(files.class_names)} classes"
    say(f"Found {len(files.paths)} files{classes}.")
    names = ("training", "validation") if subset == "both" else (subset,)
    for name, part in zip(names, parts):
        if subset is not None:
            say(f"Using {len(part.paths)} files for {name}.")
