"""The shapes of ragged tensors, with the lengths of all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ArgumentTypeError, IndexOutOfRangeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ragged.row_partition import RowPartition
from tapegrad.ragged.tensor import HANDLERS, RaggedTensor
from tapegrad.sparse.tensor import as_tensor


class DynamicRaggedShape:
    """The shape of a ragged tensor: `tapegrad.shape` returns it.

    `tapegrad.zeros`, `ones`, `fill`, `reshape` and `broadcast_to` take it as their shape.

    >>> DynamicRaggedShape.from_lengths([2, (1, 3), 5])
    <DynamicRaggedShape lengths=[2, (1, 3), 5] num_row_partitions=1>
    """

    def __init__(
        self,
        row_partitions: Sequence[RowPartition],
        inner_shape: Any,
        dtype: Any = None,
        validate: bool = False,
        static_inner_shape: Any = None,
    ) -> None:
        self._partitions = tuple(row_partitions)
        self._inner = tuple(int(n) for n in np.asarray(inner_shape).reshape(-1).tolist())
        self._dtype = as_dtype(dtype or "int64")
        if self._partitions and self._partitions[-1].static_nvals != self._inner[0]:
            raise ArgumentError(
                f"The rows have {self._partitions[-1].static_nvals} values. Got the inner shape "
                f"{self._inner}, which begins with another number."
            )

    @classmethod
    def from_lengths(
        cls, lengths: Sequence[Any], num_row_partitions: int | None = None, dtype: Any = None
    ) -> DynamicRaggedShape:
        """Return the shape with a number for each axis, or a tuple of the lengths of rows.

        >>> DynamicRaggedShape.from_lengths([2, (1, 3)]).num_row_partitions
        1
        """
        ragged = [k for k, one in enumerate(lengths) if isinstance(one, tuple | list)]
        depth = num_row_partitions if num_row_partitions is not None else max(ragged, default=0)
        if lengths and isinstance(lengths[0], tuple | list):
            raise ArgumentError("The first axis of a ragged tensor has one length.")
        count, partitions = int(lengths[0]) if lengths else 1, []
        for one in lengths[1 : depth + 1]:
            is_ragged = isinstance(one, tuple | list)
            made = (
                RowPartition.from_row_lengths(list(one))
                if is_ragged
                else RowPartition.from_uniform_row_length(one, nrows=count)
            )
            if made.static_nrows != count:
                raise ArgumentError(
                    f"An axis of {count} rows needs as many lengths. Got {made.static_nrows}."
                )
            count = made.static_nvals
            partitions.append(made)
        inner = [count, *lengths[depth + 1 :]] if lengths else []
        return cls(partitions, np.array(inner, np.int64), dtype)

    @classmethod
    def from_tensor(cls, t: Any, dtype: Any = None) -> DynamicRaggedShape:
        """Return the shape of a tensor or ragged tensor.

        >>> DynamicRaggedShape.from_tensor(RaggedTensor.from_row_lengths([5, 6, 7], [1, 2]))
        <DynamicRaggedShape lengths=[2, (1, 2)] num_row_partitions=1>
        """
        if not isinstance(t, RaggedTensor):
            return cls((), np.array(constant(t).shape, np.int64), dtype)
        partitions = [RowPartition(splits) for splits in t.all_splits()]
        return cls(partitions, np.array(t.flat_values.shape, np.int64), dtype)

    @classmethod
    def from_row_partitions(
        cls, row_partitions: Sequence[RowPartition], dtype: Any = None
    ) -> DynamicRaggedShape:
        """Return the shape of rows of single values.

        >>> DynamicRaggedShape.from_row_partitions([RowPartition.from_row_lengths([2, 1])]).rank
        2
        """
        if not row_partitions:
            raise ArgumentError("from_row_partitions needs at least one partition.")
        return cls(row_partitions, [row_partitions[-1].static_nvals], dtype)

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        return self._partitions

    @property
    def num_row_partitions(self) -> int:
        return len(self._partitions)

    @property
    def inner_shape(self) -> Any:
        """The shape of the values, as a tensor."""
        return as_tensor(np.array(self._inner, self._dtype.as_numpy_dtype))

    @property
    def inner_rank(self) -> int:
        return len(self._inner)

    @property
    def rank(self) -> int:
        return self.num_row_partitions + self.inner_rank

    @property
    def dtype(self) -> Any:
        return self._dtype

    def with_dtype(self, dtype: Any) -> DynamicRaggedShape:
        """Return the same shape with numbers of another dtype."""
        return DynamicRaggedShape(self._partitions, self._inner, dtype)

    def is_uniform(self, axis: int) -> bool:
        """Return whether an axis has one length."""
        return not isinstance(self._lengths()[self._place(axis)], tuple)

    def static_lengths(self, ragged_lengths: bool = True) -> list[Any]:
        """Return the length of each axis, and a tuple of lengths for a ragged one."""
        found = self._lengths()
        return found if ragged_lengths else [None if isinstance(n, tuple) else n for n in found]

    def _lengths(self) -> list[Any]:
        if not self._partitions:
            return list(self._inner)
        outer = [
            one.static_uniform_row_length
            if one.is_uniform()
            else tuple(np.diff(one.splits()).tolist())
            for one in self._partitions
        ]
        return [self._partitions[0].static_nrows, *outer, *self._inner[1:]]

    def _place(self, axis: int) -> int:
        if not -self.rank <= axis < self.rank:
            raise IndexOutOfRangeError(f"The shape has {self.rank} axes. Got axis {axis}.")
        return axis % self.rank

    def __getitem__(self, index: Any) -> Any:
        """Return the length of an axis that is not ragged, or the shape of the first axes."""
        lengths = self._lengths()
        if isinstance(index, slice):
            start, stop, step = index.indices(self.rank)
            if step != 1 or start:
                raise ArgumentError("A slice of a ragged shape begins at the first axis.")
            return DynamicRaggedShape.from_lengths(lengths[:stop], dtype=self._dtype)
        place = self._place(int(index))
        if isinstance(lengths[place], tuple):
            raise ArgumentError(f"Axis {place} is ragged: it has no single length.")
        return as_tensor(np.asarray(lengths[place], self._dtype.as_numpy_dtype))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DynamicRaggedShape):
            return NotImplemented
        return self._lengths() == other._lengths()

    def __hash__(self) -> int:
        return hash(tuple(self._lengths()))

    def __repr__(self) -> str:
        parts = self.num_row_partitions
        return f"<DynamicRaggedShape lengths={self._lengths()} num_row_partitions={parts}>"

    # As an argument of functions

    def with_flat_values(self, values: Any) -> Any:
        """Return values of the inner shape as a tensor of this shape."""
        for one in reversed(self._partitions):
            values = RaggedTensor.from_row_splits(values, one.splits())
        return values

    def called_later(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the result of a function of tensors that got this as a shape."""
        name = function.__name__
        if name not in _TAKE_SHAPES:
            raise ArgumentTypeError(f"{name} does not take the shape of a ragged tensor.")
        return _TAKE_SHAPES[name](function, *args, **kwargs)


