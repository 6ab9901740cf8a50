"""The spec of sparse tensors, for signatures of functions."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.program.record.signature import TypeSpec
from tapegrad.sparse.tensor import SparseTensor


class SparseTensorSpec(TypeSpec):
    """The shape and dtype of a sparse tensor; None in a shape allows any length.

    >>> spec = SparseTensorSpec([None, 4], "int32")
    >>> spec
    SparseTensorSpec((None, 4), int32)
    >>> spec.is_compatible_with(SparseTensor([[0, 1]], [7], [3, 4]))
    True
    """

    def __init__(self, shape: Any = None, dtype: Any = "float32") -> None:
        self.shape, self.dtype = TensorShape(shape), as_dtype(dtype)

    shape: TensorShape
    dtype: DType

    @classmethod
    def from_value(cls, value: SparseTensor) -> SparseTensorSpec:
        """Return the spec of a sparse tensor.

        >>> SparseTensorSpec.from_value(SparseTensor([[0, 1]], [7], [3, 4]))
        SparseTensorSpec((3, 4), int32)
        """
        return cls(value.shape, value.dtype)

    def batched(self, length: int | None) -> SparseTensorSpec:
        """Return the spec of several such tensors along a new first axis.

        >>> SparseTensorSpec([4], "int32").batched(None)
        SparseTensorSpec((None, 4), int32)
        """
        return SparseTensorSpec((length, *self.shape), self.dtype)

    def unbatched(self) -> SparseTensorSpec:
        """Return the spec of the rows.

        >>> SparseTensorSpec([3, 4], "int32").unbatched()
        SparseTensorSpec((4,), int32)
        """
        return SparseTensorSpec(tuple(self.shape)[1:], self.dtype)

    @property
    def value_type(self) -> type:
        return SparseTensor

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a sparse tensor, or all those of another spec, match this spec."""
        return (
            isinstance(spec_or_value, SparseTensor | SparseTensorSpec)
            and as_dtype(spec_or_value.dtype) == self.dtype
            and self.shape.is_compatible_with(spec_or_value.shape)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTensorSpec):
            return NotImplemented
        return (tuple(self.shape), self.dtype) == (tuple(other.shape), other.dtype)

    def __hash__(self) -> int:
        return hash((tuple(self.shape), self.dtype.name))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self.shape!r}, {self.dtype})"
