"""How a sequence of values is divided into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.ragged.tensor import RaggedTensor
from tapegrad.sparse.tensor import as_tensor


class RowPartition:
    """The bounds of rows in a sequence of values.

    >>> rows = RowPartition.from_row_lengths([2, 0, 3])
    >>> rows.row_splits().tolist(), rows.value_rowids().tolist()
    ([0, 2, 2, 5], [0, 0, 2, 2, 2])
    """

    def __init__(self, splits: np.ndarray, uniform_row_length: int | None = None) -> None:
        self._splits = splits
        self._uniform = uniform_row_length

    @classmethod
    def from_row_splits(
        cls, row_splits: Any, validate: bool = True, dtype: Any = None, name: str | None = None
    ) -> RowPartition:
        """Return the partition with the given bounds, the first of which is 0.

        >>> int(RowPartition.from_row_splits([0, 2, 5]).nrows())
        2
        """
        count = np.asarray(row_splits).reshape(-1)[-1:]
        values = np.zeros(int(count[0]) if count.size else 0, np.int8)
        return cls(RaggedTensor.from_row_splits(values, row_splits).all_splits()[0])

    @classmethod
    def from_row_lengths(
        cls, row_lengths: Any, validate: bool = True, dtype: Any = None, name: str | None = None
    ) -> RowPartition:
        """Return the partition into rows of the given lengths.

        >>> int(RowPartition.from_row_lengths([2, 3]).nvals())
        5
        """
        values = np.zeros(int(np.asarray(row_lengths).sum()), np.int8)
        return cls(RaggedTensor.from_row_lengths(values, row_lengths).all_splits()[0])

    @classmethod
    def from_row_starts(
        cls, row_starts: Any, nvals: Any, validate: bool = True, name: str | None = None
    ) -> RowPartition:
        """Return the partition with rows that begin at the given places.

        >>> RowPartition.from_row_starts([0, 2], nvals=5).row_lengths().tolist()
        [2, 3]
        """
        values = np.zeros(int(nvals), np.int8)
        return cls(RaggedTensor.from_row_starts(values, row_starts).all_splits()[0])

    @classmethod
    def from_row_limits(
        cls, row_limits: Any, validate: bool = True, dtype: Any = None, name: str | None = None
    ) -> RowPartition:
        """Return the partition with rows that end before the given places.

        >>> RowPartition.from_row_limits([2, 5]).row_lengths().tolist()
        [2, 3]
        """
        return cls.from_row_splits(np.concatenate([[0], np.asarray(row_limits)]))

    @classmethod
    def from_value_rowids(
        cls, value_rowids: Any, nrows: Any = None, validate: bool = True, name: str | None = None
    ) -> RowPartition:
        """Return the partition in which each value is in the row of the given number.

        >>> RowPartition.from_value_rowids([0, 0, 2], nrows=4).row_lengths().tolist()
        [2, 0, 1, 0]
        """
        rows = np.asarray(value_rowids)
        found = RaggedTensor.from_value_rowids(np.zeros(len(rows), np.int8), rows, nrows)
        return cls(found.all_splits()[0])

    @classmethod
    def from_uniform_row_length(
        cls, uniform_row_length: Any, nvals: Any = None, nrows: Any = None, **others: Any
    ) -> RowPartition:
        """Return the partition into rows of one length.

        >>> RowPartition.from_uniform_row_length(2, nvals=6).row_splits().tolist()
        [0, 2, 4, 6]
        """
        length = int(uniform_row_length)
        count = int(nrows) if nrows is not None else int(nvals) // length
        return cls(np.arange(count + 1, dtype=np.int64) * length, length)

    @property
    def dtype(self) -> Any:
        return as_dtype("int64")

    @property
    def static_nrows(self) -> int:
        return len(self._splits) - 1

    @property
    def static_nvals(self) -> int:
        return int(self._splits[-1])

    @property
    def static_uniform_row_length(self) -> int | None:
        return self._uniform

    def is_uniform(self) -> bool:
        """Return whether the partition was made with one length for all rows."""
        return self._uniform is not None

    def splits(self) -> np.ndarray:
        """Return the bounds of the rows as a NumPy array."""
        return self._splits

    def nrows(self) -> Any:
        """Return the number of rows, as a tensor."""
        return as_tensor(np.asarray(self.static_nrows, np.int64))

    def nvals(self) -> Any:
        """Return the number of values, as a tensor."""
        return as_tensor(np.asarray(self.static_nvals, np.int64))

    def row_splits(self) -> Any:
        """Return the bounds of the rows."""
        return as_tensor(self._splits)

    def row_lengths(self) -> Any:
        """Return the lengths of the rows."""
        return as_tensor(np.diff(self._splits))

    def row_starts(self) -> Any:
        """Return where the rows begin."""
        return as_tensor(self._splits[:-1])

    def row_limits(self) -> Any:
        """Return where the rows end."""
        return as_tensor(self._splits[1:])

    def uniform_row_length(self) -> Any:
        """Return the length of all rows as a tensor, or None if the rows may differ."""
        return None if self._uniform is None else as_tensor(np.asarray(self._uniform, np.int64))

    def value_rowids(self) -> Any:
        """Return the number of the row of each value."""
        return as_tensor(np.repeat(np.arange(self.static_nrows), np.diff(self._splits)))

    def offsets_in_rows(self) -> Any:
        """Return the place of each value in its row."""
        starts = np.repeat(self._splits[:-1], np.diff(self._splits))
        return as_tensor(np.arange(self.static_nvals) - starts)

    def __repr__(self) -> str:
        if self._uniform is None:
            return f"tapegrad.RowPartition(row_splits={self._splits})"
        return f"tapegrad.RowPartition(nrows={self.static_nrows}, row_length={self._uniform})"
