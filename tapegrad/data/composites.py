"""Sparse and ragged tensors, and values of users' classes, as entries of elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

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

    def __init__(self, value: SparseTensor) -> None:
        self._value = value

    def tensors(self) -> Any:
        return self._value

    @property
    def spec(self) -> Any:
        return SparseTensorSpec.from_value(self._value)

    def rows(self) -> list[Any]:
        places, values = self._value.places(), np.asarray(self._value.values)
        length, *rest = self._value.shape
        order = np.argsort(places[:, 0], kind="stable")
        bounds = np.searchsorted(places[order, 0], np.arange(length + 1))
        parts = [order[start:end] for start, end in pairwise(bounds)]
        return [
            SparseLeaf(SparseTensor(places[part, 1:], as_tensor(values[part]), rest))
            for part in parts
        ]

    @classmethod
    def joined(cls, leaves: Sequence[Any], step: str) -> Composite:
        found = [leaf.tensors() for leaf in leaves]
        shapes = {tuple(one.shape) for one in found}
        if len(shapes) > 1:
            raise ShapeError(
                f"{step} needs sparse tensors of one shape. Got {sorted(shapes)[0]} and "
                f"{sorted(shapes)[1]}."
            )
        rank = len(found[0].shape)
        places = [
            np.hstack([np.full((len(one.places()), 1), row), one.places().reshape(-1, rank)])
            for row, one in enumerate(found)
        ]
        values = np.concatenate([np.asarray(one.values) for one in found])
        shape = (len(found), *found[0].shape)
        return cls(SparseTensor(np.concatenate(places), as_tensor(values), shape))


class RaggedLeaf(Composite):
    """A ragged tensor, or a row of one: an array whose length others need not share."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def tensors(self) -> Any:
        value = self._value
        return as_tensor(value) if isinstance(value, np.ndarray) else value

    def numpy(self) -> Any:
        return self._value

    def dense(self) -> Any:
        return self._value if isinstance(self._value, np.ndarray) else self

    @property
    def spec(self) -> Any:
        if isinstance(self._value, RaggedTensor):
            return RaggedTensorSpec.from_value(self._value)
        shape = (None, *self._value.shape[1:])
        return RaggedTensorSpec(shape, as_tensor(self._value[:0]).dtype, 0)

    def rows(self) -> list[Any]:
        return [RaggedLeaf(_host(row)) for row in self._value]

    @classmethod
    def joined(cls, leaves: Sequence[Any], step: str) -> Composite:
        rows = [leaf.numpy() for leaf in leaves]
        if not isinstance(rows[0], np.ndarray):
            return cls(stack(rows))
        if rows[0].ndim == 0:
            raise ShapeError(f"{step} makes ragged tensors of arrays with at least one axis.")
        lengths = np.array([len(row) for row in rows], np.int64)
        return cls(RaggedTensor.from_row_lengths(as_tensor(np.concatenate(rows)), lengths))


def _host(row: Any) -> Any:
    if isinstance(row, RaggedTensor):
        return row
    return row.array if isinstance(row, StringTensor) else np.asarray(row)


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
        return SparseLeaf(value)
    if isinstance(value, RaggedTensor):
        return RaggedLeaf(value)
    return ObjectLeaf.of(value) if is_class_of_tensors(value) else None


register_composite(composite)
