"""Sparse and ragged tensors, and values of users' classes, as entries of elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad.core.values.device import device
from tapegrad.core.values.strings import StringTensor
from tapegrad.data.structure import (
    Composite,
    concatenated_rows,
    is_class_of_tensors,
    own_host,
    register_composite,
    spec_of,
    stacked,
    to_host_tensors,
)
from tapegrad.errors import ShapeError
from tapegrad.ragged.calls import stack
from tapegrad.ragged.spec import RaggedTensorSpec
from tapegrad.ragged.tensor import RaggedTensor
from tapegrad.sparse.spec import SparseTensorSpec
from tapegrad.sparse.tensor import SparseTensor, as_tensor


class SparseLeaf(Composite):
    """A sparse tensor; a batch of them is one with another axis."""

    def __init__(self, places: np.ndarray, values: np.ndarray, shape: Sequence[int]) -> None:
        self._places, self._values, self._shape = places, values, tuple(shape)

    @classmethod
    def of(cls, value: SparseTensor) -> SparseLeaf:
        """Return the leaf of a sparse tensor on any device."""
        return cls(value.places(), _fetched(value.values), value.shape)

    def tensors(self) -> Any:
        return SparseTensor(self._places, as_tensor(self._values), self._shape)

    @property
    def spec(self) -> Any:
        with device("cpu"):
            return SparseTensorSpec.from_value(self.tensors())

    def rows(self) -> list[Any]:
        places, values = self._places, self._values
        length, *rest = self._shape
        order = np.argsort(places[:, 0], kind="stable")
        bounds = np.searchsorted(places[order, 0], np.arange(length + 1))
        parts = [order[start:end] for start, end in pairwise(bounds)]
        return [SparseLeaf(places[part, 1:], values[part], rest) for part in parts]

    @classmethod
    def joined(cls, leaves: Sequence[Any], step: str) -> Composite:
        shapes = {leaf._shape for leaf in leaves}
        if len(shapes) > 1:
            raise ShapeError(
                f"{step} needs sparse tensors of one shape. Got {sorted(shapes)[0]} and "
                f"{sorted(shapes)[1]}."
            )
        (shape,) = shapes
        places = [
            np.hstack([np.full((len(one._places), 1), row), one._places.reshape(-1, len(shape))])
            for row, one in enumerate(leaves)
        ]
        values = np.concatenate([one._values for one in leaves])
        return cls(np.concatenate(places), values, (len(leaves), *shape))


class RaggedLeaf(Composite):
    """A ragged tensor on the host, or a row of one: an array whose length others need not share."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @classmethod
    def of(cls, value: RaggedTensor) -> RaggedLeaf:
        """Return the leaf of a ragged tensor on any device."""
        with device("cpu"):
            return cls(value.with_flat_values(as_tensor(_fetched(value.flat_values))))

    def tensors(self) -> Any:
        value = self._value
        if isinstance(value, np.ndarray):
            return as_tensor(value)
        return value.with_flat_values(as_tensor(_fetched(value.flat_values)))

    def numpy(self) -> Any:
        return self._value

    def dense(self) -> Any:
        return self._value if isinstance(self._value, np.ndarray) else self

    @property
    def spec(self) -> Any:
        if isinstance(self._value, RaggedTensor):
            return RaggedTensorSpec.from_value(self._value)
        shape = (None, *self._value.shape[1:])
        with device("cpu"):
            return RaggedTensorSpec(shape, as_tensor(self._value[:0]).dtype, 0)

    def rows(self) -> list[Any]:
        return [RaggedLeaf(_host(row)) for row in self._value]

    @classmethod
    def joined(cls, leaves: Sequence[Any], step: str) -> Composite:
        rows = [leaf.numpy() for leaf in leaves]
        if isinstance(rows[0], np.ndarray) and rows[0].ndim == 0:
            raise ShapeError(f"{step} makes ragged tensors of arrays with at least one axis.")
        with device("cpu"):
            if not isinstance(rows[0], np.ndarray):
                return cls(stack(rows))
            lengths = np.array([len(row) for row in rows], np.int64)
            return cls(RaggedTensor.from_row_lengths(as_tensor(np.concatenate(rows)), lengths))


def _host(row: Any) -> Any:
    return row if isinstance(row, RaggedTensor) else _fetched(row)


def _fetched(value: Any) -> np.ndarray:
    """Return the numbers or texts of a tensor as a NumPy array."""
    array: np.ndarray = value.array if isinstance(value, StringTensor) else value.numpy()
    return array


class ObjectLeaf(Composite):
    """A value of a class with `__tf_flatten__`; a batch of them has batches as fields."""

    def __init__(self, kind: Any, plain: Any, parts: tuple[Any, ...]) -> None:
        self._kind, self._plain, self._parts = kind, plain, parts

    @classmethod
    def of(cls, value: Any) -> ObjectLeaf:
        """Return the leaf of a user's value."""
        plain, parts = value.__tf_flatten__()
        return cls(type(value), plain, own_host(tuple(parts), "a dataset"))

    def tensors(self) -> Any:
        return self._kind.__tf_unflatten__(self._plain, to_host_tensors(self._parts))

    @property
    def spec(self) -> Any:
        made = getattr(self._kind, "Spec", None)
        return spec_of(self._parts) if made is None else made.from_value(self.tensors())

    def rows(self) -> list[Any]:
        columns = concatenated_rows(self._parts)
        return [ObjectLeaf(self._kind, self._plain, row) for row in columns]

    @classmethod
    def joined(cls, leaves: Sequence[Any], step: str) -> Composite:
        first = leaves[0]
        return cls(first._kind, first._plain, stacked([leaf._parts for leaf in leaves], step))


def composite(value: Any) -> Composite | None:
    """Return the leaf for a value that is none of arrays and their containers, or None."""
    if isinstance(value, SparseTensor):
        return SparseLeaf.of(value)
    if isinstance(value, RaggedTensor):
        return RaggedLeaf.of(value)
    return ObjectLeaf.of(value) if is_class_of_tensors(value) else None


register_composite(composite)
