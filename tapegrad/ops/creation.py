"""Creation of tensors: constants, filled tensors, ranges, one_hot."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count, check_whole, check_wholes
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive
from tapegrad.core.values import host
from tapegrad.core.values.convert import (
    TextFoundError,
    adapted,
    copy_of_device_array,
    to_host_array,
)
from tapegrad.core.values.dtypes import as_dtype, is_text_type, numpy_dtype
from tapegrad.core.values.sizes import for_shape
from tapegrad.core.values.strings import is_text, string_tensor, text_or_raise, to_any_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.kinds import require_integers
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p

full_like_p = nondifferentiable(
    "full_like",
    lambda xp, x, *, shape, value, dtype: xp.full(shape, value, dtype=dtype, device=x.device),
)


@full_like_p.batch
def _batch_full(size: int, batched: Any, x: Any, *, shape: Any, value: Any, dtype: Any) -> Any:
    return full_like_p(x, shape=(size, *shape), value=value, dtype=dtype)


positions_like_p: Primitive = nondifferentiable(
    "positions_like",
    lambda xp, x, *, length, dtype: xp.arange(length, dtype=dtype, device=x.device),
    batch=lambda size, batched, x, *, length, dtype: broadcast_p(
        positions_like_p(x, length=length, dtype=dtype), shape=(size, length)
    ),
)
"""The numbers from 0 to `length - 1` on the device of `x`, whose values are not read."""


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Return a tensor with a copy of `value` on the current device.

    Python floats become float32 and ints int32, as in TensorFlow. Arrays keep their dtype, and
    CuPy arrays also their device.

    >>> constant([[1.0, 2.0]]).shape
    (1, 2)
    """
    # A list of tensors is stacked, so that tapes record it.
    value = value.read_value() if isinstance(value, Variable) else adapted(value)
    if isinstance(value, Tensor) or type(value) in INTERPRETERS:
        if dtype is not None and value.dtype != dtype:
            value = cast(value, dtype)
        return value if shape is None else _with_shape(value, tuple(shape))
    copy = copy_of_device_array(value, dtype)
    if copy is not None:
        return wrap(copy) if shape is None else _with_shape(wrap(copy), tuple(shape))
    try:
        array = to_host_array(value, dtype)
    except (TextFoundError, DTypeError) as error:
        text: Any = text_or_raise(value, dtype, error)
        return text if shape is None else _with_shape(text, tuple(shape))
    if shape is not None:
        array = _with_shape(wrap(array), tuple(shape)).array
    return wrap(host.place(array))


