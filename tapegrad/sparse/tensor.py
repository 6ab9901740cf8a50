"""SparseTensor: the entries of a tensor that are not zero, with their indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import host
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing.gather import gather_nd
from tapegrad.ops.shape.functions import broadcast_to


def as_tensor(array: np.ndarray) -> Any:
    """Return a host array of numbers or of bytes objects as a tensor.

    >>> as_tensor(np.array([b"a"], object)).dtype.name
    'string'
    """
    return StringTensor(array) if array.dtype.kind == "O" else wrap(host.place(array))


class SparseTensor:
    """Values at the given indices of a tensor of zeros; gradients reach the values.

    For products of large sparse matrices, see `tapegrad.scipy.sparse`.

    >>> x = SparseTensor(indices=[[0, 1], [2, 0]], values=[3.0, 4.0], dense_shape=[3, 2])
    >>> x.shape, (2.0 * x).values.tolist()
    ((3, 2), [6.0, 8.0])
    """

    __slots__ = ("__weakref__", "_places", "_shape", "values")
    __array_priority__ = 200

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self._shape = tuple(_numbers(dense_shape, "dense_shape").reshape(-1).tolist())
        places = _numbers(indices, "indices").reshape(-1, max(len(self._shape), 1))
        self.values: Any = values if isinstance(values, Tensor | StringTensor) else constant(values)
        self._places = places
        if len(self.values.shape) != 1 or self.values.shape[0] != len(places):
            raise ArgumentError(
                f"A sparse tensor needs one value for each index. Got {len(places)} indices and "
                f"values of shape {self.values.shape}."
            )

    @property
    def indices(self) -> Any:
        """The indices of the values, a matrix with one row for each value."""
        return as_tensor(self._places)

    @property
    def dense_shape(self) -> Any:
        """The shape of the tensor, as a tensor."""
        return as_tensor(np.array(self._shape, np.int64))

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._shape)

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def places(self) -> np.ndarray:
        """Return the indices as a NumPy array."""
        return self._places

    def with_values(self, new_values: Any) -> SparseTensor:
        """Return other values at the same indices."""
        return SparseTensor(self._places, new_values, self._shape)

    def called_later(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the result of a function of tensors that got a sparse tensor."""
        name = function.__name__
        if name in ("cast", "identity", "abs", "negative", "sign", "square", "sqrt"):
            inner = [one.values if isinstance(one, SparseTensor) else one for one in args]
            return self.with_values(function(*inner, **kwargs))
        if name in ("shape", "size", "rank"):
            whole = broadcast_to(constant(0.0), self._shape)  # a view
            inner = [whole if isinstance(one, SparseTensor) else one for one in args]
            return function(*inner, **kwargs)
        raise ArgumentTypeError(
            f"{name} does not take sparse tensors. The functions of tapegrad.sparse do; "
            "tapegrad.sparse.to_dense returns a tensor."
        )

    def __mul__(self, other: Any) -> SparseTensor:
        return self.with_values(self.values * self._at(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return self.with_values(self.values / self._at(other))

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self.values)

    def _at(self, other: Any) -> Any:
        """Return a number, or the entries of a tensor that broadcasts, at the indices."""
        x = other if isinstance(other, Tensor) else constant(other, self.dtype)
        if not len(x.shape):
            return cast(x, self.dtype)
        return gather_nd(broadcast_to(cast(x, self.dtype), self._shape), self._places)

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self._places.tolist()}, values={self.values.tolist()}, "
            f"dense_shape={list(self._shape)})"
        )


def _numbers(values: Any, name: str) -> np.ndarray:
    found = np.asarray(read_on_host(values, name) if hasattr(values, "array") else values)
    if found.size and found.dtype.kind not in "iu":
        raise ArgumentError(f"{name} of a sparse tensor must be integers. Got {values!r}.")
    return found.astype(np.int64)
