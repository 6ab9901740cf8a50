"""Array creation from values and from fill values. Python floats become float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.device import device as on_device, resolve_device
from tapegrad.core.values.dlpack import import_array
from tapegrad.core.values.dtypes import numpy_dtype, stored_dtype
from tapegrad.core.values.shared import make_private, share
from tapegrad.core.values.tensor import SharedTensor, Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.numpy import manipulation
from tapegrad.numpy.values import (
    as_array,
    as_host,
    checked_array,
    dtype_of,
    refuse_order,
    with_dtype,
)
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.creation import as_constant, as_shape, fillable, full_like_p
from tapegrad.ops.indexing.views import is_contiguous
from tapegrad.ops.shape.functions import broadcast_to, to_device
from tapegrad.ops.shape.joining import holds_tensors


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: Any = None,
    like: Any = None,
) -> Any:
    """Return `a` as an array; it is not copied if it has that dtype, unless `copy` is set.

    Lists may hold arrays, and gradients flow to them.

    >>> asarray([1, 2]).dtype, asarray([1, 2], dtype="float32").dtype
    (<dtype: 'int64'>, <dtype: 'float32'>)
    """
    refuse_order(order)
    if isinstance(a, Tensor | Variable) or type(a) in INTERPRETERS or holds_tensors(a):
        x = with_dtype(a.read_value() if isinstance(a, Variable) else as_array(a), dtype)
        x = x if device is None else to_device(x, device)
        if copy is False and x is not a:
            raise ArgumentError("asarray cannot change dtype or device without a copy.")
        if x is a and (copy or (order == "C" and not is_contiguous(x))):
            return fresh(x)
        return x
    if copy is False:
        return _shared(a, dtype, device)
    with on_device(device):
        if isinstance(a, list | tuple | np.ndarray | np.generic) or type(a) in NUMBERS:
            return as_constant(as_host(a, dtype))
        return with_dtype(as_array(a), dtype)


def _shared(obj: Any, dtype: Any, device: Any) -> Any:
    """Share the memory of another library's array through DLPack."""
    if not hasattr(obj, "__dlpack__"):
        raise ArgumentError(
            f"asarray must copy a {type(obj).__name__}; leave out copy=False to allow it."
        )
    x = share(import_array(obj))
    if (dtype is not None and x.dtype != dtype) or device not in (None, x.device):
        raise ArgumentError("asarray cannot change dtype or device without a copy.")
    return x


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    device: Any = None,
    like: Any = None,
) -> Any:
    """Return a new array with the values of `object`, of at least `ndmin` axes.

    Lists deeper than `ndmax` raise: NumPy would make an array of lists, and tensors hold numbers.

    >>> array([[1.0, 2.0]]).shape, array(3, ndmin=2).shape
    ((1, 2), (1, 1))
    """
    x = asarray(object, dtype, order, device=device, copy=copy)
    if ndmax and len(x.shape) > ndmax:
        raise ArgumentError(f"array with ndmax={ndmax} got lists of depth {len(x.shape)}.")
    missing = ndmin - len(x.shape)
    return manipulation.reshape(x, (*[1] * missing, *x.shape)) if missing > 0 else x


def asanyarray(a: Any, dtype: Any = None, order: str | None = None, **options: Any) -> Any:
    """Return `a` as an array; the same as `asarray`, because tensors have no subclasses.

    >>> asanyarray([1.0]).tolist()
    [1.0]
    """
    return asarray(a, dtype, order, **options)


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """Return `a` as an array of at least one axis in C order: a view like `x.T` is copied.

    >>> ascontiguousarray(2.0).shape
    (1,)
    """
    return array(a, dtype, copy=None, order="C", ndmin=1)


def asarray_chkfinite(a: Any, dtype: Any = None, order: str | None = None) -> Any:
    """Return `a` as an array, or raise if it contains NaN or infinity.

    >>> asarray_chkfinite([1.0]).tolist()
    [1.0]
    """
    x = asarray(a, dtype, order)
    if not np.isfinite(x.numpy()).all():
        raise ArgumentError("asarray_chkfinite found NaN or infinity in the array.")
    return x


