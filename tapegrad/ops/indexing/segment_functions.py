"""TensorFlow's segment functions.

The sorted ones compute the number of segments; the unsorted ones take it as an argument.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.index_check import check_range, is_checking
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import maximum
from tapegrad.ops.indexing.segment import segment_extreme_p, segment_prod_p, segment_sum_p
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.shape.primitives import reshape_p


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Return the sum of the rows of each segment; ids must be sorted.

    >>> segment_sum([1.0, 2.0, 4.0], [0, 0, 1]).tolist()
    [3.0, 4.0]
    """
    data, ids, num = _sorted("segment_sum", data, segment_ids)
    return segment_sum_p(data, ids, num=num)


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Return the mean of the rows of each segment, 0 if it is empty; ids must be sorted.

    >>> segment_mean([1.0, 2.0, 4.0], [0, 0, 1]).tolist()
    [1.5, 4.0]
    """
    data, ids, num = _sorted("segment_mean", data, segment_ids)
    return segment_sum_p(data, ids, num=num) / _counts(data, ids, num)


def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Return the product of the rows of each segment, 1 if it is empty; ids must be sorted.

    >>> segment_prod([3.0, 2.0, 4.0], [0, 0, 1]).tolist()
    [6.0, 4.0]
    """
    data, ids, num = _sorted("segment_prod", data, segment_ids)
    return segment_prod_p(data, ids, num=num)


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Return the maximum of the rows of each segment, 0 if it is empty; ids must be sorted.

    >>> segment_max([3.0, 2.0, 4.0], [0, 0, 1]).tolist()
    [3.0, 4.0]
    """
    data, ids, num = _sorted("segment_max", data, segment_ids)
    return segment_extreme_p(data, ids, num=num, largest=True, empty=0.0)


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Return the minimum of the rows of each segment, 0 if it is empty; ids must be sorted.

    >>> segment_min([3.0, 2.0, 4.0], [0, 0, 1]).tolist()
    [2.0, 4.0]
    """
    data, ids, num = _sorted("segment_min", data, segment_ids)
    return segment_extreme_p(data, ids, num=num, largest=False, empty=0.0)


def unsorted_segment_sum(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Any:
    """Return the sum of the rows of each segment; rows with a negative id are ignored.

    >>> unsorted_segment_sum([1.0, 2.0, 4.0], [2, 0, 2], 3).tolist()
    [2.0, 0.0, 5.0]
    """
    data, ids, num = _unsorted("unsorted_segment_sum", data, segment_ids, num_segments)
    return segment_sum_p(data, ids, num=num)


def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Any:
    """Return the mean of the rows of each segment, 0 if it is empty.

    >>> unsorted_segment_mean([1.0, 2.0, 4.0], [2, 0, 2], 3).tolist()
    [2.0, 0.0, 2.5]
    """
    data, ids, num = _unsorted("unsorted_segment_mean", data, segment_ids, num_segments)
    return segment_sum_p(data, ids, num=num) / _counts(data, ids, num)


def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Any:
    """Return the sum of the rows of each segment divided by the square root of their number.

    >>> data = [1.0, 1.0, 1.0, 1.0]
    >>> unsorted_segment_sqrt_n(data, [0, 0, 0, 0], 1).tolist()
    [2.0]
    """
    data, ids, num = _unsorted("unsorted_segment_sqrt_n", data, segment_ids, num_segments)
    return segment_sum_p(data, ids, num=num) / sqrt(_counts(data, ids, num))


def unsorted_segment_prod(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Any:
    """Return the product of the rows of each segment, 1 if it is empty.

    >>> unsorted_segment_prod([3.0, 2.0, 4.0], [2, 0, 2], 3).tolist()
    [2.0, 1.0, 12.0]
    """
    data, ids, num = _unsorted("unsorted_segment_prod", data, segment_ids, num_segments)
    return segment_prod_p(data, ids, num=num)


def unsorted_segment_max(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Any:
    """Return the maximum of the rows of each segment, the lowest finite number if it is empty.

    >>> unsorted_segment_max([3.0, 2.0, 4.0], [1, 0, 1], 2).tolist()
    [2.0, 4.0]
    """
    data, ids, num = _unsorted("unsorted_segment_max", data, segment_ids, num_segments)
    return segment_extreme_p(data, ids, num=num, largest=True, empty=-math.inf)


def unsorted_segment_min(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Any:
    """Return the minimum of the rows of each segment, the highest finite number if it is empty.

    >>> unsorted_segment_min([3.0, 2.0, 4.0], [1, 0, 1], 2).tolist()
    [2.0, 3.0]
    """
    data, ids, num = _unsorted("unsorted_segment_min", data, segment_ids, num_segments)
    return segment_extreme_p(data, ids, num=num, largest=False, empty=math.inf)


def _counts(data: Any, ids: Any, num: int) -> Any:
    """Return the number of rows of each segment, at least 1, shaped to broadcast to the result."""
    one = ones_like(ids, data.dtype)
    count = segment_sum_p(one, ids, num=num)
    count = maximum(count, ones_like(count))
    return reshape_p(count, shape=(num, *[1] * (len(data.shape) - 1)))


def _operands(name: str, data: Any, ids: Any) -> tuple[Any, Any]:
    data, ids = as_operand(data), as_operand(ids)
    if kind_of(ids) not in ("i", "u"):
        raise ArgumentTypeError(f"{name} needs integer segment_ids. Got {ids.dtype}.")
    rank = len(ids.shape)
    if tuple(data.shape[:rank]) != tuple(ids.shape):
        raise ShapeError(
            f"{name} needs segment_ids whose shape is a prefix of the shape of data. Got "
            f"{ids.shape} for data of shape {data.shape}."
        )
    return data, ids


def _unsorted(name: str, data: Any, ids: Any, num_segments: Any) -> tuple[Any, Any, int]:
    data, ids = _operands(name, data, ids)
    num = check_whole("num_segments", num_segments, name)
    if num < 0:
        raise ArgumentError(f"{name} needs num_segments of 0 or more. Got {num}.")
    if is_checking():
        check_range(name, ids, num, lowest=-math.inf)  # negative ids are allowed and ignored
    rank = len(ids.shape)
    if rank != 1:
        rows = math.prod(ids.shape)
        data = reshape_p(data, shape=(rows, *data.shape[rank:]))
        ids = reshape_p(ids, shape=(rows,))
    return data, ids, num


def _sorted(name: str, data: Any, segment_ids: Any) -> tuple[Any, Any, int]:
    data, ids = _operands(name, data, segment_ids)
    if len(ids.shape) != 1:
        raise ShapeError(f"{name} needs one-dimensional segment_ids. Got {ids.shape}.")
    values = read_on_host(segment_ids, f"{name}()")
    if values.size and (values[0] < 0 or (values[1:] < values[:-1]).any()):
        raise ArgumentError(
            f"{name} needs segment_ids that are sorted and not negative. "
            f"Use unsorted_{name} for other ids."
        )
    return data, ids, int(values[-1]) + 1 if values.size else 0
