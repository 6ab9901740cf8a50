"""text_dataset_from_directory: a dataset of the text files in a directory."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.io.paths import named_errors
from tapegrad.keras.utils.directory_dataset import LABEL_MODES, datasets_of, in_batches
from tapegrad.keras.utils.directory_index import check_parts, indexed


def text_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    format: str = "tf",
    verbose: bool = True,
) -> Any:
    """Make a dataset of the .txt files of a directory, labelled by their subdirectories.

    Elements are string tensors, cut to `max_length` bytes. The dataset has the attributes
    `class_names` and `file_paths`. `subset="both"` returns two datasets.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("bad", "good"):
    ...         os.mkdir(os.path.join(folder, name))
    ...         with open(os.path.join(folder, name, "1.txt"), "w") as file:
    ...             _ = file.write(f"a {name} film")
    ...     data = text_dataset_from_directory(folder, shuffle=False, verbose=False)
    ...     [(x.tolist(), y.tolist()) for x, y in data]
    [([b'a bad film', b'a good film'], [0, 1])]
    """
    check_choice("label_mode", label_mode, LABEL_MODES)
    check_choice("format", format, ("tf",))
    check_parts(validation_split, subset, shuffle, seed)
    labels = None if label_mode is None else labels
    files = indexed(directory, labels, (".txt",), class_names, follow_links, "text files")

    def read(path: str) -> bytes:
        with named_errors(path, "text_dataset_from_directory"), open(path, "rb") as file:
            return file.read() if max_length is None else file.read()[:max_length]

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