def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Return a copy: writing into it does not change `a`, and gradients flow to `a`.

    >>> copy([1.0]).tolist()
    [1.0]
    """
    refuse_order(order)
    return fresh(as_array(a))


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """Return another library's array as a tensor that shares its memory, or as a copy.

    >>> from_dlpack(np.ones(2)).tolist()
    [1.0, 1.0]
    """
    taken = x[...] if isinstance(x, Tensor) else share(import_array(x))
    place = taken.device if device is None else resolve_device(device)
    if place != taken.device:
        if copy is False:
            raise ArgumentError(f"from_dlpack must copy to move from {taken.device} to {place}.")
        return to_device(taken, place)
    return fresh(taken) if copy else taken


def fresh(x: Any) -> Any:
    """Return a copy of a tensor, of its memory too if another library can write to that."""
    result = identity(x)
    if type(result) is SharedTensor:
        make_private(result)
    return result


# Constant arrays


def _filled(shape: Any, value: Any, dtype: Any, device: Any) -> Any:
    kind = numpy_dtype("float64" if dtype is None else dtype)
    with on_device(device):
        seed = as_constant(np.zeros((), kind))
    return full_like_p(fillable(seed, shape), shape=as_shape(shape), value=value, dtype=kind)


def empty(
    shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Return an array of a shape; its values are unspecified (here zeros).

    >>> empty((2, 3)).shape
    (2, 3)
    """
    refuse_order(order)
    return _filled(shape, 0, dtype, device)


def zeros(
    shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Return an array of zeros.

    >>> zeros(2).tolist()
    [0.0, 0.0]
    """
    refuse_order(order)
    return _filled(shape, 0, dtype, device)


def ones(
    shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Return an array of ones.

    >>> ones(2, dtype="int64").tolist()
    [1, 1]
    """
    refuse_order(order)
    return _filled(shape, 1, dtype, device)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Any:
    """Return an array filled with `fill_value`, which may be an array that broadcasts.

    >>> full(2, 7).tolist()
    [7, 7]
    """
    refuse_order(order)
    value = asarray(fill_value, dtype=dtype, device=device)
    return broadcast_to(fillable(value, shape), as_shape(shape))


def _like(a: Any, value: Any, dtype: Any, order: str, shape: Any, device: Any) -> Any:
    refuse_order(order)
    x = as_array(a)
    kind = dtype_of(x) if dtype is None else numpy_dtype(dtype)
    wanted = tuple(x.shape) if shape is None else as_shape(shape)
    result = full_like_p(x, shape=wanted, value=value, dtype=kind)
    return result if device is None else to_device(result, device)


def empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Return an uninitialized array with the shape, dtype and device of `prototype`.

    >>> empty_like([[1, 2]]).shape
    (1, 2)
    """
    return _like(prototype, 0, dtype, order, shape, device)


def zeros_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Return zeros with the shape, dtype and device of another array.

    >>> zeros_like([1, 2]).tolist()
    [0, 0]
    """
    return _like(a, 0, dtype, order, shape, device)


def ones_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Return ones with the shape, dtype and device of another array.

    >>> ones_like([1.5, 2.5]).tolist()
    [1.0, 1.0]
    """
    return _like(a, 1, dtype, order, shape, device)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Return an array with the shape and dtype of another one, filled with `fill_value`.

    >>> full_like([1.0, 2.0], 7).tolist()
    [7.0, 7.0]
    """
    refuse_order(order)
    if type(fill_value) in NUMBERS:
        kind = dtype_of(as_array(a)) if dtype is None else numpy_dtype(dtype)
        return _like(a, checked_array(fill_value, kind).item(), dtype, order, shape, device)
    x = as_array(a)
    value = with_dtype(as_array(fill_value), dtype_of(x) if dtype is None else dtype)
    wanted = tuple(x.shape) if shape is None else as_shape(shape)
    result = broadcast_to(value, wanted)
    return result if device is None else to_device(result, device)


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any
) -> Any:
    """Call a function with the coordinate arrays of a grid, and return its result.

    >>> fromfunction(lambda i, j: i + j, (2, 2)).tolist()
    [[0.0, 1.0], [1.0, 2.0]]
    """
    grid = np.indices(as_shape(shape)).astype(numpy_dtype(dtype))
    return function(*(as_constant(part) for part in grid), **kwargs)


def fromiter(iter: Any, dtype: Any, count: int = -1, *, like: Any = None) -> Any:
    """Return an array of the numbers of an iterator.

    >>> fromiter((k * k for k in range(3)), "int64").tolist()
    [0, 1, 4]
    """
    return as_constant(np.fromiter(iter, numpy_dtype(dtype), count))


def frombuffer(
    buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, like: Any = None
) -> Any:
    """Return an array of the numbers in a bytes buffer.

    >>> frombuffer(bytes([1, 2]), "uint8").tolist()
    [1, 2]
    """
    return as_constant(np.frombuffer(buffer, stored_dtype(dtype), count, offset).copy())
