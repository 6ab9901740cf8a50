"""Taking rows along an axis, and the sparse gradient of row gathers."""

from __future__ import annotations

from typing import Any

from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.tensor import Tensor, wrap


class RowGradient:
    """A sparse cotangent in a sweep: rows (raw or tensors), where they go, and the full shape."""

    __slots__ = ("indices", "shape", "values")

    def __init__(self, values: Any, indices: Any, shape: tuple[int, ...]) -> None:
        self.values = values
        self.indices = indices
        self.shape = shape

    def as_indexed_slices(self) -> IndexedSlices:
        return IndexedSlices(_tensor(self.values), _tensor(self.indices), self.shape)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


def add_row_gradients(first: Any, second: Any) -> Any:
    """Add two cotangents of which at least one is sparse."""
    raise NotImplementedError
