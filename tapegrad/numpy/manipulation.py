"""Shape manipulation: reshape, transpose, broadcast, flip, roll, repeat.

Results are views where NumPy returns views: a write to one reaches the array it was made from.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import axis_error, normalize_axes, normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy.values import as_array, dtype_of, refuse_order, side_by_side
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.creation import as_shape, full_like_p
from tapegrad.ops.indexing.index_plan import parse_basic
from tapegrad.ops.indexing.views import (
    PERMUTED,
    READ_ONLY,
    RESHAPED,
    SLICED,
    ReadOnly,
    as_view,
    is_contiguous,
    is_fortran,
    is_free_to_reshape,
    memory_order,
)
from tapegrad.ops.shape import functions as shape, rearranging
from tapegrad.ops.shape.primitives import permute_p

Axes = Any
_ALL = slice(None)


def reshape(a: Any, shape: Any, order: str = "C", *, copy: Any = None) -> Any:
    """Return the values in another shape; one entry may be -1, and order 'F' counts columns first.

    >>> reshape([1, 2, 3, 4], (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    x = as_array(a)
    if order == "F" or (order == "A" and is_fortran(x)):
        wanted = _reshaped(x, as_shape(shape)[::-1])
        return permute_dims(_new_shape(permute_dims(x), wanted, copy))
    refuse_order(order)
    return _new_shape(x, _reshaped(x, as_shape(shape)), copy)


def _reshaped(x: Any, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Resolve a -1, also for an empty array."""
    if wanted.count(-1) == 1 and math.prod(x.shape) == 0:
        known = math.prod([n for n in wanted if n != -1])
        return tuple(0 if n == -1 and known else n for n in wanted)
    return wanted


def _new_shape(x: Any, wanted: tuple[int, ...], copy: Any) -> Any:
    result = shape.reshape(x, wanted)
    if copy:
        return identity(result)
    wanted = tuple(result.shape)
    if is_free_to_reshape(x, wanted):
        return as_view(result, x, RESHAPED, wanted)
    if copy is False:
        raise ArgumentError(f"reshape must copy to turn shape {x.shape} into {wanted} here.")
    return result


def _permuted(function: Any, x: Any, *options: Any) -> Any:
    """Return `function(x, *options)`, which permutes the axes, as a view."""
    try:
        plain = tuple([_plain(option) for option in options])
        order = _order(function, len(x.shape), plain)
    except Exception:
        function(x, *options)  # its error names the function and the argument
        raise
    return as_view(permute_p(x, axes=order), x, PERMUTED, order)


def _plain(axes: Any) -> Any:
    """Return axes that may be tensors or arrays as integers, which can be a key."""
    if axes is None or type(axes) is int:
        return axes
    return operator.index(axes) if np.ndim(axes) == 0 else check_wholes("axes", axes)


@lru_cache(maxsize=1024)
def _order(function: Any, ndim: int, options: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the order of the axes after a function of NumPy's has permuted them."""
    strides = range(ndim)  # axis k has stride k, so the strides of the result name its axes
    axes = np.lib.stride_tricks.as_strided(np.zeros(()), [1] * ndim, strides)
    order: tuple[int, ...] = _NUMPY_NAMES[function](axes, *options).strides
    return order


_NUMPY_NAMES: dict[Any, Any] = {
    shape.permute_dims: np.transpose,
    shape.matrix_transpose: np.matrix_transpose,
    shape.swapaxes: np.swapaxes,
    shape.moveaxis: np.moveaxis,
    shape.rollaxis: np.rollaxis,
}


def ravel(a: Any, order: str = "C") -> Any:
    """Return the flattened array; order 'F' takes columns first.

    >>> ravel([[1, 2], [3, 4]]).tolist(), ravel([[1, 2], [3, 4]], "F").tolist()
    ([1, 2, 3, 4], [1, 3, 2, 4])
    """
    x = as_array(a)
    if order == "F" or (order == "A" and is_fortran(x)):
        x = permute_dims(x)
    elif order == "K":
        x = permute_dims(x, memory_order(x))
    else:
        refuse_order(order)
    return _new_shape(x, (math.prod(x.shape),), copy=None if is_contiguous(x) else True)


def permute_dims(a: Any, axes: Any = None) -> Any:
    """Permute the axes (by default, reverse them).

    >>> permute_dims([[1, 2, 3]]).shape
    (3, 1)
    """
    return _permuted(shape.permute_dims, as_array(a), axes)


transpose = permute_dims


def matrix_transpose(x: Any, /) -> Any:
    """Swap the last two axes.

    >>> matrix_transpose([[1, 2, 3]]).shape
    (3, 1)
    """
    return _permuted(shape.matrix_transpose, as_array(x))


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Swap two axes.

    >>> swapaxes([[1, 2, 3]], 0, 1).shape
    (3, 1)
    """
    return _permuted(shape.swapaxes, as_array(a), axis1, axis2)


def moveaxis(a: Any, source: Axes, destination: Axes) -> Any:
    """Move axes to new positions; the others keep their order.

    >>> moveaxis([[1, 2, 3]], 0, -1).shape
    (3, 1)
    """
    return _permuted(shape.moveaxis, as_array(a), source, destination)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Move an axis backwards until it lies before `start`.

    >>> rollaxis([[1, 2, 3]], 1).shape
    (3, 1)
    """
    return _permuted(shape.rollaxis, as_array(a), axis, start)


def expand_dims(a: Any, axis: Any) -> Any:
    """Insert axes of length 1.

    >>> expand_dims([1, 2], 1).tolist()
    [[1], [2]]
    """
    x = as_array(a)
    count = len(axis) if isinstance(axis, list | tuple) else 1
    if any([not -len(x.shape) - count <= k < len(x.shape) + count for k in np.atleast_1d(axis)]):
        raise axis_error(
            f"expand_dims got axis {axis} for an array of {len(x.shape)} axes.", axis, len(x.shape)
        )
    return _with_other_axes(x, shape.expand_dims(x, axis))


def squeeze(a: Any, axis: Any = None) -> Any:
    """Remove axes of length 1: the given ones, or all.

    >>> squeeze([[1, 2]]).tolist()
    [1, 2]
    """
    x = as_array(a)
    return x if axis == () else _with_other_axes(x, shape.squeeze(x, axis))


def _with_other_axes(x: Any, result: Any) -> Any:
    """Return a result with more or fewer axes of length 1 as a view of `x`."""
    return as_view(result, x, RESHAPED, tuple(result.shape))


def atleast_1d(*arys: Any) -> Any:
    """Return arrays with at least one axis.

    >>> atleast_1d(1.0).tolist()
    [1.0]
    """
    return _several(shape.atleast_1d, arys)


def atleast_2d(*arys: Any) -> Any:
    """Return arrays with at least two axes: a vector becomes a row.

    >>> atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    return _several(shape.atleast_2d, arys)


def atleast_3d(*arys: Any) -> Any:
    """Return arrays with at least three axes: a vector becomes the middle axis.

    >>> atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """
    return _several(shape.atleast_3d, arys)


def _several(function: Any, arys: tuple[Any, ...]) -> Any:
    arrays = [as_array(a) for a in arys]
    views = [_with_other_axes(x, function(x)) for x in arrays]
    return tuple(views) if len(arys) != 1 else views[0]


# Broadcasting


def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Broadcast an array to a shape.

    >>> broadcast_to([1, 2], (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    x = as_array(array)
    return _broadcast(x, as_shape(shape), "broadcast_to")


def _broadcast(x: Any, wanted: tuple[int, ...], function: str) -> Any:
    result = shape.broadcast_to(x, wanted)
    how = ReadOnly(
        function, lambda x: shape.broadcast_to(x, wanted), lambda x: np.broadcast_to(x, wanted)
    )
    return as_view(result, x, READ_ONLY, how)


def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """Broadcast arrays to their common shape.

    >>> [x.shape for x in broadcast_arrays([1, 2], [[1], [2]])]
    [(2, 2), (2, 2)]
    """
    others = [k for k, arg in enumerate(args) if arg is None or isinstance(arg, str)]
    given = [arg for k, arg in enumerate(args) if k not in others]
    arrays = side_by_side(*given)
    wanted = broadcast_shapes(*[tuple(x.shape) for x in arrays])
    result = [
        x if tuple(x.shape) == wanted else _broadcast(x, wanted, "broadcast_arrays") for x in arrays
    ]
    for k in others:  # matplotlib passes None and strings next to lengths
        result.insert(k, np.broadcast_to(np.asarray(args[k]), wanted))
    return tuple(result)


def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    """Return the shape that several shapes broadcast to.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    if any([n is None for part in args if not isinstance(part, int) for n in part]):
        raise ArgumentError("broadcast_shapes needs known lengths. Got None.")
    try:
        return np.broadcast_shapes(*args)
    except ValueError as error:
        raise ShapeError(f"Shapes {args} could not be broadcast together.") from error


# Order and repetition


def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order of entries along axes (all by default).

    >>> flip([1, 2, 3]).tolist()
    [3, 2, 1]
    """
    x = as_array(m)
    if not x.shape and not axis:
        return identity(x)  # a number in NumPy, and thus no view
    result = rearranging.flip(x, axis)
    reversed_axes = normalize_axes(axis, len(x.shape), "flip")
    order = [slice(None, None, -1) if k in reversed_axes else _ALL for k in range(len(x.shape))]
    return as_view(result, x, SLICED, parse_basic(tuple(order), x.shape))


def fliplr(m: Any) -> Any:
    """Reverse the order of entries along the second axis.

    >>> fliplr([[1, 2]]).tolist()
    [[2, 1]]
    """
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """Reverse the order of entries along the first axis.

    >>> flipud([1, 2]).tolist()
    [2, 1]
    """
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Rotate the array by `k` quarter turns in the plane of two axes.

    >>> rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    x = as_array(m)
    first, second = (normalize_axis(axis, len(x.shape), "rot90") for axis in axes)
    if first == second:
        raise ArgumentError(f"rot90 needs two different axes. Got {tuple(axes)}.")
    quarters = k % 4
    if quarters == 1:
        return swapaxes(flip(x, second), first, second)
    if quarters == 3:
        return flip(swapaxes(x, first, second), second)
    return flip(x, (first, second) if quarters else ())


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift entries along axes; those beyond the end reappear at the start.

    >>> roll([1, 2, 3], 1).tolist()
    [3, 1, 2]
    """
    x = as_array(a)
    if axis is None:
        total = sum(as_shape(shift, "shift"))
        return rearranging.roll(x, total)
    shifts, axes = as_shape(shift, "shift"), as_shape(axis, "axis")
    pairs = max(len(shifts), len(axes))
    if not {len(shifts), len(axes)} <= {1, pairs}:
        raise ShapeError(f"roll needs a shift for each axis. Got {shift} for axes {axis}.")
    # An axis that occurs twice is shifted by both amounts.
    amounts: dict[int, int] = {}
    for k in range(pairs):
        place = normalize_axis(axes[k % len(axes)], len(x.shape), "roll")
        amounts[place] = amounts.get(place, 0) + shifts[k % len(shifts)]
    if not amounts:
        return identity(x)
    return rearranging.roll(x, tuple(amounts.values()), tuple(amounts))


def tile(A: Any, reps: Any) -> Any:
    """Repeat the whole array along each axis.

    >>> tile([1, 2], 2).tolist()
    [1, 2, 1, 2]
    """
    return rearranging.tile(as_array(A), as_shape(reps, "reps"))


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each entry along an axis, `repeats` times or `repeats[k]` times.

    >>> repeat([1, 2], 2).tolist(), repeat([1, 2], [1, 2]).tolist()
    ([1, 1, 2, 2], [1, 2, 2])
    """
    return rearranging.repeat(as_array(a), repeats, axis)


def resize(a: Any, new_shape: Any) -> Any:
    """Return an array of a shape filled with the values of `a`, repeated as needed.

    >>> resize([1, 2, 3], (2, 2)).tolist()
    [[1, 2], [3, 1]]
    """
    x, wanted = ravel(a), as_shape(new_shape, "new_shape")
    size = math.prod(wanted)
    if any([n < 0 for n in wanted]):
        raise ArgumentError(f"resize needs nonnegative lengths. Got {wanted}.")
    if not x.shape[0] or not size:
        return full_like_p(x, shape=wanted, value=0, dtype=dtype_of(x))
    times = -(-size // x.shape[0])
    return reshape(tile(x, times)[:size], wanted)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Remove zeros at the front ('f') and back ('b') of axes (None: all).

    >>> trim_zeros([0, 1, 2, 0]).tolist()
    [1, 2]
    """
    x = as_array(filt)
    if trim.lower() not in ("f", "b", "fb", "bf"):
        raise ArgumentError(f"trim must consist of 'f' and 'b'. Got {trim!r}.")
    places = np.argwhere(read_on_host(x, "trim_zeros()"))
    index = [slice(None)] * len(x.shape)
    for k in normalize_axes(axis, len(x.shape), "trim_zeros"):
        first = int(places[:, k].min()) if len(places) and "f" in trim.lower() else 0
        last = int(places[:, k].max()) + 1 if "b" in trim.lower() and len(places) else None
        index[k] = slice(first, last) if len(places) else slice(0, 0)
    return x[tuple(index)]
