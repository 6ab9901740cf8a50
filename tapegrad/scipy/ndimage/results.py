"""Helpers of all image functions: dtypes, complex images, and arguments per axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.elementwise.complex_numbers import join
from tapegrad.ops.elementwise.rounding import trunc
from tapegrad.scipy.vocabulary import (
    clip,
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


def apply_to_parts(
    image: Any, cval: Any, output: Any, apply: Apply, name: str, *, rounds: bool = False
) -> Any:
    """Apply a real linear function to an image, separately to both parts of a complex one.

    Integer images are computed in float64. As in SciPy the result is converted back: sampling
    rounds and filters truncate. `output` is a dtype.
    """
    x = operand(image)
    dtype = _wanted(output, _dtype_before(image, x), name)
    if is_complex(x):
        y = join(apply(real(x), _part(cval, 0)), apply(imag(x), _part(cval, 1)))
    else:
        y = apply(x, cval)
    if dtype.kind in "iu" and rounds:
        most = np.iinfo(dtype)
        y = clip(trunc(where(y > 0.0, y + 0.5, y - 0.5)), float(most.min), float(most.max))
    return in_dtype(y, as_dtype(dtype))


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


def _wanted(output: Any, before: np.dtype[Any], name: str) -> np.dtype[Any]:
    if output is None:
        return before
    if hasattr(output, "shape") and not isinstance(output, type):
        raise ArgumentTypeError(
            f"output of {name} must be a dtype; it cannot be an array to write to. "
            f"Got {type(output).__name__}. Use the return value."
        )
    return as_dtype(output).dtype


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
    wanted = axes if isinstance(axes, list | tuple) else [axes]
    found = [normalize_axis(axis, rank, name) for axis in wanted]
    if len(set(found)) < len(found):
        raise ArgumentError(f"{name} needs distinct axes. Got {tuple(wanted)}.")
    return found
