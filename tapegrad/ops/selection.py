"""Choosing between values: where, maximum, minimum, clip and their kin.

Their rules mask the cotangent instead of multiplying it, so nothing leaks from a branch that was
not chosen, not even NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.convert import NUMBERS, to_tensor
from tapegrad.core.device import device
from tapegrad.core.families import Function, binary, elementwise
from tapegrad.core.operand import as_operand
from tapegrad.core.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.comparison import isfinite, isnan
from tapegrad.ops.kinds import as_arrays, kind_of

_HOST_VALUES = (*NUMBERS, list, tuple, np.ndarray, np.generic)

keep: Function = binary(
    "keep",
    lambda t, x2: keep(t, x2),
    None,
    forward=lambda xp, x, mask: xp.where(mask, x, xp.zeros_like(x)),
    conjugates=False,
    doc="Return x where the boolean y holds and 0 elsewhere.",
)

where_p: Primitive = elementwise(
    "where", None, lambda t, x1: keep(t, x1), lambda t, x1: keep(t, ~x1), conjugates=False
)


def where(condition: Any, x: Any, y: Any, name: str | None = None) -> Any:
    """Return elements of `x` where `condition` holds and of `y` elsewhere; all three broadcast.

    >>> where([True, False], [1.0, 2.0], 0.0).tolist()
    [1.0, 0.0]
    """
    condition = as_operand(condition)
    if kind_of(condition) != "b":
        condition = condition != 0
    if isinstance(x, _HOST_VALUES) and isinstance(y, _HOST_VALUES):
        with device(condition.device):  # not where new tensors go
            return where_p(condition, *_alike(x, y))
    return where_p(condition, *_alike(x, y))


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Let numbers and lists adapt to the other branch, not to the condition."""
    if type(x) in NUMBERS and type(y) in NUMBERS:
        wider = isinstance(y, complex) or (isinstance(y, float) and not isinstance(x, complex))
        return (x, as_operand(y)) if wider else (as_operand(x), y)
    if isinstance(x, list | tuple) and not isinstance(y, list | tuple) and type(y) not in NUMBERS:
        return _like(x, y), y
    if isinstance(y, list | tuple):
        x = as_operand(x)
        return x, _like(y, x)
    return x, y


def _like(values: Any, other: Any) -> Any:
    other = as_operand(other)
    return to_tensor(values, like=other if hasattr(other, "array") else None)


maximum: Function = binary(
    "maximum",
    # Ties: the first argument takes all, as in TensorFlow.
    lambda t, x1, x2: keep(t, x1 >= x2),
    lambda t, x1, x2: keep(t, ~(x1 >= x2)),
    conjugates=False,
    doc="Return the larger of x and y; NaN if either is.",
)
minimum: Function = binary(
    "minimum",
    lambda t, x1, x2: keep(t, x1 <= x2),
    lambda t, x1, x2: keep(t, ~(x1 <= x2)),
    conjugates=False,
    doc="Return the smaller of x and y; NaN if either is.",
)


def _fmax(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.maximum(x, y)))


def _fmin(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    return xp.where(xp.isnan(x), y, xp.where(xp.isnan(y), x, xp.minimum(x, y)))


# Comparisons with NaN are false, so "not smaller" keeps x beside a NaN in y; a NaN in x is dropped
# unless y is NaN as well.
fmax: Function = binary(
    "fmax",
    lambda t, x1, x2: keep(t, (x1 >= x2) | isnan(x2)),
    lambda t, x1, x2: keep(t, ~((x1 >= x2) | isnan(x2))),
    forward=_fmax,
    conjugates=False,
    doc="Return the larger of x and y, ignoring NaN where the other is a number.",
)
fmin: Function = binary(
    "fmin",
    lambda t, x1, x2: keep(t, (x1 <= x2) | isnan(x2)),
    lambda t, x1, x2: keep(t, ~((x1 <= x2) | isnan(x2))),
    forward=_fmin,
    conjugates=False,
    doc="Return the smaller of x and y, ignoring NaN where the other is a number.",
)


clip_p: Primitive = elementwise(
    "clip",
    lambda t, x, *, low, high: keep(t, ~((x < low) | (x > high))),
    forward=lambda xp, x, *, low, high: xp.clip(x, low, high),
    conjugates=False,
)


def clip(
    x: Any,
    min: Any = None,  # the Array API's word
    max: Any = None,  # likewise
    name: str | None = None,
) -> Any:
    """Return `x` limited to the interval from `min` to `max`; None means no limit.

    The bounds broadcast against `x`, but not the other way round. On a bound the gradient
    passes to `x`.

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
            f"Together they have shape {result.shape}; broadcast the tensor first."
        )
    return result


def _is_real_number(bound: Any) -> bool:
    return bound is None or type(bound) in (int, float)


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Return `t` limited to the interval from `clip_value_min` to `clip_value_max`.

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
    "nan_to_num", lambda t, x: keep(t, isfinite(x)), forward=_nan_to_num, conjugates=False
)


def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """Return `x` with NaN and infinities replaced; nothing flows back through the replaced.

    By default infinities become the largest finite numbers. `copy` is for NumPy's sake: tensors
    are never changed in place.

    >>> nan_to_num([1.0, float("nan")], nan=5.0).tolist()
    [1.0, 5.0]
    """
    return nan_to_num_p(as_operand(x), nan=nan, posinf=posinf, neginf=neginf)