def _made(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call zeros, ones or fill with the inner shape in place of the ragged one."""

    def inner(value: Any) -> Any:
        return value._inner if isinstance(value, DynamicRaggedShape) else value

    shape = next(v for v in (*args, *kwargs.values()) if isinstance(v, DynamicRaggedShape))
    found = {name: inner(value) for name, value in kwargs.items()}
    return shape.with_flat_values(function(*[inner(value) for value in args], **found))


def _reshaped(function: Any, tensor: Any, shape: Any, name: str | None = None) -> Any:
    values = tensor.flat_values if isinstance(tensor, RaggedTensor) else constant(tensor)
    return shape.with_flat_values(reshape(values, shape._inner))


def _broadcast(function: Any, input: Any, shape: Any, name: str | None = None) -> Any:
    if isinstance(input, RaggedTensor) or len(constant(input).shape) > shape.inner_rank - 1:
        zeros = shape.with_flat_values(constant(np.zeros(shape._inner, np.int8)))
        values = input if isinstance(input, RaggedTensor) else constant(input)
        return values + cast(zeros, values.dtype)
    return shape.with_flat_values(broadcast_to(input, shape._inner))


_TAKE_SHAPES: dict[str, Callable[..., Any]] = {
    "broadcast_to": _broadcast,
    "fill": _made,
    "ones": _made,
    "reshape": _reshaped,
    "zeros": _made,
}


def _shape_of(input: Any, out_type: Any = "int32", name: str | None = None) -> DynamicRaggedShape:
    return DynamicRaggedShape.from_tensor(input, out_type)


HANDLERS["shape"] = _shape_of
