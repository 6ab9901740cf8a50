"""Statistics over axes: variance, moments, averages, covariance. Quantiles are in quantile.py."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axes, normalize_axis
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import float32
from tapegrad.errors import ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.kinds import is_complex, kind_of
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.products.primitives import swap_last
from tapegrad.ops.reduction import primitives as reduction_primitives
from tapegrad.ops.reduction.axes import Axes, count_over
from tapegrad.ops.reduction.primitives import mean_p
from tapegrad.ops.reduction.squares import euclidean_norm_p, sum_of_squares_p
from tapegrad.ops.shape.primitives import reshape_p


def _centred(x: Any, axes: Axes) -> Any:
    return x - mean_p(x, axis=axes, keepdims=True)


def _prepare(name: str, x: Any, axis: Any) -> tuple[Any, Axes]:
    x = as_operand(x)
    if kind_of(x) in "biu":
        x = cast(x, "float64")
    return x, normalize_axes(axis, len(x.shape), name)


def _widened(x: Any) -> Any:
    """Return half precision as single precision, because sums of squares soon exceed 65504."""
    return cast(x, float32) if x.dtype == "float16" else x


def _degrees(x: Any, axes: Axes, correction: float) -> float:
    """Return the divisor of a variance, count - correction, or NaN if that is not positive."""
    return max(count_over(x.shape, axes) - correction, 0) or math.nan


def var(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Return the variance over `axis`: the sum of squared deviations over count - correction.

    It is real for complex values. For integers the result is floating point.

    >>> float(var([1.0, 2.0, 3.0], correction=1))
    1.0
    """
    x, axes = _prepare("var", x, axis)
    given, x = x.dtype, _widened(x)
    squares = sum_of_squares_p(_centred(x, axes), axis=axes, keepdims=bool(keepdims))
    variance = squares / _degrees(x, axes, correction)
    return variance if given == x.dtype else cast(variance, given)


def std(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    """Return the standard deviation over `axis`.

    Where all elements are equal, the derivative is defined as 0 instead of NaN.

    >>> float(std([1.0, 2.0, 3.0], correction=1))
    1.0
    """
    x, axes = _prepare("std", x, axis)
    given, x = x.dtype, _widened(x)
    norm = euclidean_norm_p(_centred(x, axes), axis=axes, keepdims=bool(keepdims))
    deviation = norm / math.sqrt(_degrees(x, axes, correction))
    return deviation if given == x.dtype else cast(deviation, given)


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Any, Any]:
    """Return the mean and the variance over `axes`.

    Half precision is computed in single precision. `shift` is ignored, as in TensorFlow.

    >>> mean, variance = moments([[1.0, 2.0], [3.0, 6.0]], axes=[0])
    >>> mean.tolist(), variance.tolist()
    ([2.0, 4.0], [1.0, 4.0])
    """
    x, over = _prepare("moments", x, axes)
    given, x = x.dtype, _widened(x)
    centre = mean_p(x, axis=over, keepdims=True)
    variance = sum_of_squares_p(x - centre, axis=over, keepdims=bool(keepdims))
    variance = variance / (count_over(x.shape, over) or math.nan)
    mean = centre if keepdims else reshape_p(centre, shape=_dropped(x.shape, over))
    return (cast(mean, given), cast(variance, given)) if given != x.dtype else (mean, variance)


def _dropped(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: str | None = None
) -> tuple[Any, Any]:
    """Return the weighted mean and variance over `axes`.

    >>> mean, variance = weighted_moments([1.0, 4.0], 0, [2.0, 1.0])
    >>> float(mean), float(variance)
    (2.0, 2.0)
    """
    x, over = _prepare("weighted_moments", x, axes)
    weights = _like(frequency_weights, x) + 0 * x
    total = reduction_primitives.sum(weights, over, True)
    mean = reduction_primitives.sum(weights * x, over, True) / total
    distance = x - mean
    variance = reduction_primitives.sum(weights * distance * distance, over, True) / total
    if keepdims:
        return mean, variance
    shape = _dropped(x.shape, over)
    return reshape_p(mean, shape=shape), reshape_p(variance, shape=shape)


def _like(value: Any, x: Any) -> Any:
    """Convert weights to an operand; lists take the dtype of `x`."""
    if hasattr(value, "shape") or not hasattr(x, "array"):
        return as_operand(value)
    return to_tensor(value, like=x)


