"""Reductions over axes, with NumPy's parameters and dtypes: small integers add up in 64 bits."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, DTypeError
from tapegrad.numpy.values import (
    NoValue,
    as_array,
    checked_array,
    deliver,
    dtype_of,
    floating,
    is_array,
    is_axis_of_number,
    selected,
    summed_dtype,
    with_dtype,
    with_numbers,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise.arithmetic import conj, subtract
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.elementwise.selection import maximum, minimum, where as choose
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.reduction import cumulative, primitives as reduction, statistics
from tapegrad.ops.reduction.axes import count_over
from tapegrad.ops.shape.functions import broadcast_to, ravel, reshape
from tapegrad.ops.shape.joining import concat


def running_over(function: Callable[..., Any]) -> Callable[[Any, int], Any]:
    """Wrap a cumulative function of an array and an axis, to use NumPy's dtype for sums."""

    def run(x: Any, axis: int) -> Any:
        return function(with_dtype(x, summed_dtype(x)), axis)

    return run


def _added(x: Any, dtype: Any) -> Any:
    if dtype is not None:
        x = with_dtype(x, dtype)
        # Booleans are counted, and the count is converted back at the end.
        return x if dtype_of(x).kind != "b" else cast(x, "int64")
    return x if dtype_of(x).kind in "fc" else with_dtype(x, summed_dtype(x))


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    """Return the sum over `axis` of the elements that `where` selects.

    >>> sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    check_start(initial, where)
    x = selected(_added(as_array(a, where), dtype), where, None)
    result = with_dtype(reduction.sum(x, _axes(axis, x), keepdims), dtype)
    if not _is(initial, 0):
        result = with_dtype(result + as_first("sum", initial, result), dtype_of(result))
    return deliver(result, out)


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = 1,
    where: Any = True,
) -> Any:
    """Return the product over `axis` of the elements that `where` selects.

    >>> prod([2, 3, 4]).tolist()
    24
    """
    check_start(initial, where)
    x = _added(as_array(a, where), dtype)
    if where is not True:
        x = choose(as_array(where, x), x, 1)
    result = with_dtype(reduction.prod(x, _axes(axis, x), keepdims), dtype)
    if not _is(initial, 1):
        result = with_dtype(result * as_first("prod", initial, result), dtype_of(result))
    return deliver(result, out)


def _is(value: Any, number: int) -> bool:
    """Return whether the initial value is the neutral element or None."""
    return value is None or (isinstance(value, int) and value == number)


def check_start(initial: Any, where: Any) -> None:
    """Raise if elements are left out and there is no initial value."""
    if where is not True and (initial is None or initial is NoValue):
        raise ArgumentError("A reduction with where= that has no neutral element needs initial=.")


def as_first(name: str, initial: Any, x: Any) -> Any:
    """Return the initial value as a number that the result `x` can hold, or as an array."""
    kind = dtype_of(x)
    if isinstance(initial, complex) and kind.kind != "c":
        raise DTypeError(f"{name} of {kind} does not support the complex initial={initial}.")
    if type(initial) in NUMBERS:
        return checked_array(initial, kind).item()
    return with_dtype(as_array(initial, x), kind)


def _axes(axis: Any, x: Any = None) -> Any:
    """Return axes in the form of the operators: an integer, a tuple, or None.

    Where `x` is given, it may be a number that is reduced over the axis 0 or -1, as in NumPy.
    """
    if isinstance(axis, list | tuple):
        return check_wholes("axis", axis)
    return () if x is not None and is_axis_of_number(axis, x) else axis


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    """Return the mean over `axis` of the elements that `where` selects.

    >>> mean([1, 2, 6]).tolist()
    3.0
    """
    x = as_array(a, where)
    if where is True and (dtype is None or as_dtype(dtype).is_differentiable):
        return deliver(reduction.mean(with_dtype(x, dtype), _axes(axis), keepdims), out)
    total = sum(x, axis, dtype, keepdims=keepdims, where=where)
    return deliver(_divided(total, _count(x, where, axis, keepdims), dtype), out)


def _divided(total: Any, count: Any, dtype: Any) -> Any:
    """Return a quotient in the requested dtype, else in that of a floating total."""
    above = floating(total)
    kind = dtype_of(above) if dtype is None else dtype
    if is_array(count) or count or is_complex(above):
        return with_dtype(above / count, kind)
    # Division of a sum of squares by a count of 0, without NumPy's warning.
    return with_dtype(above * choose(above > 0, math.inf, math.nan), kind)


def _count(x: Any, where: Any, axis: Any, keepdims: bool) -> Any:
    """Return the number of elements that `where` selects over `axis`."""
    if where is True:
        return count_over(x.shape, normalize_axes(_axes(axis), len(x.shape), "mean"))
    mask = broadcast_to(as_array(where, x), tuple(x.shape))
    return cast(reduction.count_nonzero(mask, _axes(axis), keepdims), "float64")


def divisor(ddof: Any, correction: Any) -> Any:
    """Return the correction to a count, which has two names."""
    if correction is NoValue:
        return ddof
    if ddof:
        raise ArgumentError(f"Give ddof or correction, not both. Got {ddof} and {correction}.")
    return correction


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Any:
    """Return the variance over `axis`: the squared deviations divided by count - ddof.

    >>> var([1.0, 3.0]).tolist()
    1.0
    """
    x, less = as_array(a), divisor(ddof, correction)
    if mean is NoValue and _is_usual(x, axis, dtype, less, where):
        return deliver(statistics.var(with_dtype(x, dtype), _axes(axis), less, keepdims), out)
    return deliver(_variance(x, axis, dtype, less, keepdims, where, mean), out)


def _is_usual(x: Any, axis: Any, dtype: Any, less: Any, where: Any) -> bool:
    """Return whether all elements are selected, and more than ddof of them."""
    if where is not True or _count(x, True, axis, False) <= less:
        return False
    return dtype is None or (as_dtype(dtype).is_floating and dtype_of(x).kind != "c")


def _variance(
    x: Any, axis: Any, dtype: Any, less: Any, keepdims: bool, where: Any, centre: Any
) -> Any:
    """Compute a variance in NumPy's steps; only the sums use the requested dtype."""
    if centre is NoValue:
        centre = mean(x, axis, dtype, keepdims=True, where=where)
    distance = subtract(*with_numbers([x, centre]))
    squares = real(distance * conj(distance)) if is_complex(distance) else distance * distance
    total = sum(squares, axis, dtype, keepdims=keepdims, where=where)
    count = _count(x, where, axis, keepdims) - less
    count = maximum(count, 0.0) if is_array(count) else builtins.max(count, 0)
    return _divided(total, count, dtype)


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Any:
    """Return the standard deviation over `axis`.

    >>> std([1.0, 3.0]).tolist()
    1.0
    """
    x, less = as_array(a), divisor(ddof, correction)
    if mean is NoValue and _is_usual(x, axis, dtype, less, where):
        return deliver(statistics.std(with_dtype(x, dtype), _axes(axis), less, keepdims), out)
    square = _variance(x, axis, dtype, less, keepdims, where, mean)
    if square.shape and not as_dtype(dtype_of(square)).is_differentiable:
        raise DTypeError(
            f"std needs square roots, which {dtype_of(square)} cannot hold. Use a float."
        )
    # Not differentiable if all elements are equal; 0 is used, as without where= and mean=.
    is_zero = square == 0
    root = choose(is_zero, 0.0, choose(is_zero, 1.0, floating(square)) ** 0.5)
    return deliver(with_dtype(root, dtype_of(square)), out)


