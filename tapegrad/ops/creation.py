"""Making tensors: from values, filled, and like another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core import host
from tapegrad.core.backend import backend_of
from tapegrad.core.convert import to_host_array, to_tensor
from tapegrad.core.dtypes import as_dtype, numpy_dtype
from tapegrad.core.families import nondifferentiable
from tapegrad.core.operand import as_operand
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.errors import ShapeError

full_like_p = nondifferentiable(
    "full_like",
    lambda xp, x, *, shape, value, dtype: xp.full(shape, value, dtype=dtype, device=x.device),
)


@full_like_p.batch
def _batch_full(size: int, batched: Any, x: Any, *, shape: Any, value: Any, dtype: Any) -> Any:
    return full_like_p(x, shape=(size, *shape), value=value, dtype=dtype)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Return a tensor with a copy of `value` on the current device.

    Python floats become float32 and ints int32, as in TensorFlow; NumPy arrays keep their dtype.

    >>> constant([[1.0, 2.0]]).shape
    (1, 2)
    """
    if isinstance(value, Tensor):
        tensor = value
        if dtype is not None and tensor.dtype != dtype:
            raise ShapeError(f"constant got a {tensor.dtype} tensor and dtype={dtype}: use cast.")
    else:
        tensor = wrap(host.place(to_host_array(value, dtype)))
    if shape is None:
        return tensor
    array = host.fetch(tensor.array, None, "constant()")
    wanted = tuple(shape)
    if array.size != 1 and array.shape != wanted and array.size != int(np.prod(wanted)):
        raise ShapeError(f"constant cannot put {array.size} values into shape {wanted}.")
    filled = array.reshape(wanted) if array.size == np.prod(wanted) else (
        np.broadcast_to(array.reshape(()), wanted)
    )
    return wrap(host.place(filled))


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Any:
    """Return `value` as a tensor; tensors come back as they are.

    >>> convert_to_tensor([1, 2]).dtype
    <dtype: 'int32'>
    """
    tensor = to_tensor(value, dtype)
    if dtype is not None and tensor.dtype != dtype:
        raise ShapeError(
            f"convert_to_tensor was asked for {as_dtype(dtype)}. "
            f"Got a tensor of {tensor.dtype}; use cast to change it."
        )
    return tensor


def full_like(x: Any, value: Any, dtype: Any = None) -> Any:
    """Return a tensor of `x`'s shape, dtype and device, filled with one number."""
    x = as_operand(x)
    return full_like_p(x, shape=tuple(x.shape), value=value, dtype=_dtype_or(dtype, x))


def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return zeros of `x`'s shape, dtype and device.

    >>> zeros_like(constant([1.0, 2.0])).numpy().tolist()
    [0.0, 0.0]
    """
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return ones of `x`'s shape, dtype and device.

    >>> ones_like(constant([1.0, 2.0])).numpy().tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1, dtype)


def zeros_for(example: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros of any shape and dtype on the device of `example`, of the same kind."""
    return full_like_p(example, shape=tuple(shape), value=0, dtype=getattr(dtype, "dtype", dtype))


def _dtype_or(dtype: Any, x: Any) -> np.dtype[Any]:
    if dtype is not None:
        return numpy_dtype(dtype)
    kind = x.dtype
    return kind.dtype if hasattr(kind, "dtype") else backend_of(x).dtype_of(x)  # type: ignore
