"""Evenly spaced numbers: arange, linspace, logspace and geomspace."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.device import device as on_device
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ZeroDivisorError
from tapegrad.numpy.values import as_array, dtype_of, inexact, is_array, side_by_side, with_dtype
from tapegrad.ops.creation import as_constant
from tapegrad.ops.elementwise.exponential import log10
from tapegrad.ops.elementwise.powers import power
from tapegrad.ops.elementwise.rounding import floor
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.shape.functions import broadcast_to, expand_dims, moveaxis, reshape
from tapegrad.ops.shape.joining import concat


def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = 1,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    like: Any = None,
) -> Any:
    """Return the numbers from `start` (default 0) up to `stop`, exclusive.

    >>> arange(3).tolist(), arange(1.0, 2.0, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """
    kind = args[0] if args else dtype
    if start is None and stop is None:
        raise ArgumentTypeError("arange needs a stop. Got neither start nor stop.")
    if stop is None or start is None:
        start, stop = 0, start if stop is None else stop
    # The numbers depend on start and step, whose derivatives are lost: tapes warn of `asarray`.
    start, step = [np.asarray(x) if isinstance(x, Tensor) else x for x in (start, step)]
    ends = [start, stop.numpy() if isinstance(stop, Tensor) else stop, step]
    native = None if kind is None else numpy_dtype(kind)
    if not ends[2]:
        raise ZeroDivisorError("arange needs a nonzero step.")
    with on_device(device):
        return as_constant(np.arange(*ends, dtype=native))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`, differentiable in both.

    >>> linspace(0, 1, 3).tolist(), linspace(0, 1, 4, endpoint=False).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 0.75])
    """
    try:
        count = operator.index(num)
    except TypeError:
        raise ArgumentTypeError(f"linspace needs an integer num. Got {num!r}.") from None
    with on_device(device):
        first, last = _ends(start, stop, dtype)
        return _spaced(first, last, count, endpoint, retstep, dtype, axis)


def _ends(start: Any, stop: Any, dtype: Any) -> tuple[Any, Any]:
    """Return both ends in the dtype of the computation: float64 unless arrays are narrower."""
    first, last = side_by_side(start, stop)
    pairs = ((start, first), (stop, last))
    weak = [x if type(x) in NUMBERS else dtype_of(end) for x, end in pairs]
    kind = np.result_type(*weak, 1.0)
    if dtype is not None and numpy_dtype(dtype).kind == "c":
        kind = np.result_type(kind, numpy_dtype(dtype))
    if all([type(x) in NUMBERS for x in (start, stop)]):
        kind = np.result_type(kind, "float64")
    return with_dtype(first, inexact(kind)), with_dtype(last, inexact(kind))


def _spaced(
    first: Any, last: Any, num: int, endpoint: bool, retstep: bool, dtype: Any, axis: int
) -> Any:
    if num < 0:
        raise ArgumentError(f"linspace needs num >= 0. Got {num}.")
    parts = num - 1 if endpoint else num
    step = (last - first) / parts if parts > 0 else (last - first) * math.nan
    count = np.arange(num).reshape(-1, *[1] * len(step.shape)).astype(dtype_of(first))
    result = first + as_array(count, first) * (step if parts > 0 else last - first)
    result = _with_end(result, last) if endpoint and num > 1 else result
    result = moveaxis(result, 0, axis) if axis else result
    if dtype is not None and numpy_dtype(dtype).kind in "iu":
        result = floor(result)
    result = with_dtype(result, dtype)
    return (result, step) if retstep else result


def _with_end(result: Any, last: Any) -> Any:
    """Return the numbers with the end itself in the last place, without rounding errors."""
    return concat([result[:-1], _as_row(last, result)])


def _as_row(value: Any, rows: Any) -> Any:
    """Return a value as one row next to others."""
    return expand_dims(broadcast_to(value, tuple(rows.shape[1:])), 0)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Return numbers whose logarithms are evenly spaced: `base ** linspace(start, stop)`.

    >>> logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    if np.ndim(base):
        # The axis counts in the common shape of all three.
        start, stop, base = side_by_side(start, stop, base)
        rank = max(len(x.shape) for x in (start, stop, base))
        start, stop, base = (
            reshape(x, (*[1] * (rank - len(x.shape)), *x.shape)) for x in (start, stop, base)
        )
        base = expand_dims(base, axis)
    exponents = linspace(start, stop, num, endpoint, False, None, axis)
    return with_dtype(power(base, exponents), dtype)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Return numbers from `start` to `stop` in a geometric progression.

    >>> geomspace(1, 8, 4).round(12).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    if any([np.any(np.asarray(end) == 0) for end in (start, stop) if not is_array(end)]):
        raise ArgumentError("geomspace cannot start or stop at 0.")
    first, last = _ends(start, stop, dtype)
    wide = np.result_type(dtype_of(first), "float64")
    first, last = with_dtype(first, wide), with_dtype(last, wide)
    ratio = last / first
    if is_complex(ratio):
        powers = np.linspace(0.0, 1.0, num, endpoint).astype(dtype_of(ratio))
        powers = powers.reshape(-1, *[1] * len(ratio.shape))
        result = first * power(ratio, as_array(powers, ratio))
    else:
        # Powers of 10 make decades exact, so that integers are not cut to the one below.
        result = first * power(10.0, linspace(0.0, log10(ratio), num, endpoint))
    if num > 0:
        # Where the ratio is not a positive number, the ends are still known.
        result = concat([_as_row(first, result), result[1:]])
    result = _with_end(result, last) if endpoint and num > 1 else result
    return with_dtype(moveaxis(result, 0, axis) if axis else result, dtype)
