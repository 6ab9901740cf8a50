"""Arrays of text as inputs of a model: Keras slices arrays of numbers only, datasets slice both."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.trainers.epoch_iterator import EpochIterator

from tapegrad.core.values import nest
from tapegrad.core.values.strings import StringTensor
from tapegrad.data.dataset import Dataset

_DEFAULT_BATCH = 32
"""The examples of a batch where none are chosen, as in Keras."""


def epoch_iterator(
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    **more: Any,
) -> Any:
    """Return Keras' iterator over batches; arrays with text among them become a dataset first."""
    if _has_text(x):
        x = _in_batches(x, y, sample_weight, batch_size or _DEFAULT_BATCH, shuffle)
        y = sample_weight = batch_size = None
    return EpochIterator(
        x=x, y=y, sample_weight=sample_weight, batch_size=batch_size, shuffle=shuffle, **more
    )


def _has_text(x: Any) -> bool:
    return any(
        isinstance(leaf, StringTensor)
        or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "OSU")
        for leaf in nest.flatten(x)
    )


def _in_batches(x: Any, y: Any, sample_weight: Any, batch_size: int, shuffle: bool) -> Dataset:
    # Lists are several inputs for Keras, and one array for datasets.
    inputs = tuple(x) if isinstance(x, list) else x
    given = (inputs,) if y is None else (inputs, y)
    rows = Dataset.from_tensor_slices(given if sample_weight is None else (*given, sample_weight))
    if shuffle:
        rows = rows.shuffle(max(1, int(rows.cardinality())))
    return rows.batch(batch_size)
