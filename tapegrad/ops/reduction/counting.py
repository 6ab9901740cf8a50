"""Unique values, counts of integers and histograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import host
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import int32
from tapegrad.core.values.strings import is_text, string_tensor, to_any_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.indexing.gather import take_p
from tapegrad.ops.indexing.segment import offset_ids_p, segment_sum_p
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.reduction.axes import count_over
from tapegrad.ops.reduction.primitives import max as maximum_of
from tapegrad.ops.shape.primitives import reshape_p


def _unique(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    same = x[:, None] == x[None, :]
    n = xp.arange(x.shape[0], device=x.device)
    # `first` is the position of the first equal element; an element with first == n is distinct.
    first = xp.min(xp.where(same, n[None, :], x.shape[0]), axis=1)
    position = xp.nonzero(first == n)[0]
    number = xp.searchsorted(position, first)
    return position, number, xp.take(xp.sum(xp.astype(same, xp.int64), axis=1), position)


unique_p = nondifferentiable("unique", _unique, many=True, shapes_vary=True)


class Unique(NamedTuple):
    """Distinct values in order of appearance, and the index of the value of each element."""

    y: Any
    idx: Any


class UniqueWithCounts(NamedTuple):
    """The fields of `Unique`, and the number of occurrences of each value."""

    y: Any
    idx: Any
    count: Any


def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Unique:
    """Return the distinct values of a vector in order of appearance, and the index of each element.

    The gradient of a value goes to its first occurrence.

    >>> y, idx = unique([5.0, 3.0, 5.0])
    >>> y.tolist(), idx.tolist()
    ([5.0, 3.0], [0, 1, 0])
    """
    return Unique(*_find_unique("unique", x, out_idx)[:2])


def unique_with_counts(x: Any, out_idx: Any = int32, name: str | None = None) -> UniqueWithCounts:
    """Return the results of `unique` and the number of occurrences of each value.

    >>> unique_with_counts([5.0, 3.0, 5.0]).count.tolist()
    [2, 1]
    """
    return UniqueWithCounts(*_find_unique("unique_with_counts", x, out_idx))


def _find_unique(name: str, x: Any, out_idx: Any) -> tuple[Any, Any, Any]:
    is_of_text = is_text(x)
    x = to_any_tensor(x) if is_of_text else as_operand(x)
    if len(x.shape) != 1:
        raise ShapeError(f"{name} needs a one-dimensional tensor. Got shape {x.shape}.")
    if is_of_text:
        return _unique_texts(x.array, out_idx)
    # The array library reads the number of distinct values on the host to allocate the result.
    host.note_read(x.array if isinstance(x, Tensor) else x, f"{name}()", nbytes=8)
    position, number, count = unique_p(x)
    return take_p(x, position, axis=0), cast(number, out_idx), cast(count, out_idx)


def _unique_texts(texts: Any, out_idx: Any) -> tuple[Any, Any, Any]:
    number: dict[bytes, int] = {}
    numbers = np.array([number.setdefault(one, len(number)) for one in texts.tolist()], np.int64)
    found = np.empty(len(number), object)
    found[:] = list(number)
    counts = np.bincount(numbers, minlength=len(number))
    return string_tensor(found), to_tensor(numbers, out_idx), to_tensor(counts, out_idx)


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: int | None = None,
    maxlength: int | None = None,
    dtype: Any = int32,
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Any:
    """Count the occurrences of each integer from 0 up, or sum the weights of each.

    Integers >= `maxlength` are ignored. With `axis=-1` each row of a matrix is counted separately.
    Only the weights have a derivative.

    >>> bincount([1, 1, 3], weights=[0.5, 0.25, 2.0]).tolist()
    [0.0, 0.75, 0.0, 2.0]
    """
    arr = as_operand(arr)
    if kind_of(arr) not in ("i", "u"):
        raise ArgumentTypeError(f"bincount needs integers. Got {arr.dtype}.")
    if weights is not None and binary_output:
        raise ArgumentError("bincount takes weights or binary_output, not both.")
    if axis not in (None, 0, -1) or (axis == -1 and len(arr.shape) > 2):
        raise ArgumentError(
            f"bincount needs axis None, 0 or -1, and at most two dimensions for -1. Got {axis} "
            f"for shape {arr.shape}."
        )
    by_row = axis == -1 and len(arr.shape) == 2
    num = _bin_count(arr, minlength, maxlength)
    given = ones_like(arr, dtype) if weights is None else as_operand(weights)
    rows = arr.shape[0] if by_row else 1
    size = count_over(arr.shape, tuple(range(len(arr.shape))))
    ids = reshape_p(where(arr < num, arr, -1), shape=(rows, size // max(rows, 1)))
    if by_row:
        ids = offset_ids_p(ids, num=num)
    sums = segment_sum_p(
        reshape_p(given, shape=(size,)), reshape_p(ids, shape=(size,)), num=rows * num
    )
    result = reshape_p(sums, shape=(rows, num) if by_row else (num,))
    return cast(result != 0, dtype) if binary_output else result


def _bin_count(arr: Any, minlength: int | None, maxlength: int | None) -> int:
    """Return the number of bins: the largest element plus 1, within the given limits."""
    empty = 0 in tuple(arr.shape)
    if minlength is not None and minlength == maxlength:
        return int(minlength)
    num = 0 if empty else int(maximum_of(arr)) + 1
    num = max(num, int(minlength or 0))
    return num if maxlength is None else min(num, int(maxlength))


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: int = 100, dtype: Any = int32, name: str | None = None
) -> Any:
    """Return the bin of each value among `nbins` bins of equal width.

    Values outside `value_range` go to the first or the last bin.

    >>> values = [-1.0, 2.5, 9.0]
    >>> histogram_fixed_width_bins(values, [0.0, 5.0], 5).tolist()
    [0, 2, 4]
    """
    values = as_operand(values)
    low, high = (float(bound) for bound in value_range)
    if not low < high or nbins < 1:
        raise ArgumentError(
            "histogram_fixed_width needs a range from low to high and at least one bin. "
            f"Got [{low}, {high}] and {nbins} bins."
        )
    position = (cast(values, "float64") - low) * (nbins / (high - low))
    # A cast to integers rounds towards 0, which is down after clipping at 0.
    return cast(clip(position, 0, nbins - 1), dtype)


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: int = 100, dtype: Any = int32, name: str | None = None
) -> Any:
    """Return the number of values in each of `nbins` bins of equal width over `value_range`.

    >>> histogram_fixed_width([-1.0, 2.5, 9.0], [0.0, 5.0], 5).tolist()
    [1, 0, 1, 0, 1]
    """
    bins = histogram_fixed_width_bins(values, value_range, nbins)
    return bincount(bins, minlength=nbins, maxlength=nbins, dtype=dtype)
