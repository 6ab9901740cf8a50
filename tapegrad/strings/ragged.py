"""Ragged: rows of different lengths, as functions of text return them.

Ragged tensors are not supported otherwise; `to_tensor` pads the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import host
from tapegrad.core.values.strings import StringTensor, is_text, text_array
from tapegrad.core.values.tensor import wrap
from tapegrad.errors import ArgumentError


def as_tensor(array: np.ndarray) -> Any:
    """Return a host array of numbers or of bytes objects as a tensor.

    >>> as_tensor(np.array([b"a"], object)).dtype.name
    'string'
    """
    return StringTensor(array) if array.dtype.kind == "O" else wrap(host.place(array))


class Ragged:
    """Rows of different lengths, with the names of TensorFlow's RaggedTensor.

    >>> rows = Ragged.from_rows([[b"a", b"b"], [b"c"]])
    >>> rows.to_list(), rows.to_tensor().tolist()
    ([[b'a', b'b'], [b'c']], [[b'a', b'b'], [b'c', b'']])
    """

    def __init__(self, flat: np.ndarray, lengths: Sequence[int]) -> None:
        self._flat, self._lengths = flat, [int(n) for n in lengths]

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]], dtype: Any = object) -> Ragged:
        """Return rows of bytes, or of numbers if a dtype is given.

        >>> Ragged.from_rows([[1], []], np.int32).row_lengths().tolist()
        [1, 0]
        """
        items = [item for row in rows for item in row]
        flat = np.empty(len(items), dtype)
        flat[:] = items
        return cls(flat, [len(row) for row in rows])

    @property
    def flat_values(self) -> Any:
        """The elements of all rows as one tensor."""
        return as_tensor(self._flat)

    values = flat_values

    @property
    def dtype(self) -> Any:
        return self.flat_values.dtype

    @property
    def shape(self) -> tuple[int, None]:
        """The number of rows, and None for their lengths."""
        return (len(self._lengths), None)

    @property
    def row_splits(self) -> Any:
        """Where rows begin in `values`, and the end of the last one."""
        return as_tensor(np.cumsum([0, *self._lengths]).astype(np.int64))

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return the length of each row."""
        return as_tensor(np.array(self._lengths, np.int64))

    def nrows(self, out_type: Any = None, name: str | None = None) -> Any:
        """Return the number of rows."""
        return as_tensor(np.array(len(self._lengths), np.int64))

    def bounding_shape(self) -> Any:
        """Return the shape of `to_tensor()`."""
        return as_tensor(np.array([len(self._lengths), max(self._lengths, default=0)], np.int64))

    def rows(self) -> list[np.ndarray]:
        """Return the rows as NumPy arrays."""
        return np.split(self._flat, np.cumsum(self._lengths)[:-1]) if self._lengths else []

    def to_list(self) -> list[list[Any]]:
        """Return the rows as lists of Python values."""
        return [row.tolist() for row in self.rows()]

    def numpy(self) -> np.ndarray:
        """Return an array of objects, each the array of a row."""
        found = np.empty(len(self._lengths), object)
        for place, row in enumerate(self.rows()):
            found[place] = row
        return found

    def to_tensor(
        self, default_value: Any = None, name: str | None = None, shape: Any = None
    ) -> Any:
        """Return the rows padded at their ends, and cut if `shape` gives a shorter length."""
        longest = max(self._lengths, default=0)
        wanted = (None, None) if shape is None else tuple(shape)
        if len(wanted) != 2 or wanted[0] not in (None, -1, len(self._lengths)):
            raise ArgumentError(
                f"shape must be (None, length), with {len(self._lengths)} rows. Got {shape}."
            )
        length = longest if wanted[1] in (None, -1) else int(wanted[1])
        is_of_text = self._flat.dtype.kind == "O"
        fill = 0 if default_value is None else default_value
        if is_of_text:
            fill = text_array(fill if is_text(fill) else b"").item()
        found = np.full((len(self._lengths), length), fill, self._flat.dtype)
        for place, row in enumerate(self.rows()):
            found[place, : len(row)] = row[:length]
        return as_tensor(found)

    def with_flat_values(self, new_values: Any) -> Ragged:
        """Return rows of the same lengths with other elements."""
        return Ragged(np.asarray(new_values), self._lengths)

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Return all elements as one tensor, for the axes 0 and 1."""
        if (outer_axis, inner_axis % 2) != (0, 1):
            raise ArgumentError(f"merge_dims takes 0 and 1. Got {outer_axis} and {inner_axis}.")
        return self.flat_values

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[Any]:
        return iter([as_tensor(row) for row in self.rows()])

    def __getitem__(self, index: Any) -> Any:
        """Return a row, some rows, or with two indices an element or parts of rows."""
        first, *rest = index if isinstance(index, tuple) else (index,)
        rows = self.rows()
        if not isinstance(first, slice):
            row = rows[int(first)]
            found = row[rest[0]] if rest else row
            return as_tensor(np.asarray(found, self._flat.dtype))
        kept = [row[rest[0]] if rest else row for row in rows[first]]
        if rest and not isinstance(rest[0], slice):
            column = np.empty(len(kept), self._flat.dtype)
            column[:] = kept
            return as_tensor(column)
        flat = np.concatenate([self._flat[:0], *kept])
        return Ragged(flat, [len(row) for row in kept])

    def __repr__(self) -> str:
        return f"<tapegrad.strings.Ragged {self.to_list()}>"


def mapped(function: Callable[[np.ndarray], np.ndarray], value: Any) -> Any:
    """Apply a function of an array of bytes to text, or to the elements of ragged rows.

    >>> mapped(lambda texts: texts + b"!", ["a"]).tolist()
    [b'a!']
    """
    if isinstance(value, Ragged):
        return value.with_flat_values(function(text_array(value.flat_values)))
    return as_tensor(np.asarray(function(text_array(value))))