def _with_shape(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tensor.size not in (1, math.prod(shape)):
        raise ShapeError(f"constant cannot arrange {tensor.size} values in shape {shape}.")
    if tensor.size == math.prod(shape):
        return reshape_p(tensor, shape=shape)  # type: ignore[no-any-return]
    return broadcast_p(reshape_p(tensor, shape=()), shape=shape)  # type: ignore[no-any-return]


def convert_to_tensor(
    value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None
) -> Any:
    """Convert `value` to a tensor; a tensor is returned unchanged.

    With `dtype`, a tensor of float64 becomes one of float32, and the reverse: NumPy's
    functions make float64 and return tensors for tensors.

    >>> convert_to_tensor([1, 2]).dtype
    <dtype: 'int32'>
    """
    tensor = value.read_value() if isinstance(value, Variable) else to_any_tensor(value, dtype)
    if dtype is None or tensor.dtype == dtype:
        return tensor
    if tensor.dtype.is_floating and as_dtype(dtype).is_floating:
        return cast(tensor, dtype)
    raise ShapeError(
        f"convert_to_tensor got dtype={as_dtype(dtype)} and a tensor of {tensor.dtype}. "
        "Use cast to convert it."
    )


def full_like(x: Any, value: Any, dtype: Any = None) -> Any:
    """Return a tensor with the shape, dtype and device of `x`, filled with one number."""
    x = as_operand(x)
    if type(x) is Tensor and dtype is None:
        # The result does not depend on the values, so call the kernel without recording a use.
        array = x.array
        kernel = full_like_p.kernel(type(array))
        return wrap(kernel(array, shape=array.shape, value=value, dtype=array.dtype))
    return full_like_p(x, shape=tuple(x.shape), value=value, dtype=_dtype_or(dtype, x))


def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return zeros with the shape, dtype and device of the input.

    >>> zeros_like(constant([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    return full_like(input, 0, dtype)


def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return ones with the shape, dtype and device of the input.

    >>> ones_like(constant([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return full_like(input, 1, dtype)


def zeros_for(example: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros on the device of `example`: a tensor if it is one, else an array like it."""
    return full_like_p(example, shape=tuple(shape), value=0, dtype=getattr(dtype, "dtype", dtype))


def _dtype_or(dtype: Any, x: Any) -> np.dtype[Any]:
    return numpy_dtype_of(x) if dtype is None else numpy_dtype(dtype)


def numpy_dtype_of(x: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a tensor, a batched value or a backend array."""
    dtype = x.dtype
    return dtype.dtype if hasattr(dtype, "dtype") else backend_of(x).dtype_of(x)


def as_constant(value: Any) -> Tensor:
    """Return a host array as a tensor on the current device; it may share the memory.

    A tensor is returned as it is: NumPy's functions return one if an argument is a tensor.
    """
    if isinstance(value, np.ndarray):
        return wrap(host.place(value))
    found: Tensor = convert_to_tensor(value)
    return found


def as_shape(shape: Any, name: str = "shape") -> tuple[int, ...]:
    """Return a shape as a tuple, from an int, a sequence of ints, or an integer tensor.

    `name` is the argument that an error names.
    """
    if type(shape) is tuple or type(shape) is list:
        try:
            return tuple(map(index, shape))
        except TypeError:
            pass  # the check below names the item
    return check_wholes(name, shape)


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    """Return a tensor filled with one number, created on the current device."""
    wanted = numpy_dtype(dtype)
    example = wrap(for_shape(host.place(np.zeros((), wanted)), shape))
    return full_like_p(example, shape=as_shape(shape), value=value, dtype=wanted)


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of zeros.

    >>> zeros((2, 3)).shape
    (2, 3)
    """
    if is_text_type(dtype):
        return string_tensor(np.full(as_shape(shape), b"", object))
    return _filled(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Return a tensor of ones.

    >>> ones(2).tolist()
    [1.0, 1.0]
    """
    return _filled(shape, 1, dtype)


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """Return a tensor of shape `dims` filled with one value, differentiable in the value.

    >>> fill((2,), 3.0).tolist()
    [3.0, 3.0]
    """
    value = as_operand(value)
    if len(value.shape):
        raise ShapeError(f"fill needs a scalar value. Got shape {value.shape}.")
    return broadcast_p(fillable(value, dims), shape=as_shape(dims, "dims"))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Return a tensor of a shape, filled with a value that broadcasts to it.

    >>> full((2,), 3.0).tolist()
    [3.0, 3.0]
    """
    value = as_operand(fill_value)
    if dtype is not None:
        value = cast(value, dtype)
    return broadcast_p(fillable(value, shape), shape=as_shape(shape))


def fillable(value: Any, shape: Any) -> Any:
    """Return a tensor such that filling a shape with it is recorded; see `for_shape`."""
    if type(value) is not Tensor or value.node is not None:
        return value
    array = for_shape(value.array, shape)
    return value if array is value.array else wrap(array)


def eye(
    num_rows: int,
    num_columns: int | None = None,
    batch_shape: Any = None,
    dtype: Any = "float32",
    name: str | None = None,
    k: int = 0,
) -> Any:
    """Return a matrix with ones on diagonal `k` and zeros elsewhere, repeated to `batch_shape`.

    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = num_rows if num_columns is None else num_columns
    matrix = as_constant(
        np.eye(
            check_count("num_rows", num_rows, "eye"),
            check_count("num_columns", columns, "eye"),
            k=k,
            dtype=numpy_dtype(dtype),
        )
    )
    if batch_shape is None:
        return matrix
    return broadcast_p(matrix, shape=(*as_shape(batch_shape, "batch_shape"), *matrix.shape))


def range(  # TensorFlow's name
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range"
) -> Tensor:
    """Return the numbers from `start` to `limit`, which is excluded, in steps of `delta`.

    `range(limit)` starts at 0. Python ints give int32 and floats float32; tensors and arrays keep
    their dtype.

    >>> range(3).tolist(), range(1.0, 2.0, 0.5).dtype
    ([0, 1, 2], <dtype: 'float32'>)
    """
    if limit is None:
        start, limit = 0, start
    # The numbers depend on start and delta, whose derivatives are lost: tapes warn of `asarray`.
    start, delta = [np.asarray(x) if isinstance(x, Tensor) else x for x in (start, delta)]
    ends = [to_host_array(_to_numpy(value)) for value in (start, limit, delta)]
    if any(end.ndim for end in ends):
        raise ShapeError("range needs scalars for start, limit and delta.")
    if not ends[2]:
        raise ArgumentError("range needs a delta other than 0.")
    wanted = np.result_type(*ends) if dtype is None else numpy_dtype(dtype)
    if dtype is None and wanted == np.float64 and all(end.dtype != wanted for end in ends):
        wanted = np.dtype("float32")  # NumPy would promote ints with float32 to float64
    first, last, step = (end.item() for end in ends)
    return as_constant(np.arange(first, last, step).astype(wanted))


def _to_numpy(value: Any) -> Any:
    if hasattr(value, "numpy"):
        return value.numpy()
    return value


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Return evenly spaced numbers, as `range` does, under NumPy's name.

    >>> arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    return range(start, stop, step, dtype)


def linspace(start: Any, stop: Any, num: int = 50, name: str | None = None, axis: int = 0) -> Any:
    """Return `num` numbers from `start` to `stop`, both included, along a new axis.

    >>> linspace(0.0, 1.0, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    start, stop, num = as_operand(start), as_operand(stop), check_whole("num", num, "linspace")
    if num < 1:
        raise ArgumentError(f"linspace needs num >= 1. Got {num}.")
    start, stop = (x if x.dtype.is_differentiable else cast(x, "float32") for x in (start, stop))
    if start.dtype != stop.dtype:
        raise ArgumentTypeError(
            f"linspace needs start and stop of equal dtype. Got {start.dtype} and {stop.dtype}; "
            "cast one of them."
        )
    rank = max(len(start.shape), len(stop.shape))
    position = axis + rank + 1 if axis < 0 else axis
    if not 0 <= position <= rank:
        raise ShapeError(
            f"linspace needs an axis between {-rank - 1} and {rank} for start and stop of {rank} "
            f"dimensions. Got {axis}."
        )
    weights = np.arange(num) / max(num - 1, 1)
    shape = (num, *[1] * (rank - position))
    # The weights of start and stop are exactly 0 and 1 at the ends.
    up = _on_device_of(start, weights.reshape(shape).astype(start.dtype.dtype))
    down = _on_device_of(start, (1 - weights).reshape(shape).astype(start.dtype.dtype))
    left, right = (_with_axis(x, rank, position) for x in (start, stop))
    return arithmetic.add(arithmetic.multiply(left, down), arithmetic.multiply(right, up))


def _on_device_of(x: Any, value: np.ndarray) -> Tensor:
    """Return a host array as a tensor on the device of `x`, which may be a batched value."""
    while type(x) in INTERPRETERS:
        x = x.tensor
    return wrap(host.place_like(value, x.array if isinstance(x, Tensor) else x))


def _with_axis(x: Any, rank: int, position: int) -> Any:
    shape = (*[1] * (rank - len(x.shape)), *x.shape)
    return reshape_p(x, shape=(*shape[:position], 1, *shape[position:]))


def _one_hot(xp: Any, indices: Any, *, depth: int, on: Any, off: Any, axis: int, dtype: Any) -> Any:
    positions = xp.arange(depth, dtype=indices.dtype, device=indices.device)
    hits = xp.expand_dims(indices, axis=indices.ndim) == positions
    on_value = xp.full((), on, dtype=dtype, device=indices.device)
    off_value = xp.full((), off, dtype=dtype, device=indices.device)
    return xp.moveaxis(xp.where(hits, on_value, off_value), -1, axis)


one_hot_p: Primitive = nondifferentiable(
    "one_hot",
    _one_hot,
    batch=lambda size, batched, x, *, depth, on, off, axis, dtype: one_hot_p(
        x, depth=depth, on=on, off=off, axis=axis + 1, dtype=dtype
    ),
)
one_hot_p.result_shape = lambda x, *, depth, **_: (*x.shape, depth)


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Return, for each index, `depth` numbers: `on_value` at the index, `off_value` elsewhere.

    An index out of range gives `off_value` only; both may be text. The function has no derivative.

    >>> one_hot([1, 0], 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    x = as_operand(indices)
    require_integers("one_hot", "indices", x)
    rank = len(x.shape)
    position = rank if axis is None or axis == -1 else check_whole("axis", axis, "one_hot")
    if not 0 <= position <= rank:
        raise ShapeError(
            f"one_hot needs an axis between -1 and {rank} for indices of {rank} dimensions. "
            f"Got {axis}."
        )
    if is_text(on_value) or is_text(off_value):
        hits = one_hot(x, depth, True, False, axis, "bool")
        return where(hits, *map(to_any_tensor, (on_value or "", off_value or "")))
    on = 1 if on_value is None else to_host_array(_to_numpy(on_value))
    off = 0 if off_value is None else to_host_array(_to_numpy(off_value))
    given = next((value.dtype for value in (on, off) if hasattr(value, "dtype")), "float32")
    wanted = numpy_dtype(given if dtype is None else dtype)
    on, off = (value.item() if hasattr(value, "item") else value for value in (on, off))
    return one_hot_p(
        x, depth=check_count("depth", depth, "one_hot"), on=on, off=off, axis=position, dtype=wanted
    )
