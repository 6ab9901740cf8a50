"""Changes of shape that keep the values: reshape, transpose, broadcast, squeeze, to_device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.operand import (
    as_operand,
    axis_error,
    normalize_axes,
    normalize_axis,
)
from tapegrad.core.values.device import resolve_device
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ShapeError
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.creation import as_constant, as_shape
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.shape.primitives import broadcast_p, permute_p, reshape_p, to_device_p

Axes = int | Sequence[int] | None


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """Return a tensor with the same values and another shape; one length may be -1.

    >>> reshape([1.0, 2.0, 3.0, 4.0], (2, -1)).shape
    (2, 2)
    """
    x = as_operand(tensor)
    return reshape_p(x, shape=_resolve_shape(tuple(x.shape), as_shape(shape)))


@lru_cache(maxsize=1024)
def _resolve_shape(old: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Replace -1 by the length that keeps the number of elements."""
    size = math.prod(old)
    if wanted.count(-1) == 1:
        known = math.prod(n for n in wanted if n != -1)
        if known and size % known == 0:
            return tuple(size // known if n == -1 else n for n in wanted)
    if wanted.count(-1) or math.prod(wanted) != size:
        error = ShapeError(f"reshape cannot turn shape {old} ({size} elements) into {wanted}.")
        error.elements = size, math.prod(wanted)
        raise error
    return wanted


def ravel(x: Any, name: str | None = None) -> Any:
    """Return all elements along one axis.

    >>> ravel([[1.0], [2.0]]).shape
    (2,)
    """
    return reshape(x, (-1,))


flatten = ravel


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:  # TF's name
    """Broadcast a tensor to `shape`.

    >>> broadcast_to([1.0, 2.0], (3, 2)).shape
    (3, 2)
    """
    x = as_operand(input)
    wanted, ndim = as_shape(shape), len(x.shape)
    tail = wanted[len(wanted) - ndim :]
    if len(wanted) < ndim or any(
        have not in (1, want) for have, want in zip(x.shape, tail, strict=True)
    ):
        raise ShapeError(f"broadcast_to cannot broadcast shape {x.shape} to {wanted}.")
    return broadcast_p(x, shape=wanted)


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Return the shape that two shapes broadcast to.

    >>> broadcast_static_shape((2, 1), (3,))
    (2, 3)
    """
    first, second = as_shape(shape_x, "shape_x"), as_shape(shape_y, "shape_y")
    try:
        return TensorShape(np.broadcast_shapes(first, second))
    except (ValueError, RuntimeError) as error:  # NumPy broadcasts up to 32 dimensions
        raise ShapeError(f"Shapes {first} and {second} could not be broadcast together.") from error


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Return the shape that two shapes broadcast to, as a tensor.

    >>> broadcast_dynamic_shape((2, 1), (3,)).tolist()
    [2, 3]
    """
    return as_constant(np.asarray(broadcast_static_shape(shape_x, shape_y), np.int32))


def broadcast_arrays(*args: Any) -> list[Any]:
    """Return all tensors broadcast to their common shape.

    >>> [x.shape for x in broadcast_arrays([1.0, 2.0], [[1.0], [2.0]])]
    [(2, 2), (2, 2)]
    """
    values = [as_operand(arg) for arg in args]
    shape: tuple[int, ...] = ()
    for value in values:
        shape = broadcast_static_shape(shape, value.shape)
    return [broadcast_p(value, shape=tuple(shape)) for value in values]


def permute_dims(x: Any, axes: Sequence[int] | None = None) -> Any:
    """Return `x` with its axes in the given order (reversed by default).

    >>> permute_dims([[1.0, 2.0, 3.0]]).shape
    (3, 1)
    """
    x = as_operand(x)
    order = None if axes is None else check_wholes("axes", axes)
    return permute_p(x, axes=_permutation(order, len(x.shape)))


@lru_cache(maxsize=1024)
def _permutation(order: tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Return the permutation with nonnegative axes; None reverses the axes."""
    order = tuple(range(ndim))[::-1] if order is None else order
    normal = tuple(a + ndim if a < 0 else a for a in order)
    if sorted(normal) != list(range(ndim)):
        raise ShapeError(f"axes must be a permutation of {list(range(ndim))}. Got {order}.")
    return normal


def transpose(
    a: Any, perm: Any = None, conjugate: bool = False, name: str | None = "transpose"
) -> Any:
    """Return `a` with its axes in the order `perm` (reversed by default).

    >>> transpose([[1.0, 2.0, 3.0]]).shape
    (3, 1)
    """
    permuted = permute_dims(a, perm)
    return arithmetic.conj(permuted) if conjugate else permuted


def matrix_transpose(a: Any, name: str | None = "matrix_transpose", conjugate: bool = False) -> Any:
    """Return `a` with its last two axes swapped.

    >>> matrix_transpose([[[1.0, 2.0, 3.0]]]).shape
    (1, 3, 1)
    """
    x = as_operand(a)
    ndim = len(x.shape)
    if ndim < 2:
        raise ShapeError(f"matrix_transpose needs at least 2 axes. Got shape {x.shape}.")
    return transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2), conjugate)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Exchange two axes.

    >>> swapaxes([[[1.0, 2.0]]], 0, 2).shape
    (2, 1, 1)
    """
    x = as_operand(x)
    order = list(range(len(x.shape)))
    first = normalize_axis(axis1, len(order), "swapaxes")
    second = normalize_axis(axis2, len(order), "swapaxes")
    order[first], order[second] = order[second], order[first]
    return permute_p(x, axes=tuple(order))


def moveaxis(x: Any, source: Axes, destination: Axes) -> Any:
    """Move axes to new positions; the others keep their order.

    >>> moveaxis([[[1.0, 2.0]]], -1, 0).shape
    (2, 1, 1)
    """
    x = as_operand(x)
    ndim = len(x.shape)
    starts = _axis_list(source, ndim, "moveaxis")
    ends = _axis_list(destination, ndim, "moveaxis")
    if len(starts) != len(ends):
        raise ShapeError(
            f"moveaxis needs as many destinations as sources. Got {destination} and {source}."
        )
    order = [axis for axis in range(ndim) if axis not in starts]
    for end, start in sorted(zip(ends, starts, strict=True)):
        order.insert(end, start)
    return permute_p(x, axes=tuple(order))


def _axis_list(axes: Any, ndim: int, name: str) -> list[int]:
    wanted = axes if np.iterable(axes) else (axes,)
    return [normalize_axis(axis, ndim, name) for axis in wanted]


def rollaxis(x: Any, axis: int, start: int = 0) -> Any:
    """Move an axis backwards until it lies before position `start`.

    >>> rollaxis([[[1.0, 2.0]]], 2).shape
    (2, 1, 1)
    """
    x = as_operand(x)
    ndim = len(x.shape)
    axis = normalize_axis(axis, ndim, "rollaxis")
    if not -ndim <= start <= ndim:
        raise axis_error(f"rollaxis needs start from {-ndim} to {ndim}. Got {start}.", start, ndim)
    start = start + ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def expand_dims(input: Any, axis: Any, name: str | None = None) -> Any:  # TF's name
    """Insert axes of length 1 at the given positions of the result.

    >>> expand_dims([1.0, 2.0], -1).shape
    (2, 1)
    """
    x = as_operand(input)
    count = len(axis) if isinstance(axis, list | tuple) else 1
    ndim = len(x.shape) + count
    places = normalize_axes(axis, ndim, "expand_dims")
    lengths = iter(x.shape)
    return reshape_p(x, shape=tuple(1 if k in places else next(lengths) for k in range(ndim)))


def squeeze(input: Any, axis: Axes = None, name: str | None = None) -> Any:  # TF's name
    """Remove axes of length 1: the given ones, or all.

    >>> squeeze([[[1.0, 2.0]]]).shape
    (2,)
    """
    x = as_operand(input)
    shape = tuple(x.shape)
    everywhere = axis is None or (isinstance(axis, list | tuple) and not axis)
    if everywhere:
        removed = tuple(k for k, n in enumerate(shape) if n == 1)
    else:
        removed = normalize_axes(axis, len(shape), "squeeze")
    if any(shape[k] != 1 for k in removed):
        raise ShapeError(f"squeeze can only remove axes of length 1. Got axis {axis} of {shape}.")
    return reshape_p(x, shape=tuple(n for k, n in enumerate(shape) if k not in removed))


def atleast_1d(*arys: Any) -> Any:
    """Return tensors with at least one axis.

    >>> atleast_1d(1.0).shape
    (1,)
    """
    return _reshape_each(arys, lambda shape: shape or (1,))


def atleast_2d(*arys: Any) -> Any:
    """Return tensors with at least two axes; new axes are added in front.

    >>> atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    return _reshape_each(arys, lambda shape: (*[1] * (2 - len(shape)), *shape))


def atleast_3d(*arys: Any) -> Any:
    """Return tensors with at least three axes, as NumPy does: a vector becomes (1, n, 1).

    >>> atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """
    return _reshape_each(
        arys,
        lambda shape: (
            (1, *shape, 1)[: 3 if shape else 2] + (() if shape else (1,))
            if len(shape) < 2
            else (*shape, *[1] * (3 - len(shape)))
        ),
    )


def _reshape_each(values: tuple[Any, ...], new_shape: Any) -> Any:
    operands = [as_operand(value) for value in values]
    shaped = [reshape_p(x, shape=new_shape(tuple(x.shape))) for x in operands]
    return shaped[0] if len(shaped) == 1 else shaped


# Queries of the shape, which have no derivative


def shape(input: Any, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """Return the shape as an integer tensor.

    >>> shape([[1.0, 2.0]]).tolist()
    [1, 2]
    """
    return as_constant(np.asarray(as_operand(input).shape, numpy_dtype(out_type)))


def shape_n(input: Sequence[Any], out_type: Any = "int32", name: str | None = None) -> list[Tensor]:
    """Return the shape of each tensor.

    >>> len(shape_n([[1.0], [2.0]]))
    2
    """
    return [shape(value, out_type) for value in input]


def size(input: Any, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """Return the number of elements as an integer tensor.

    >>> int(size([[1.0, 2.0]]))
    2
    """
    count = math.prod(as_operand(input).shape)
    return as_constant(np.asarray(count, numpy_dtype(out_type)))


def rank(input: Any, name: str | None = None) -> Tensor:  # TensorFlow's name
    """Return the number of axes as an integer tensor.

    >>> int(rank([[1.0, 2.0]]))
    2
    """
    return as_constant(np.asarray(len(as_operand(input).shape), np.int32))


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Any:
    """Return `x` if it has the given shape, else raise; None matches any length.

    >>> ensure_shape([[1.0, 2.0]], (None, 2)).shape
    (1, 2)
    """
    x = as_operand(x)
    wanted = tuple(getattr(shape, "dims", shape))
    have = tuple(x.shape)
    if len(wanted) != len(have) or any(
        want is not None and want != n for want, n in zip(wanted, have, strict=True)
    ):
        raise ShapeError(f"ensure_shape expects shape {wanted}. Got {have}.")
    return identity(x)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Any]:
    """Return a new tensor for each tensor of a list.

    >>> len(identity_n([[1.0], [2.0]]))
    2
    """
    return [identity(as_operand(value)) for value in input]


def to_device(x: Any, device: str, name: str | None = None) -> Any:
    """Return `x` on another device; the gradient is on the device of `x`.

    >>> to_device([1.0, 2.0], "cpu").device
    'cpu'
    """
    x = as_operand(x)
    source = x.device if hasattr(x, "node") or hasattr(x, "level") else backend_of(x).device_of(x)
    return to_device_p(x, device=resolve_device(device), source=source)
