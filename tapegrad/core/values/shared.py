"""Tensors whose memory another library can write.

`from_dlpack`, raw device arrays and `torch.from_dlpack(x)` share memory. Another holder may write
to it at any time, but a tape must find the values that it saved. A shared tensor therefore
becomes an ordinary one, with a copy of the memory, when an operation under a tape first reads it. A
tensor that is exported is copied first if a tape or another tensor holds its memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.values.tensor import SharedTensor, Tensor


def share(array: Array) -> Tensor:
    """Return a tensor of an array that other code can write."""
    tensor: Tensor = object.__new__(SharedTensor)
    tensor.array = array
    tensor.node = None
    return tensor


def copy_of(array: Array) -> Array:
    """Return a copy of an array on its device."""
    return backend_of(array).xp.asarray(array, copy=True)


def make_private(tensor: Tensor) -> None:
    """Turn a shared tensor into an ordinary one with a copy of the memory."""
    tensor.array = copy_of(tensor.array)
    tensor.__class__ = Tensor


def private_array(tensor: Tensor) -> Array:
    """Return the array of a tensor, or a copy if other libraries can write to it."""
    return copy_of(tensor.array) if type(tensor) is SharedTensor else tensor.array


def mark_views(result: Any, shared: Iterable[Tensor]) -> None:
    """Make those results shared tensors that have memory in common with a shared operand."""
    owners = {id(owner_of(tensor.array)) for tensor in shared}
    for tensor in result if isinstance(result, tuple | list) else (result,):
        if type(tensor) is Tensor and id(owner_of(tensor.array)) in owners:
            tensor.__class__ = SharedTensor


def owner_of(array: Array) -> Any:
    """Return the object that owns the memory of an array: an allocation, or the base array."""
    allocation = getattr(getattr(array, "data", None), "mem", None)
    if allocation is not None:
        return allocation
    while getattr(array, "base", None) is not None:
        array = array.base
    return array
