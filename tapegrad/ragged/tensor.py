"""RaggedTensor: rows of different lengths, as one tensor of values and the places of the rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import StringTensor, is_text, string_tensor, text_array
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError, ShapeError
from tapegrad.ops.creation import constant
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.shape.functions import reshape
from tapegrad.sparse.tensor import SparseTensor, as_tensor

HANDLERS: dict[str, Callable[..., Any]] = {}
"""Functions of tapegrad with a special treatment of ragged tensors, by name."""

_ELEMENTWISE = ("tapegrad.ops.elementwise", "tapegrad.ops.cast")
_ALSO_ELEMENTWISE = ("dropout", "identity", "one_hot", "ones_like", "stop_gradient", "zeros_like")


class RaggedTensor:
    """Rows of different lengths, which may have rows themselves.

    `values` are the entries of all rows, a tensor or another ragged tensor. Row k is
    `values[row_splits[k]:row_splits[k + 1]]`. Gradients reach the values.

    >>> rows = RaggedTensor.from_row_lengths([3, 1, 4], [2, 0, 1])
    >>> rows.to_list(), rows.shape
    ([[3, 1], [], [4]], (3, None))
    >>> (2 * rows).to_tensor().tolist()
    [[6, 2], [0, 0], [8, 0]]
    """

    __slots__ = ("__weakref__", "_splits", "values")
    __array_priority__ = 200
    __hash__ = None  # type: ignore[assignment]  # `==` is elementwise, so hashing would mislead

    def __init__(self, values: Any, row_splits: np.ndarray) -> None:
        self.values, self._splits = values, row_splits

    # Creation

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return rows that begin at `row_splits`, whose last entry is the end of the last row."""
        found = _as_values(values)
        splits = _whole_numbers(row_splits, "row_splits")
        ends = (int(splits[0]), int(splits[-1])) if len(splits) else (-1, -1)
        if ends != (0, len(found)) or (np.diff(splits) < 0).any():
            raise ArgumentError(
                f"row_splits must rise from 0 to the number of values, {len(found)}. Got "
                f"{splits.tolist()}."
            )
        return cls(found, splits)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return rows of these lengths."""
        lengths = _whole_numbers(row_lengths, "row_lengths")
        return cls.from_row_splits(values, np.cumsum([0, *lengths.tolist()]))

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return rows that begin at `row_starts`."""
        starts, found = _whole_numbers(row_starts, "row_starts"), _as_values(values)
        return cls.from_row_splits(found, [*starts.tolist(), len(found)])

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Return rows that end before `row_limits`."""
        return cls.from_row_splits(values, [0, *_whole_numbers(row_limits, "row_limits").tolist()])

    @classmethod
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: Any,
        nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Return rows from the number of the row of each value; the numbers must not fall."""
        ids = _whole_numbers(value_rowids, "value_rowids")
        if (np.diff(ids) < 0).any():
            raise ArgumentError(f"value_rowids must not fall. Got {ids.tolist()}.")
        count = int(ids[-1]) + 1 if len(ids) and nrows is None else int(nrows or 0)
        return cls.from_row_lengths(values, np.bincount(ids, minlength=count))

    @classmethod
    def from_uniform_row_length(
        cls,
        values: Any,
        uniform_row_length: Any,
        nrows: Any = None,
        validate: bool = True,
        name: str | None = None,
    ) -> RaggedTensor:
        """Return rows of one length."""
        found, length = _as_values(values), int(uniform_row_length)
        count = len(found) // length if length else int(nrows or 0)
        return cls.from_row_splits(found, np.arange(count + 1) * length)

    @classmethod
    def from_nested_row_splits(
        cls,
        flat_values: Any,
        nested_row_splits: Sequence[Any],
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Return rows of rows from the splits of all levels, the outermost first."""
        found = flat_values
        for splits in reversed(list(nested_row_splits)):
            found = cls.from_row_splits(found, splits)
        return found

    @classmethod
    def from_nested_row_lengths(
        cls,
        flat_values: Any,
        nested_row_lengths: Sequence[Any],
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Return rows of rows from the lengths of all levels, the outermost first."""
        found = flat_values
        for lengths in reversed(list(nested_row_lengths)):
            found = cls.from_row_lengths(found, lengths)
        return found

    @classmethod
    def from_tensor(
        cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1
    ) -> RaggedTensor:
        """Return the rows of a tensor, cut to `lengths` or without `padding` at their ends."""
        x = _as_values(tensor)
        if padding is not None:
            filled = np.asarray(x.numpy() != _plain(padding))
            lengths = [int(np.max(np.nonzero(row)[0], initial=-1)) + 1 for row in filled]
        count, width, *rest = x.shape
        cut = np.full(count, width) if lengths is None else _whole_numbers(lengths, "lengths")
        places = [k * width + i for k, n in enumerate(np.minimum(cut, width)) for i in range(n)]
        flat = reshape(x, (count * width, *rest))
        inner: Any = gather(flat, np.array(places, np.int64)) if lengths is not None else flat
        if ragged_rank > 1:
            inner = cls.from_tensor(inner, ragged_rank=ragged_rank - 1)
        return cls.from_row_lengths(inner, np.minimum(cut, width))

    @classmethod
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: Any = None
    ) -> RaggedTensor:
        """Return the rows of a sparse matrix whose entries begin at the first column."""
        return cls.from_value_rowids(st_input.values, st_input.places()[:, 0], st_input.shape[0])

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]], dtype: Any = object) -> RaggedTensor:
        """Return rows of bytes, or of numbers if a dtype is given.

        >>> RaggedTensor.from_rows([[1], []], np.int32).row_lengths().tolist()
        [1, 0]
        """
        items = [item for row in rows for item in row]
        flat = np.empty(len(items), dtype)
        flat[:] = items
        return cls.from_row_lengths(as_tensor(flat), [len(row) for row in rows])

    # Parts

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The number of rows, None for their lengths, and the shape of the entries."""
        sizes: list[Any] = [len(self), None, *tuple(self.values.shape)[1:]]
        return TensorShape(sizes)

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """The number of axes of different lengths, up to the last one."""
        return 1 + (self.values.ragged_rank if isinstance(self.values, RaggedTensor) else 0)

    @property
    def flat_values(self) -> Any:
        """The entries of the innermost rows as one tensor."""
        inner = self.values
        return inner.flat_values if isinstance(inner, RaggedTensor) else inner

    @property
    def row_splits(self) -> Any:
        """Where rows begin in `values`, and the end of the last one."""
        return as_tensor(self._splits)

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The splits of all levels, the outermost first."""
        return tuple(as_tensor(splits) for splits in self.all_splits())

    def all_splits(self) -> list[np.ndarray]:
        """Return the splits of all levels as NumPy arrays."""
        inner = self.values.all_splits() if isinstance(self.values, RaggedTensor) else []
        return [self._splits, *inner]

    def lengths(self) -> np.ndarray:
        """Return the length of each row as a NumPy array."""
        return np.diff(self._splits)

    def rowids(self) -> np.ndarray:
        """Return the number of the row of each value as a NumPy array."""
        return np.repeat(np.arange(len(self)), self.lengths())

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return the length of each row, or of the inner rows for `axis=2`."""
        if axis > 1:
            return self.with_values(self.values.row_lengths(axis - 1))
        return as_tensor(self.lengths())

    def nested_row_lengths(self, name: str | None = None) -> tuple[Any, ...]:
        """Return the lengths of the rows of all levels, the outermost first."""
        return tuple(as_tensor(np.diff(splits)) for splits in self.all_splits())

    def value_rowids(self, name: str | None = None) -> Any:
        """Return the number of the row of each value."""
        return as_tensor(self.rowids())

    def row_starts(self, name: str | None = None) -> Any:
        """Return where rows begin."""
        return as_tensor(self._splits[:-1])

    def row_limits(self, name: str | None = None) -> Any:
        """Return where rows end."""
        return as_tensor(self._splits[1:])

    def nrows(self, out_type: Any = None, name: str | None = None) -> Any:
        """Return the number of rows."""
        return as_tensor(np.array(len(self), np.int64))

    def bounding_shape(
        self, axis: Any = None, name: str | None = None, out_type: Any = None
    ) -> Any:
        """Return the shape of `to_tensor()`, or its length along one axis."""
        found = np.array(self.bounds(), np.int64)
        return as_tensor(found if axis is None else np.asarray(found[axis]))

    def bounds(self) -> list[int]:
        """Return the shape of `to_tensor()` as a list."""
        longest = int(self.lengths().max(initial=0))
        inner = self.values
        rest = inner.bounds() if isinstance(inner, RaggedTensor) else list(inner.shape)
        return [len(self), longest, *rest[1:]]

    # Values

    def to_list(self) -> list[Any]:
        """Return the rows as lists of Python values."""
        items = self.values.to_list() if isinstance(self.values, RaggedTensor) else (
            self.values.tolist()
        )  # fmt: skip
        return [items[a:b] for a, b in zip(self._splits[:-1], self._splits[1:])]

    def numpy(self) -> np.ndarray:
        """Return an array of objects, each the array of a row."""
        items = self.values.numpy()
        found = np.empty(len(self), object)
        for place, (a, b) in enumerate(zip(self._splits[:-1], self._splits[1:])):
            found[place] = items[a:b]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy()

    def to_tensor(
        self, default_value: Any = None, name: str | None = None, shape: Any = None
    ) -> Any:
        """Return the rows padded at their ends, and cut if `shape` gives a shorter length."""
        bounds = self.bounds()
        if shape is not None:
            bounds = self._chosen_bounds(bounds, shape)
        inner = self.values
        if isinstance(inner, RaggedTensor):
            inner = inner.to_tensor(default_value, shape=[None, *bounds[2:]])
        count, width = bounds[:2]
        starts, lengths = self._splits[:-1, None], self.lengths()[:, None]
        columns = np.arange(width)[None]
        is_inside = columns < lengths
        places = np.where(is_inside, starts + columns, 0)
        if isinstance(inner, StringTensor):
            fill = text_array(default_value if is_text(default_value) else b"").item()
            texts = np.full((count, width, *inner.shape[1:]), fill, object)
            texts[is_inside] = inner.array[places[is_inside]]
            return string_tensor(texts)
        fill = constant(0 if default_value is None else default_value, inner.dtype)
        if not len(inner):
            return _broadcast(fill, (count, width, *inner.shape[1:]))
        mask = is_inside.reshape(*is_inside.shape, *[1] * (len(inner.shape) - 1))
        return where(constant(mask), gather(inner, places), fill)

    def _chosen_bounds(self, bounds: list[int], shape: Any) -> list[int]:
        wanted = [None if n in (None, -1) else int(n) for n in shape]
        if len(wanted) != len(bounds) or wanted[0] not in (None, bounds[0]):
            raise ArgumentError(
                f"shape must be (None, length), with {bounds[0]} rows. Got {shape}."
                if len(bounds) == 2
                else f"shape must have {len(bounds)} entries, with {bounds[0]} rows. Got {shape}."
            )
        return [n if w is None else w for n, w in zip(bounds, wanted)]

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Return a sparse tensor with the entries of each row at its beginning."""
        columns: list[np.ndarray] = []
        ids = np.arange(int(self.all_splits()[-1][-1]))
        for splits in reversed(self.all_splits()):
            row = np.searchsorted(splits, ids, side="right") - 1
            columns.insert(0, ids - splits[row])
            ids = row
        return SparseTensor(np.stack([ids, *columns], axis=1), self.flat_values, self.bounds())

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Return rows of the same lengths with other values."""
        found = _as_values(new_values)
        if len(found) != self._splits[-1]:
            raise ShapeError(f"The rows have {self._splits[-1]} values. Got {len(found)}.")
        return RaggedTensor(found, self._splits)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Return rows of the same lengths on all levels with other elements."""
        inner = self.values
        return self.with_values(
            inner.with_flat_values(new_values) if isinstance(inner, RaggedTensor) else new_values
        )

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Return the entries of the axes from `outer_axis` to `inner_axis` along one axis."""
        rank = len(self.shape)
        outer = normalize_axis(outer_axis, rank, "merge_dims")
        inner = normalize_axis(inner_axis, rank, "merge_dims")
        if inner < outer:
            raise ArgumentError(
                f"merge_dims needs outer_axis before inner_axis. Got {outer_axis} and {inner_axis}."
            )
        if outer > 0:
            return self.with_values(self.values.merge_dims(outer - 1, inner - 1))
        found: Any = self
        for _ in range(inner):
            if not isinstance(found, RaggedTensor):
                found = reshape(found, (-1, *found.shape[2:]))
            else:
                found = found.values
        return found

    # Rows

    def __len__(self) -> int:
        return len(self._splits) - 1

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])

    def rows_at(self, rows: np.ndarray) -> RaggedTensor:
        """Return the rows at these places."""
        starts, lengths = self._splits[:-1][rows], self.lengths()[rows]
        splits = np.cumsum([0, *lengths.tolist()])
        places = np.arange(splits[-1]) + np.repeat(starts - splits[:-1], lengths)
        inner = self.values
        chosen = inner.rows_at(places) if isinstance(inner, RaggedTensor) else gather(inner, places)
        return RaggedTensor(chosen, splits)

    def __getitem__(self, index: Any) -> Any:
        """Return a row, some rows, or with more indices elements or parts of rows."""
        first, *rest = index if isinstance(index, tuple) else (index,)
        if first is Ellipsis:
            first, rest = slice(None), [Ellipsis, *rest] if len(rest) < 1 else rest
        rest = [one for one in rest if one is not Ellipsis]
        if isinstance(first, slice):
            found = self.rows_at(np.arange(len(self))[first])
            return found._within(rest) if rest else found
        place = operator.index(_plain(first))
        if not -len(self) <= place < len(self):
            raise IndexOutOfRangeError(f"There are {len(self)} rows. Got index {place}.")
        begin, end = self._splits[place % len(self)], self._splits[place % len(self) + 1]
        row = self.values[int(begin) : int(end)]
        return row[tuple(rest)] if rest else row

    def _within(self, rest: list[Any]) -> Any:
        """Apply the second and later indices to each row."""
        first, *more = rest
        if isinstance(first, slice):
            parts = [np.arange(a, b)[first] for a, b in zip(self._splits[:-1], self._splits[1:])]
            inner = self.values
            places = np.concatenate([np.zeros(0, np.int64), *parts])
            chosen = inner.rows_at(places) if isinstance(inner, RaggedTensor) else (
                gather(inner, places)
            )  # fmt: skip
            cut = RaggedTensor(chosen, np.cumsum([0, *[len(part) for part in parts]]))
            return cut.with_values(cut.values[(slice(None), *more)]) if more else cut
        column, lengths = operator.index(_plain(first)), self.lengths()
        if (lengths <= column if column >= 0 else lengths < -column).any():
            raise IndexOutOfRangeError(
                f"Not all rows have an entry at {column}: {lengths.tolist()}."
            )
        places = (self._splits[:-1] if column >= 0 else self._splits[1:]) + column
        inner = self.values
        found = inner.rows_at(places) if isinstance(inner, RaggedTensor) else gather(inner, places)
        return found[(slice(None), *more)] if more else found

    # Calls of functions

    def called_later(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the result of a function of tensors that got a ragged tensor."""
        name = function.__name__
        if name in HANDLERS:
            return HANDLERS[name](*args, **kwargs)
        primitive = getattr(function, "primitive", None)
        if primitive is not None and primitive.by_element:
            return elementwise(function, *args, **kwargs)
        if name in _ALSO_ELEMENTWISE or function.__module__.startswith(_ELEMENTWISE):
            return elementwise(function, *args, **kwargs)
        raise ArgumentTypeError(
            f"{name} does not take ragged tensors. Use to_tensor(), which pads the rows, or "
            "flat_values."
        )

    def __repr__(self) -> str:
        return f"<tapegrad.RaggedTensor {self.to_list()}>"


