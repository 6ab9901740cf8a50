"""Elementwise selection: where, maximum, minimum, fmax, fmin, clip, nan_to_num.

The rules mask the cotangent instead of multiplying it, so that a NaN cannot reach the operand that
was not selected.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.families import Function, binary, elementwise
from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.convert import NUMBERS, to_tensor
from tapegrad.core.values.device import device
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import DTypeError, ShapeError
from tapegrad.ops.elementwise.comparison import isfinite, isnan
from tapegrad.ops.kinds import as_arrays, kind_of

_HOST_VALUES = (*NUMBERS, list, tuple, np.ndarray, np.generic)

keep: Function = binary(
    "keep",
    lambda t, x2: keep(t, x2),
    None,
    forward=lambda xp, x, mask: xp.where(mask, x, xp.zeros_like(x)),
    conjugates=False,
    selects=True,
    doc="Return x where the boolean y is true and 0 elsewhere.",
)

where_p: Primitive = elementwise(
    "where",
    None,
    lambda t, x1: keep(t, x1),
    lambda t, x1: keep(t, ~x1),
    conjugates=False,
    selects=True,
)


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Any:
    """Return elements of `x` where `condition` is true and of `y` elsewhere; all three broadcast.

    >>> where([True, False], [1.0, 2.0], 0.0).tolist()
    [1.0, 0.0]
    """
    condition = as_operand(condition)
    if kind_of(condition) != "b":
        if kind_of(condition) not in "iufcV":
            raise DTypeError("where needs truth values or numbers as condition. Got text.")
        condition = condition != 0
    if isinstance(x, _HOST_VALUES) and isinstance(y, _HOST_VALUES):
        with device(condition.device):  # host values follow the condition, not the default device
            return where_p(condition, *_convert_branches(x, y))
    return where_p(condition, *_convert_branches(x, y))


def _convert_branches(x: Any, y: Any) -> tuple[Any, Any]:
    """Convert numbers and lists to the dtype of the other branch, not of the condition."""
    if type(x) is Tensor and type(y) is Tensor:
        return x, y
    if type(x) in NUMBERS and type(y) in NUMBERS:
        wider = isinstance(y, complex) or (isinstance(y, float) and not isinstance(x, complex))
        return (x, as_operand(y)) if wider else (as_operand(x), y)
    if isinstance(x, list | tuple) and not isinstance(y, list | tuple) and type(y) not in NUMBERS:
        return _like(x, y), y
    if isinstance(y, list | tuple):
        x = as_operand(x)
        return x, _like(y, x)
    if type(x) in NUMBERS or type(y) in NUMBERS:
        return x, y
    x, y = common_operands(x, y)
    return x, y


def _like(values: Any, other: Any) -> Any:
    other = as_operand(other)
    return to_tensor(values, like=other if hasattr(other, "array") else None)


maximum: Function = binary(
    "maximum",
    # In a tie, the first argument receives the whole gradient, as in TensorFlow.
    lambda t, x1, x2: keep(t, x1 >= x2),
    lambda t, x1, x2: keep(t, ~(x1 >= x2)),
    conjugates=False,
    selects=True,
    doc="Return the larger of x and y; NaN if either is NaN.",
)
minimum: Function = binary(
    "minimum",
    lambda t, x1, x2: keep(t, x1 <= x2),
    lambda t, x1, x2: keep(t, ~(x1 <= x2)),
    conjugates=False,
    selects=True,
    doc="Return the smaller of x and y; NaN if either is NaN.",
)


def _fmax(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.maximum(x, y)))


def _fmin(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.minimum(x, y)))


# A comparison with NaN is false. `isnan(x2)` selects x1 where x2 is NaN, so a NaN in x1 is selected
# only if x2 is NaN too.
fmax: Function = binary(
    "fmax",
    lambda t, x1, x2: keep(t, (x1 >= x2) | isnan(x2)),
    lambda t, x1, x2: keep(t, ~((x1 >= x2) | isnan(x2))),
    forward=_fmax,
    conjugates=False,
    selects=True,
    doc="Return the larger of x and y; if one of them is NaN, return the other.",
)
fmin: Function = binary(
    "fmin",
    lambda t, x1, x2: keep(t, (x1 <= x2) | isnan(x2)),
    lambda t, x1, x2: keep(t, ~((x1 <= x2) | isnan(x2))),
    forward=_fmin,
    conjugates=False,
    selects=True,
    doc="Return the smaller of x and y; if one of them is NaN, return the other.",
)


clip_p: Primitive = elementwise(
    "clip",
    lambda t, x, *, low, high: keep(t, ~((x < low) | (x > high))),
    forward=lambda xp, x, *, low, high: xp.clip(x, low, high),
    conjugates=False,
    selects=True,
)


def clip(
    x: Any,
    min: Any = None,  # the Array API's name
    max: Any = None,  # the Array API's name
    name: str | None = None,
) -> Any:
    """Return `x` clipped to the interval [min, max]; None means no bound.

    The bounds must broadcast to the shape of `x`. Where `x` equals a bound, the gradient goes to
    `x`.

    >>> clip([-1.0, 0.5, 2.0], 0, 1).tolist()
    [0.0, 0.5, 1.0]
    """
    x = as_operand(x)
    if _is_real_number(min) and _is_real_number(max) and kind_of(x) == "f":
        low = -math.inf if min is None else float(min)
        high = math.inf if max is None else float(max)
        return clip_p(x, low=low, high=high)
    result = x
    if min is not None:
        result = maximum(result, min)
    if max is not None:
        result = minimum(result, max)
    if result.shape != x.shape:
        raise ShapeError(
            f"The bounds of clip must broadcast to the tensor's shape {x.shape}. "
            f"Tensor and bounds broadcast to {result.shape}; broadcast the tensor first."
        )
    return result


def _is_real_number(bound: Any) -> bool:
    return bound is None or type(bound) in (int, float)


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Return `t` clipped to the interval [clip_value_min, clip_value_max].

    >>> clip_by_value([-1.0, 0.5, 2.0], 0, 1).tolist()
    [0.0, 0.5, 1.0]
    """
    return clip(t, clip_value_min, clip_value_max)


def _nan_to_num(xp: Any, x: Any, *, nan: float, posinf: float | None, neginf: float | None) -> Any:
    limits = xp.finfo(x.dtype)
    x = xp.where(xp.isnan(x), nan, x)
    x = xp.where(x == math.inf, float(limits.max) if posinf is None else posinf, x)
    return xp.where(x == -math.inf, float(limits.min) if neginf is None else neginf, x)


nan_to_num_p: Primitive = elementwise(
    "nan_to_num",
    lambda t, x: keep(t, isfinite(x)),
    forward=_nan_to_num,
    conjugates=False,
    selects=True,
)


def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """Return `x` with NaN and infinities replaced; replaced elements have gradient 0.

    By default infinities become the largest finite numbers. `copy` is accepted for compatibility
    with NumPy and ignored: tensors are never changed in place.

    >>> nan_to_num([1.0, float("nan")], nan=5.0).tolist()
    [1.0, 5.0]
    """
    return nan_to_num_p(as_operand(x), nan=nan, posinf=posinf, neginf=neginf)
