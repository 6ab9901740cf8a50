"""audio_dataset_from_directory: a dataset of the WAV files in a directory."""

from __future__ import annotations

from typing import Any

from tapegrad.audio import decode_wav
from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.io.paths import named_errors
from tapegrad.keras.utils.directory_dataset import LABEL_MODES, datasets_of
from tapegrad.keras.utils.directory_index import check_parts, indexed


def audio_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Any = None,
    batch_size: int | None = 32,
    sampling_rate: int | None = None,
    output_sequence_length: int | None = None,
    ragged: bool = False,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Make a dataset of the .wav files of a directory, labelled by their subdirectories.

    Elements are sounds of shape (samples, channels). They are cut or padded to
    `output_sequence_length`; without it, batches are padded, or ragged. The dataset has the
    attributes `class_names` and `file_paths`. `subset="both"` returns two datasets.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from tapegrad.audio import encode_wav
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("no", "yes"):
    ...         os.mkdir(os.path.join(folder, name))
    ...         with open(os.path.join(folder, name, "0.wav"), "wb") as file:
    ...             _ = file.write(encode_wav(np.zeros([len(name), 1], "float32"), 8000))
    ...     data = audio_dataset_from_directory(folder, shuffle=False, verbose=False)
    ...     [(x.shape, y.tolist()) for x, y in data]
    [((2, 3, 1), [0, 1])]
    """
    check_choice("label_mode", label_mode, LABEL_MODES)
    check_parts(validation_split, subset, shuffle, seed)
    if sampling_rate is not None:
        raise ArgumentError(
            "audio_dataset_from_directory keeps the rate of the files. Leave sampling_rate out and "
            "resample in a map, e.g. with scipy.signal.resample."
        )
    if ragged and output_sequence_length is not None:
        raise ArgumentError("Sounds of one output_sequence_length need no ragged=True.")
    labels = None if label_mode is None else labels
    files = indexed(directory, labels, (".wav",), class_names, follow_links, "audio files")

    def read(path: str) -> Any:
        with named_errors(path, "audio_dataset_from_directory"), open(path, "rb") as file:
            return decode_wav(file.read(), desired_samples=output_sequence_length or -1).audio

    def batched(dataset: Any) -> Any:
        if output_sequence_length is not None:
            return dataset.batch(batch_size)
        return dataset.ragged_batch(batch_size) if ragged else dataset.padded_batch(batch_size)

    return datasets_of(
        files,
        read,
        label_mode=label_mode,
        batch=None if batch_size is None else batched,
        shuffle=shuffle,
        seed=seed,
        validation_split=validation_split,
        subset=subset,
        verbose=verbose,
    )