def elementwise(function: Callable[..., Any], *args: Any, **kwargs: Any) -> RaggedTensor:
    """Apply a function to the elements of ragged tensors with equal rows.

    Other arguments are scalars, entries, or columns with one entry for each row.

    >>> rows = RaggedTensor.from_row_lengths([1.0, 2.0, 3.0], [2, 1])
    >>> elementwise(operator.add, rows, [[10.0], [20.0]]).to_list()
    [[11.0, 12.0], [23.0]]
    """
    first = next(one for one in (*args, *kwargs.values()) if isinstance(one, RaggedTensor))

    def flat(value: Any) -> Any:
        if isinstance(value, RaggedTensor):
            return _flat_like(first, value)
        if not hasattr(value, "shape") and not isinstance(value, list | tuple):
            return value
        x = _as_values(value)
        is_column = len(x.shape) >= 2 and x.shape[0] == len(first) and x.shape[1] == 1
        return gather(reshape(x, (x.shape[0], *x.shape[2:])), first.rowids()) if is_column else x

    by_name = {
        key: flat(value) if isinstance(value, RaggedTensor) else value
        for key, value in kwargs.items()
    }
    return first.with_flat_values(function(*[flat(one) for one in args], **by_name))


def _flat_like(first: RaggedTensor, other: RaggedTensor) -> Any:
    ours, theirs = first.all_splits(), other.all_splits()
    if len(ours) != len(theirs) or not all(map(np.array_equal, ours, theirs)):
        raise ShapeError(
            f"Ragged tensors must have rows of equal lengths. Got {first.lengths().tolist()} and "
            f"{other.lengths().tolist()}."
        )
    return other.flat_values


