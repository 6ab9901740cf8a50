"""Reductions under TensorFlow's names, with its arguments and defaults."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.dtypes import as_dtype, int64
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.reduction import (
    logsumexp,
    primitives as reduction_primitives,
    squares,
    statistics,
)


def reduce_sum(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the sum over `axis`: an int, several, or None for all. Integers keep their dtype.

    >>> float(reduce_sum([[1.0, 2.0], [3.0, 4.0]]))
    10.0
    """
    return reduction_primitives.sum(input_tensor, axis, keepdims)


def reduce_mean(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the mean over `axis`; for integers the result is floating point, as in NumPy.

    >>> reduce_mean([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [2.0, 3.0]
    """
    return reduction_primitives.mean(input_tensor, axis, keepdims)


def reduce_prod(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the product over `axis`; its derivatives are exact where elements are 0.

    >>> float(reduce_prod([2.0, 3.0, 4.0]))
    24.0
    """
    return reduction_primitives.prod(input_tensor, axis, keepdims)


def reduce_max(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the maximum over `axis`; tied elements share the gradient equally.

    >>> float(reduce_max([2.0, 4.0, 3.0]))
    4.0
    """
    return reduction_primitives.max(input_tensor, axis, keepdims)


def reduce_min(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the minimum over `axis`; tied elements share the gradient equally.

    >>> float(reduce_min([4.0, 2.0, 3.0]))
    2.0
    """
    return reduction_primitives.min(input_tensor, axis, keepdims)


def reduce_any(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return whether at least one element over `axis` is true.

    >>> bool(reduce_any([False, True]))
    True
    """
    return reduction_primitives.any(input_tensor, axis, keepdims)


def reduce_all(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return whether all elements over `axis` are true.

    >>> bool(reduce_all([False, True]))
    False
    """
    return reduction_primitives.all(input_tensor, axis, keepdims)


def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the variance over `axis`: the mean squared deviation from the mean.

    >>> float(reduce_variance([1.0, 3.0]))
    1.0
    """
    return statistics.var(input_tensor, axis, keepdims=keepdims)


def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the standard deviation over `axis`; its derivative is 0 where all elements are equal.

    >>> float(reduce_std([1.0, 3.0]))
    1.0
    """
    return statistics.std(input_tensor, axis, keepdims=keepdims)


def reduce_logsumexp(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return log(sum(exp(x))) over `axis` without overflow.

    >>> float(reduce_logsumexp([1000.0, 0.0]))
    1000.0
    """
    return logsumexp.logsumexp(input_tensor, axis, keepdims)


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return the square root of the sum of squares over `axis`; its derivative at 0 is 0.

    >>> float(reduce_euclidean_norm([3.0, 4.0]))
    5.0
    """
    return squares.euclidean_norm(input_tensor, axis, keepdims)


def argmax(
    input: Any, axis: int | None = None, output_type: Any = int64, name: str | None = None
) -> Any:
    """Return the index of the first maximum along `axis`, by default along axis 0.

    >>> argmax([[1.0, 9.0], [8.0, 2.0]]).tolist()
    [1, 0]
    """
    return _as(reduction_primitives.argmax(input, 0 if axis is None else axis), output_type)


def argmin(
    input: Any, axis: int | None = None, output_type: Any = int64, name: str | None = None
) -> Any:
    """Return the index of the first minimum along `axis`, by default along axis 0.

    >>> argmin([[1.0, 9.0], [8.0, 2.0]], axis=1).tolist()
    [0, 1]
    """
    return _as(reduction_primitives.argmin(input, 0 if axis is None else axis), output_type)


def count_nonzero(
    input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = int64,
    name: str | None = None,
) -> Any:
    """Return the number of nonzero elements over `axis`.

    >>> count_nonzero([[0.0, 1.0], [2.0, 3.0]], axis=1).tolist()
    [1, 2]
    """
    return _as(reduction_primitives.count_nonzero(input, axis, bool(keepdims)), dtype)


def _as(result: Any, dtype: Any) -> Any:
    return result if result.dtype == as_dtype(dtype) else cast(result, dtype)