def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Any:
    """Return the maximum over `axis`; ties share the gradient.

    >>> max([[1, 5], [7, 2]], axis=1).tolist()
    [5, 7]
    """
    return _extreme(reduction.max, maximum, a, axis, out, keepdims, initial, where)


def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Any:
    """Return the minimum over `axis`; ties share the gradient.

    >>> min([[1, 5], [7, 2]], axis=1).tolist()
    [1, 2]
    """
    return _extreme(reduction.min, minimum, a, axis, out, keepdims, initial, where)


amax, amin = max, min


def _extreme(
    reduce: Any, pick: Any, a: Any, axis: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    check_start(initial, where)
    x = as_array(a, where)
    if initial is None or initial is NoValue:
        return deliver(reduce(x, _axes(axis, x), keepdims), out)
    axis = _axes(axis, x)
    start = as_first("A reduction", initial, x)
    if where is not True:
        x = choose(as_array(where, x), x, start)
    if any_empty(x.shape, axis):
        kept = reduction.sum(x, axis, keepdims).shape
        return deliver(broadcast_to(with_dtype(as_array(start, x), dtype_of(x)), kept), out)
    return deliver(pick(reduce(x, axis, keepdims), start), out)


def any_empty(shape: Any, axis: Any) -> bool:
    """Return whether a reduced axis is empty."""
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
    return 0 in [shape[int(a)] for a in axes]


def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    """Return whether all elements over `axis` are true.

    >>> all([[True, False], [True, True]], axis=1).tolist()
    [False, True]
    """
    x = _truths(a)
    x = x if where is True else choose(as_array(where, x), x, True)
    return deliver(reduction.all(x, _axes(axis, x), keepdims), out)


def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    """Return whether any element over `axis` is true.

    >>> any([[True, False], [False, False]], axis=1).tolist()
    [True, False]
    """
    x = _truths(a)
    x = x if where is True else choose(as_array(where, x), x, False)
    return deliver(reduction.any(x, _axes(axis, x), keepdims), out)


def _truths(a: Any) -> Any:
    x = as_array(a)
    return x if dtype_of(x).kind == "b" else x != 0


def argmax(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Return the index of the maximum over `axis` (None: of the flattened array).

    >>> argmax([3, 9, 1]).tolist()
    1
    """
    return deliver(reduction.argmax(as_array(a), axis, keepdims), out)


def argmin(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """Return the index of the minimum over `axis` (None: of the flattened array).

    >>> argmin([3, 9, 1]).tolist()
    2
    """
    return deliver(reduction.argmin(as_array(a), axis, keepdims), out)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Return the number of nonzero elements over `axis`.

    >>> count_nonzero([0, 1, 2]).tolist()
    2
    """
    x = as_array(a)
    return reduction.count_nonzero(x, _axes(axis, x), keepdims)


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return the range (maximum - minimum) over `axis`.

    >>> ptp([3.0, 9.0, 1.0]).tolist()
    8.0
    """
    x = as_array(a)
    return deliver(statistics.ptp(x, _axes(axis, x), keepdims), out)


# Cumulative sums and products


def _flat(a: Any, axis: int | None) -> tuple[Any, int]:
    x = as_array(a)
    if axis is None or is_axis_of_number(axis, x):
        return ravel(x), 0
    return x, normalize_axis(axis, len(x.shape), "cumsum")


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative sum along `axis` (None: of the flattened array).

    >>> cumsum([1, 2, 3]).tolist()
    [1, 3, 6]
    """
    x, place = _flat(a, axis)
    return deliver(with_dtype(cumulative.cumsum(_added(x, dtype), place), dtype), out)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Return the cumulative product along `axis` (None: of the flattened array).

    >>> cumprod([1, 2, 3]).tolist()
    [1, 2, 6]
    """
    x, place = _flat(a, axis)
    return deliver(with_dtype(cumulative.cumprod(_added(x, dtype), place), dtype), out)


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Any:
    """Return the cumulative sum along `axis`; `include_initial` prepends a 0.

    >>> cumulative_sum([1, 2], include_initial=True).tolist()
    [0, 1, 3]
    """
    return deliver(_cumulative(cumulative.cumsum, x, axis, dtype, include_initial, 0), out)


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
) -> Any:
    """Return the cumulative product along `axis`; `include_initial` prepends a 1.

    >>> cumulative_prod([2, 3], include_initial=True).tolist()
    [1, 2, 6]
    """
    return deliver(_cumulative(cumulative.cumprod, x, axis, dtype, include_initial, 1), out)


def _cumulative(
    function: Any, x: Any, axis: int | None, dtype: Any, include_initial: bool, first: int
) -> Any:
    x = as_array(x)
    if len(x.shape) == 0:
        x = reshape(x, (1,))
    if axis is None and len(x.shape) != 1:
        raise ArgumentError(f"A cumulative sum of an array of {len(x.shape)} axes needs axis=.")
    place = normalize_axis(0 if axis is None else axis, len(x.shape), "cumulative_sum")
    x = with_dtype(function(_added(x, dtype), place), dtype)
    if not include_initial:
        return x
    shape = (*x.shape[:place], 1, *x.shape[place + 1 :])
    start = full_like_p(x, shape=shape, value=first, dtype=dtype_of(x))
    return concat([start, x], place)
