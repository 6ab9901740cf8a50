"""The spec of any value that a recorded function takes."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.data.dataset import Dataset
from tapegrad.data.structure import DatasetSpec
from tapegrad.errors import ArgumentTypeError
from tapegrad.experimental.extension_type import ExtensionType, spec_of
from tapegrad.ops.creation import convert_to_tensor
from tapegrad.program.record.signature import TensorSpec, TypeSpec
from tapegrad.ragged.spec import RaggedTensorSpec
from tapegrad.ragged.tensor import RaggedTensor
from tapegrad.sparse.spec import SparseTensorSpec
from tapegrad.sparse.tensor import SparseTensor

__all__ = ["RaggedTensorSpec", "SparseTensorSpec", "TypeSpec", "type_spec_from_value"]


def type_spec_from_value(value: Any) -> Any:
    """Return the spec of a tensor, a ragged or sparse tensor, an extension type or a dataset.

    >>> type_spec_from_value(convert_to_tensor([1.0, 2.0]))
    TensorSpec(shape=(2,), dtype=float32)
    """
    if isinstance(value, ExtensionType):
        return spec_of(value)
    if isinstance(value, RaggedTensor):
        return RaggedTensorSpec.from_value(value)
    if isinstance(value, SparseTensor):
        return SparseTensorSpec.from_value(value)
    if isinstance(value, Dataset):
        return DatasetSpec(value.element_spec)
    if isinstance(value, Tensor | StringTensor | Variable):
        return TensorSpec(value.shape, value.dtype)
    try:
        return TensorSpec.from_tensor(convert_to_tensor(value))
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"type_spec_from_value takes tensors and what holds them. Got {type(value).__name__}."
        ) from error
