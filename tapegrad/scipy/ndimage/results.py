"""Helpers of all image functions: dtypes, complex images, and arguments per axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.elementwise.complex_numbers import join
from tapegrad.ops.elementwise.rounding import trunc
from tapegrad.ops.kinds import kind_of
from tapegrad.scipy.vocabulary import (
    clip,
    floor,
    holds_tensors,
    imag,
    in_dtype,
    is_complex,
    numpy_dtype_of,
    operand,
    real,
    where,
)

Apply = Callable[[Any, Any], Any]
Store = Callable[[Any], Any]


def apply_to_parts(
    image: Any, cval: Any, output: Any, apply: Apply, name: str, *, rounds: bool = False
) -> Any:
    """Apply a real linear function to an image, separately to both parts of a complex one.

    Integer images are computed in float64. As in SciPy the result is converted back: sampling
    rounds and filters truncate. `output` is a dtype, or an array to write to.
    """
    x = operand(image)
    before = _dtype_before(image, x)
    if 0 in x.shape and not rounds:
        y = x  # a filter keeps the shape
    elif is_complex(x):
        y = join(apply(real(x), _part(cval, 0)), apply(imag(x), _part(cval, 1)))
    else:
        y = apply(x, cval)
    dtype = wanted_dtype(output, before)
    if dtype.kind in "iu" and rounds and not is_complex(y):
        most = np.iinfo(dtype)
        y = clip(trunc(where(y > 0.0, y + 0.5, y - 0.5)), float(most.min), float(most.max))
    return deliver(y, output, before, name)


def deliver(y: Any, output: Any, before: np.dtype[Any], name: str) -> Any:
    """Return a result in the dtype `output` or `before`, or write it to the array `output`."""
    dtype = wanted_dtype(output, before)
    if is_complex(y) and dtype.kind != "c":
        if _is_array(output):
            raise ArgumentTypeError(
                f"output of {name} must have a complex dtype for this result. Got {dtype}."
            )
        warn_outside(
            f"The result of {name} is complex; its dtype is that of {dtype} and complex64."
        )
        dtype = np.promote_types(dtype, np.complex64)
    is_wrapped = dtype.kind == "u" and kind_of(y) == "f"
    y = _unsigned(y, dtype) if is_wrapped else in_dtype(y, as_dtype(dtype))
    if not _is_array(output):
        return y
    if tuple(output.shape) != tuple(y.shape):
        raise ShapeError(
            f"output of {name} needs the shape of the result, {tuple(y.shape)}. "
            f"Got {tuple(output.shape)}."
        )
    output[...] = y.numpy() if isinstance(output, np.ndarray) else y
    return output


def _is_array(output: Any) -> bool:
    return isinstance(output, Tensor | Variable | np.ndarray)


def wanted_dtype(output: Any, before: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a result: that of `output` if it is an array or a dtype, or `before`.

    >>> wanted_dtype(np.zeros(2, np.int8), np.dtype("float64"))
    dtype('int8')
    """
    if output is None:
        return before
    wanted: np.dtype[Any] = (
        output.dtype
        if isinstance(output, np.ndarray)
        else as_dtype(output.dtype if _is_array(output) else output).dtype
    )
    return wanted


def storing(image: Any, output: Any) -> Store:
    """Return what a step of a filter does to values: SciPy stores them in the output array.

    >>> storing([1, 2], None)(operand([-1.5, 2.5])).tolist()
    [-1.0, 2.0]
    """
    dtype = wanted_dtype(output, _dtype_before(image, operand(image)))
    if dtype.kind == "u":
        count = 2.0 ** (8 * dtype.itemsize)
        return lambda x: where(trunc(x) < 0.0, trunc(x) + count, trunc(x))
    return trunc if dtype.kind == "i" else lambda x: x


def _unsigned(y: Any, dtype: np.dtype[Any]) -> Any:
    """Cast to an unsigned dtype; numbers out of its range wrap around, as in SciPy."""
    if dtype.itemsize < 8:
        whole, count = trunc(y), 2.0 ** (8 * dtype.itemsize)
        return in_dtype(whole - floor(whole / count) * count, as_dtype(dtype))
    most = float(2**64 - 2**11)
    up, down = (in_dtype(clip(x, 0.0, most), as_dtype(dtype)) for x in (y, -y))
    return up - down


def _dtype_before(image: Any, x: Any) -> np.dtype[Any]:
    if isinstance(image, list | tuple | int) and not holds_tensors(image):
        image = np.asarray(image)
    dtype = getattr(image, "dtype", None)
    return numpy_dtype_of(x) if dtype is None else as_dtype(dtype).dtype


def _part(cval: Any, which: int) -> Any:
    if isinstance(cval, int | float | complex):
        return (complex(cval).real, complex(cval).imag)[which]
    if is_complex(cval):
        return (real, imag)[which](cval)
    return cval if which == 0 else 0.0


def checked_order(order: Any, name: str, least: int = 0) -> int:
    """Return the order of a spline; raise if it is not supported.

    >>> checked_order(3, "zoom")
    3
    """
    if order not in range(least, 6):
        raise ArgumentError(f"{name} needs a spline order from {least} to 5. Got {order!r}.")
    return int(order)


def per_axis(value: Any, count: int, what: str, name: str) -> list[Any]:
    """Return one value for each axis; a single value is repeated.

    >>> per_axis("wrap", 2, "mode", "sobel")
    ['wrap', 'wrap']
    """
    shape = getattr(value, "shape", None)
    if isinstance(value, str) or not (isinstance(value, list | tuple) or shape):
        return [value] * count
    values = [value[k] for k in range(shape[0])] if shape else list(value)
    if len(values) != count:
        raise ArgumentError(
            f"{name} needs one {what} per axis, {count} in total. Got {len(values)}."
        )
    return values


def normalize_filter_axes(axes: Any, rank: int, name: str) -> list[int]:
    """Return the axes in the given order as non-negative numbers; None means all.

    >>> normalize_filter_axes((-1, 0), 3, "sobel")
    [2, 0]
    """
    if axes is None:
        return list(range(rank))
    if np.ndim(axes) and not isinstance(axes, list | tuple):
        axes = axes if isinstance(axes, np.ndarray) else read_on_host(axes, f"axes of {name}")
        axes = list(axes.tolist())
    wanted = axes if isinstance(axes, list | tuple) else [axes]
    found: list[int] = [normalize_axis(axis, rank, name) for axis in wanted]
    if len(set(found)) < len(found):
        raise ArgumentError(f"{name} needs distinct axes. Got {tuple(wanted)}.")
    return found


def by_axis(axes: Sequence[int], rank: int, values: Sequence[Any], plain: bool) -> list[Any]:
    """Return one value per axis in ascending order of the axes, as weights and footprints have it.

    With `plain`, values for all axes of an image are already in that order.

    >>> by_axis([2, 0], 3, ["a", "b"], plain=True), by_axis([1, 0], 2, ["a", "b"], plain=True)
    (['b', 'a'], ['a', 'b'])
    """
    if plain and len(axes) == rank:
        return list(values)
    return [values[k] for k in sorted(range(len(axes)), key=axes.__getitem__)]