def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Any, Any, Any, Any]:
    """Return the count, sum and sum of squares of x - shift over `axes`, and the shift.

    >>> count, total, squares, shift = sufficient_statistics([1.0, 2.0], [0])
    >>> float(count), float(total), float(squares), shift
    (2.0, 3.0, 5.0, None)
    """
    x, over = _prepare("sufficient_statistics", x, axes)
    moved = x if shift is None else x - shift
    count = cast(to_tensor(float(count_over(x.shape, over))), x.dtype)
    total = reduction_primitives.sum(moved, over, keepdims)
    return count, total, sum_of_squares_p(moved, axis=over, keepdims=bool(keepdims)), shift


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Return the mean and variance from the results of `sufficient_statistics`.

    >>> total, squares = 3.0, 5.0
    >>> mean, variance = normalize_moments(2.0, total, squares, None)
    >>> float(mean), float(variance)
    (1.5, 0.25)
    """
    moved = as_operand(mean_ss) / counts
    variance = as_operand(variance_ss) / counts - moved * moved
    return (moved if shift is None else moved + shift), variance


def zero_fraction(value: Any, name: str | None = None) -> Any:
    """Return the fraction of elements that are 0, as float32; NaN for an empty tensor.

    >>> float(zero_fraction([0.0, 1.0, 0.0, 2.0]))
    0.5
    """
    value = as_operand(value)
    size = count_over(value.shape, tuple(range(len(value.shape))))
    return (size - cast(reduction_primitives.count_nonzero(value), float32)) / (size or math.nan)


def average(a: Any, axis: Any = None, weights: Any = None, keepdims: bool = False) -> Any:
    """Return the mean over `axis`, weighted if `weights` are given.

    Weights have the shape of `a`, or are one-dimensional along a single `axis`.

    >>> float(average([1.0, 4.0], weights=[2.0, 1.0]))
    2.0
    """
    a, axes = _prepare("average", a, axis)
    if weights is None:
        return mean_p(a, axis=axes, keepdims=bool(keepdims))
    weights = _like(weights, a)
    if weights.shape != a.shape:
        if len(weights.shape) != 1 or len(axes) != 1 or weights.shape[0] != a.shape[axes[0]]:
            raise ShapeError(
                f"average needs weights of shape {a.shape}, or one-dimensional weights as long as "
                f"a single axis. Got shape {weights.shape} and axis {axis}."
            )
        lengths = tuple(n if i in axes else 1 for i, n in enumerate(a.shape))
        weights = reshape_p(weights, shape=lengths)
    total = reduction_primitives.sum(weights, axes, keepdims)
    return reduction_primitives.sum(a * weights, axes, keepdims) / total


def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the range of values over `axis`: the maximum minus the minimum.

    >>> float(ptp([1.0, 5.0, 3.0]))
    4.0
    """
    return reduction_primitives.max(x, axis, keepdims) - reduction_primitives.min(x, axis, keepdims)


def cov(m: Any, rowvar: bool = True, ddof: float = 1) -> Any:
    """Return the covariance matrix of the variables in rows, or columns if not `rowvar`.

    >>> cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    m, _ = _prepare("cov", m, None)
    rank = len(m.shape)
    if rank > 2:
        raise ShapeError(f"cov needs one or two dimensions. Got shape {m.shape}.")
    rows = reshape_p(m, shape=(1, *m.shape)) if rank < 2 else m
    rows = rows if rowvar or rank < 2 else swap_last(rows)
    rows = _centred(rows, (1,))
    other = conj(rows) if is_complex(rows) else rows
    result = matmul(rows, other, transpose_b=True) / _degrees(rows, (1,), ddof)
    return reshape_p(result, shape=()) if result.shape[0] == 1 else result


def corrcoef(x: Any, rowvar: bool = True) -> Any:
    """Return the correlation matrix of the variables in rows, or columns if not `rowvar`.

    >>> corrcoef([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).round(4).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    x, _ = _prepare("corrcoef", x, None)
    rows = reshape_p(x, shape=(1, *x.shape)) if len(x.shape) < 2 else x
    rows = rows if rowvar or len(x.shape) < 2 else swap_last(rows)
    rows = _centred(rows, (1,))
    unit = rows / euclidean_norm_p(rows, axis=(1,), keepdims=True)
    result = matmul(unit, conj(unit) if is_complex(unit) else unit, transpose_b=True)
    return reshape_p(result, shape=()) if result.shape[0] == 1 else result


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """Integrate along `axis` by the trapezoidal rule, with points `x` or spacing `dx`.

    >>> float(trapezoid([1.0, 2.0, 3.0], dx=2.0))
    8.0
    """
    y = as_operand(y)
    axis = normalize_axis(axis, len(y.shape), "trapezoid")
    high, low = _neighbours(y, axis)
    if x is None:
        return reduction_primitives.sum(high + low, axis) * (dx / 2)
    x = _like(x, y)
    if len(x.shape) == 1:
        lengths = [1] * len(y.shape)
        lengths[axis] = x.shape[0]
        x = reshape_p(x, shape=tuple(lengths))
    after, before = _neighbours(x, axis)
    return reduction_primitives.sum((after - before) * (high + low), axis) / 2


def _neighbours(x: Any, axis: int) -> tuple[Any, Any]:
    whole, rest = (slice(None),) * axis, (slice(None),) * (len(x.shape) - axis - 1)
    count = x.shape[axis]
    parts = slice(1, count), slice(0, count - 1)
    high, low = (slice_p(x, index=(*whole, part, *rest)) for part in parts)
    return high, low
