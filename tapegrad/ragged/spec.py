"""The spec of ragged tensors, for signatures of functions."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.tensor_shape import TensorShape, UnknownShape
from tapegrad.errors import ArgumentError
from tapegrad.program.record.signature import TypeSpec
from tapegrad.ragged.tensor import RaggedTensor


class RaggedTensorSpec(TypeSpec):
    """The shape, dtype and ragged rank of a ragged tensor; None in a shape allows any lengths.

    >>> spec = RaggedTensorSpec([None, None], "int32")
    >>> spec
    RaggedTensorSpec((None, None), int32, 1)
    >>> spec.is_compatible_with(RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]))
    True
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = "float32",
        ragged_rank: int | None = None,
        row_splits_dtype: Any = "int64",
        flat_values_spec: Any = None,
    ) -> None:
        self.shape = TensorShape(shape)
        if flat_values_spec is not None:
            dtype = flat_values_spec.dtype
        self.dtype: DType = as_dtype(dtype)
        if ragged_rank is None:
            if isinstance(self.shape, UnknownShape):
                raise ArgumentError("RaggedTensorSpec needs a shape or a ragged_rank. Got neither.")
            ragged_rank = len(self.shape) - 1
        self.ragged_rank, self.row_splits_dtype = ragged_rank, as_dtype(row_splits_dtype)
        self.flat_values_spec = flat_values_spec

    @classmethod
    def from_value(cls, value: RaggedTensor) -> RaggedTensorSpec:
        """Return the spec of a ragged tensor.

        >>> RaggedTensorSpec.from_value(RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]))
        RaggedTensorSpec((2, None), int32, 1)
        """
        return cls(value.shape, value.dtype, value.ragged_rank)

    def batched(self, length: int | None) -> RaggedTensorSpec:
        """Return the spec of several such tensors along a new first axis.

        >>> RaggedTensorSpec([None], "int32", 0).batched(None)
        RaggedTensorSpec((None, None), int32, 1)
        """
        return RaggedTensorSpec((length, *self.shape), self.dtype, self.ragged_rank + 1)

    def unbatched(self) -> RaggedTensorSpec:
        """Return the spec of the rows.

        >>> RaggedTensorSpec([4, None], "int32").unbatched()
        RaggedTensorSpec((None,), int32, 0)
        """
        return RaggedTensorSpec(tuple(self.shape)[1:], self.dtype, max(self.ragged_rank - 1, 0))

    @property
    def value_type(self) -> type:
        return RaggedTensor

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a ragged tensor, or all those of another spec, match this spec."""
        return (
            isinstance(spec_or_value, RaggedTensor | RaggedTensorSpec)
            and as_dtype(spec_or_value.dtype) == self.dtype
            and spec_or_value.ragged_rank == self.ragged_rank
            and self.shape.is_compatible_with(spec_or_value.shape)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedTensorSpec):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (tuple(self.shape), self.dtype.name, self.ragged_rank, self.row_splits_dtype.name)

    def __repr__(self) -> str:
        return f"RaggedTensorSpec({self.shape!r}, {self.dtype}, {self.ragged_rank})"
