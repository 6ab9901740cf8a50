"""Array helpers: one-hot encoding, normalization, padding of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.creation import one_hot
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.linalg.norms import vector_norm
from tapegrad.ops.reduction.primitives import max as largest
from tapegrad.ops.shape.functions import reshape

_ENDS = ("pre", "post")


def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """Return the one-hot encoding of class numbers along a new last axis.

    A last axis of length one is dropped. The default of `num_classes` is the largest number plus
    one. Tensors give tensors, other values NumPy arrays.

    >>> to_categorical([0, 2]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if isinstance(x, Tensor | Variable):
        if len(x.shape) > 1 and x.shape[-1] == 1:
            x = reshape(x, x.shape[:-1])
        return one_hot(x, int(largest(x)) + 1 if num_classes is None else num_classes)
    classes = np.asarray(x)
    if classes.dtype.kind not in "biuf" or (classes != np.floor(classes)).any():
        raise ArgumentTypeError(
            f"to_categorical takes integer class numbers. Got {classes.dtype}: {x!r}."
        )
    classes = classes.astype(np.int64)
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes[..., 0]
    count = int(classes.max(initial=-1)) + 1 if num_classes is None else num_classes
    if classes.size and (classes.min() < 0 or classes.max() >= count):
        raise ArgumentError(
            f"With {count} classes, class numbers must be from 0 to {count - 1}. "
            f"Got {classes.min()} to {classes.max()}."
        )
    return (classes[..., None] == np.arange(count)).astype(np.float64)


def normalize(x: Any, axis: int = -1, order: Any = 2) -> Any:
    """Divide by the norm along an axis, so that the result has norm 1; zeros stay zeros.

    Tensors give tensors, other values NumPy arrays.

    >>> import numpy as np
    >>> normalize(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if isinstance(x, Tensor | Variable):
        return divide_no_nan(x, vector_norm(x, order, axis, keepdims=True))
    array = np.asarray(x)
    size = np.linalg.norm(array, order, axis, keepdims=True)
    return array / np.where(size == 0, 1, size)


def pad_sequences(
    sequences: Any,
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> Any:
    """Return sequences of different lengths as the rows of one NumPy array.

    Short sequences are padded with `value`, and long ones are truncated to `maxlen`, by default the
    length of the longest. Both happen at the beginning ("pre") or at the end ("post").

    >>> pad_sequences([[1], [2, 3], [4, 5, 6]], maxlen=2).tolist()
    [[0, 1], [2, 3], [5, 6]]
    """
    for name, end in (("padding", padding), ("truncating", truncating)):
        if end not in _ENDS:
            raise ArgumentError(f"{name} must be 'pre' or 'post'. Got {end!r}.")
    if isinstance(value, str) and np.dtype(dtype).kind in "biufc":
        raise ArgumentTypeError(
            f"Numbers ({np.dtype(dtype)}) cannot be padded with the string {value!r}. For strings "
            "pass dtype=object."
        )
    rows = [_row(sequence) for sequence in sequences]
    length = max(map(len, rows), default=0) if maxlen is None else maxlen
    shape = next((np.shape(row)[1:] for row in rows if len(row)), ())
    found = np.full((len(rows), length, *shape), value, dtype)
    for number, row in enumerate(rows):
        kept = np.asarray(row[max(0, len(row) - length) :] if truncating == "pre" else row[:length])
        if len(kept) and kept.shape[1:] != shape:
            raise ShapeError(
                f"The entries of all sequences must have the same shape, here {shape}. Sequence "
                f"{number} has entries of shape {kept.shape[1:]}."
            )
        start = length - len(kept) if padding == "pre" else 0
        if len(kept):
            found[number, start : start + len(kept)] = kept
    return found


def _row(sequence: Any) -> Sequence[Any]:
    if isinstance(sequence, Tensor | Variable):
        sequence = sequence.numpy()
    if not hasattr(sequence, "__len__") or not hasattr(sequence, "__getitem__"):
        raise ArgumentTypeError(
            "pad_sequences takes a list of sequences, such as [[1, 2], [3]]. "
            f"Got an entry of type {type(sequence).__name__}: {sequence!r}."
        )
    row: Sequence[Any] = sequence
    return row
