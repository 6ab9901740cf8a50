"""IndexedSlices: the gradient of a row gather, kept as the rows that were touched."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import DType
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError


class IndexedSlices:
    """Rows `values` at positions `indices` of a tensor of shape `dense_shape`; rows may repeat.

    Lists and NumPy arrays become tensors.

    It turns itself into a dense tensor wherever one is needed (arithmetic, `numpy()`, NumPy
    functions, clipping); optimizers use its rows directly.

    >>> import tapegrad
    >>> rows = tapegrad.constant([[1.0], [2.0], [3.0]])
    >>> slices = IndexedSlices(rows, [0, 2, 0], (3, 1))
    >>> slices.numpy().tolist()
    [[4.0], [0.0], [2.0]]
    """

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values: Tensor = _converted(values)
        self.indices: Tensor = _converted(indices)
        self.dense_shape: Any = None if dense_shape is None else TensorShape(dense_shape)

    @property
    def shape(self) -> TensorShape:
        if self.dense_shape is None:
            raise ArgumentError(
                "These IndexedSlices were made without a dense_shape, so their shape is unknown. "
                "Give the shape of the whole tensor as the third argument."
            )
        found: TensorShape = self.dense_shape
        return found

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def device(self) -> str:
        return self.values.device

    def dense(self) -> Tensor:
        """Return the dense tensor, repeated rows added up."""
        return to_tensor(self)

    def numpy(self) -> Any:
        return self.dense().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.dense().__array__(dtype, copy)

    def __float__(self) -> float:
        return float(self.dense())

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return (
            f"<tapegrad.IndexedSlices: indices={self.indices!r}, values={self.values!r}, "
            f"dense_shape={self.dense_shape}>"
        )


def _converted(value: Any) -> Any:
    return to_tensor(value) if isinstance(value, list | tuple | np.ndarray) else value