def _binary(function: Callable[..., Any]) -> tuple[Any, Any]:
    def forward(self: RaggedTensor, other: Any) -> Any:
        return elementwise(function, self, other)

    def backward(self: RaggedTensor, other: Any) -> Any:
        return elementwise(function, other, self)

    return forward, backward


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    _function = getattr(operator, f"__{_name}__")
    _pair = _binary(_function)
    setattr(RaggedTensor, f"__{_name}__", _pair[0])
    setattr(RaggedTensor, f"__r{_name}__", _pair[1])
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(RaggedTensor, f"__{_name}__", _binary(getattr(operator, f"__{_name}__"))[0])
for _name in ("neg", "abs", "invert"):
    _function = getattr(operator, f"__{_name}__")
    setattr(RaggedTensor, f"__{_name}__", lambda self, f=_function: elementwise(f, self))


def _as_values(values: Any) -> Any:
    if isinstance(values, RaggedTensor | Tensor | StringTensor):
        return values
    return as_tensor(values) if isinstance(values, np.ndarray) else constant(values)


def _whole_numbers(values: Any, name: str) -> np.ndarray:
    found = np.asarray(read_on_host(values, name) if hasattr(values, "array") else values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ArgumentError(f"{name} must be a vector of integers. Got {values!r}.")
    return found.astype(np.int64)


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _broadcast(fill: Any, shape: tuple[int, ...]) -> Any:
    return fill + constant(np.zeros(shape), fill.dtype)
