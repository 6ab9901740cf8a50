"""Functions on top of indexing: slices, masks, take, partitions, select, piecewise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import as_constant, as_shape, zeros_like
from tapegrad.ops.elementwise.comparison import less
from tapegrad.ops.elementwise.rounding import floor_divide, mod
from tapegrad.ops.elementwise.selection import clip, where as choose_where
from tapegrad.ops.indexing.functions import getitem, index_update
from tapegrad.ops.indexing.gather import index_operand, linear_index, place_next_to, take_p
from tapegrad.ops.indexing.index_plan import where_true
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.indexing.scatter import like
from tapegrad.ops.shape.functions import ravel
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p


def slice_tensor(input_: Any, begin: Any, size: Any, name: str | None = None) -> Any:
    """Return `size[k]` entries from `begin[k]` on along each axis k; -1 means all remaining.

    >>> slice_tensor([1.0, 2.0, 3.0], [1], [2]).tolist()
    [2.0, 3.0]
    """
    x = as_operand(input_)
    starts, sizes, shape = as_shape(begin, "begin"), as_shape(size, "size"), tuple(x.shape)
    if not len(starts) == len(sizes) == len(shape):
        raise ShapeError(
            f"slice needs a begin and a size for each of {len(shape)} axes. "
            f"Got {len(starts)} and {len(sizes)}."
        )
    lengths = [
        length - start if n == -1 else n
        for start, n, length in zip(starts, sizes, shape, strict=True)
    ]
    for axis, (start, n, length) in enumerate(zip(starts, lengths, shape, strict=True)):
        if start < 0 or n < 0 or start + n > length:
            raise ShapeError(
                f"slice is out of range for axis {axis} of length {length}. "
                f"Got begin {start} and size {n}."
            )
    spans = zip(starts, lengths, strict=True)
    return slice_p(x, index=tuple(slice(start, start + n) for start, n in spans))


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """Return `input_[begin:end:strides]` along each axis; bit k of a mask modifies entry k.

    >>> strided_slice([1.0, 2.0, 3.0, 4.0], [0], [4], [2]).tolist()
    [1.0, 3.0]
    """
    starts, ends = as_shape(begin, "begin"), as_shape(end, "end")
    steps = (1,) * len(starts) if strides is None else as_shape(strides, "strides")
    index: list[Any] = []
    for k, (start, stop, step) in enumerate(zip(starts, ends, steps, strict=True)):
        bit = 1 << k
        if ellipsis_mask & bit:
            index.append(Ellipsis)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(start)
        else:
            first = None if begin_mask & bit else start
            index.append(slice(first, None if end_mask & bit else stop, step))
    return getitem(as_operand(input_), tuple(index))


# Selection by a condition


def nonzero(x: Any) -> tuple[Any, ...]:
    """Return the coordinates of the nonzero elements, one tensor per axis.

    >>> [i.tolist() for i in nonzero([0.0, 2.0, 3.0])]
    [[1, 2]]
    """
    x = as_operand(x)
    if type(x) in INTERPRETERS:
        raise ArgumentTypeError(
            "nonzero is not available inside vmap: the number of nonzero elements could differ "
            "between examples. Use tapegrad.where(condition, x, y)."
        )
    return where_true(x if x.shape else reshape_p(x, shape=(1,)), "nonzero()")


def argwhere(condition: Any, name: str | None = None) -> Any:
    """Return the coordinates of the true elements as rows, as `tf.where(condition)` does.

    >>> argwhere([[True, False], [False, True]]).tolist()
    [[0, 0], [1, 1]]
    """
    return stack(nonzero(condition), axis=1)


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Return `x` where the condition is true, else `y`; without both, `argwhere(condition)`.

    >>> where([True, False], [1.0, 2.0], 0.0).tolist(), where([False, True]).shape
    ([1.0, 0.0], (1, 1))
    """
    if x is None and y is None:
        return argwhere(condition)
    if x is None or y is None:
        raise ArgumentError("where needs both x and y, or neither of them.")
    return choose_where(condition, x, y)


def flatnonzero(x: Any) -> Any:
    """Return the positions of the nonzero elements in the flattened tensor.

    >>> flatnonzero([[0.0, 2.0], [3.0, 0.0]]).tolist()
    [1, 2]
    """
    return nonzero(ravel(x))[0]


def boolean_mask(
    tensor: Any, mask: Any, axis: Any = None, name: str | None = "boolean_mask"
) -> Any:
    """Return the entries where a mask is true; the first axis of the mask matches `axis`.

    >>> boolean_mask([1.0, 2.0, 3.0], [True, False, True]).tolist()
    [1.0, 3.0]
    """
    x = as_operand(tensor)
    start = 0 if axis is None else normalize_axis(axis, len(x.shape), "boolean_mask")
    if not len(as_operand(mask).shape):
        raise ShapeError("boolean_mask needs a mask with at least one axis. Got a scalar.")
    return getitem(x, (*(slice(None),) * start, mask))


def compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    """Return the entries along an axis where the vector `condition` is true.

    >>> compress([False, True], [[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [[3.0, 4.0]]
    """
    x = as_operand(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape), "compress")
    positions = np.flatnonzero(read_on_host(condition, "compress()"))
    flat = linear_index(x, [positions], (x.shape[axis],), (axis,), "compress")
    return take_p(x, flat, axis=axis)


def extract(condition: Any, arr: Any) -> Any:
    """Return the elements where a condition of the same size is true, as a vector.

    >>> extract([[True, False]], [[1.0, 2.0]]).tolist()
    [1.0]
    """
    return compress(np.ravel(read_on_host(condition, "extract()")), arr)


def take(a: Any, indices: Any, axis: int | None = None, mode: str | None = None) -> Any:
    """Return the entries at `indices` along an axis, by default of the flattened tensor.

    `mode` 'clip' or 'wrap' maps indices out of range back into it; otherwise they raise an error.

    >>> take([[1.0, 2.0], [3.0, 4.0]], [3, 0]).tolist()
    [4.0, 1.0]
    """
    x = as_operand(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape), "take")
    length = x.shape[axis]
    index = index_operand(indices, "take")
    if mode in ("clip", "wrap"):
        index = place_next_to(x, index) if isinstance(index, np.ndarray | np.generic) else index
        index = clip(index, 0, length - 1) if mode == "clip" else mod(index, length)
    elif mode not in (None, "raise"):
        raise ArgumentError(f"mode must be 'raise', 'clip' or 'wrap'. Got {mode!r}.")
    return take_p(x, linear_index(x, [index], (length,), (axis,), "take"), axis=axis)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int) -> Any:
    """Return a copy of `arr` with `values` written at `indices` along an axis.

    >>> put_along_axis([[1.0, 2.0], [3.0, 4.0]], [[0], [1]], 9.0, 1).tolist()
    [[9.0, 2.0], [3.0, 9.0]]
    """
    x = as_operand(arr)
    axis = normalize_axis(axis, len(x.shape), "put_along_axis")
    index = index_operand(indices, "put_along_axis")
    if len(index.shape) != len(x.shape):
        raise ShapeError(
            f"put_along_axis needs indices of {len(x.shape)} axes. Got {len(index.shape)}."
        )
    positions: list[Any] = [
        np.arange(n).reshape(-1, *[1] * (len(x.shape) - k - 1)) for k, n in enumerate(x.shape)
    ]
    positions[axis] = index
    return index_update(x, tuple(positions), values)


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Any:
    """Convert positions in a flattened tensor to coordinates, one row per axis.

    >>> unravel_index([5, 2], (2, 3)).tolist()
    [[1, 0], [2, 2]]
    """
    index, shape = as_operand(indices), as_shape(dims, "dims")
    if not isinstance(index, Tensor) or not isinstance(index.array, np.ndarray | np.generic):
        return _unravel(index, shape)
    values = np.asarray(index)
    try:
        rows = np.unravel_index(values, shape)
    except ValueError as error:
        raise ShapeError(
            f"unravel_index cannot convert the indices for shape {dims}: {error}."
        ) from error
    return as_constant(np.stack(rows).astype(values.dtype))


def _unravel(index: Any, shape: tuple[int, ...]) -> Any:
    """Compute the coordinates on the device, without reading the indices on the host."""
    rows: list[Any] = []
    for length in reversed(shape):
        rows.insert(0, mod(index, length))
        index = floor_divide(index, length)
    return stack(rows)


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = "bool", name: str | None = None
) -> Any:
    """Return, for each length n, a mask of `maxlen` entries whose first n are true.

    >>> sequence_mask([1, 3]).numpy().astype(int).tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    x = as_operand(lengths)
    if maxlen is None:
        values = read_on_host(x, "sequence_mask() without maxlen")
        maxlen = int(values.max()) if values.size else 0
    steps = place_next_to(
        x, np.arange(check_whole("maxlen", maxlen, "sequence_mask")).astype(numpy_dtype(x.dtype))
    )
    mask = less(steps, reshape_p(x, shape=(*x.shape, 1)))
    return mask if numpy_dtype(dtype).kind == "b" else cast(mask, dtype)


# Partition and choice among several tensors


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Any]:
    """Split the rows of `data` by partition number.

    >>> [part.tolist() for part in dynamic_partition([1.0, 2.0, 3.0], [1, 0, 1], 2)]
    [[2.0], [1.0, 3.0]]
    """
    x = as_operand(data)
    labels = index_operand(partitions, "dynamic_partition")
    labels = read_on_host(labels, "dynamic_partition()")
    if labels.shape != tuple(x.shape[: labels.ndim]):
        raise ShapeError(
            f"dynamic_partition needs partitions that match the first axes "
            f"{tuple(x.shape[: labels.ndim])} of data. Got shape {labels.shape}."
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < num_partitions:
        raise ArgumentError(
            f"partitions must lie between 0 and {num_partitions - 1}. "
            f"Got {labels.min()} to {labels.max()}."
        )
    return [getitem(x, labels == k) for k in range(num_partitions)]


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return, element by element, the choice of the first true condition, else the default.

    >>> x = as_operand([1.0, 5.0])
    >>> select([less(x, 3.0)], [x], -1.0).tolist()
    [1.0, -1.0]
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"select needs as many conditions as choices, and at least one. "
            f"Got {len(condlist)} conditions and {len(choicelist)} choices."
        )
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = choose_where(condition, choice, result)
    return result


def choose(a: Any, choices: Sequence[Any]) -> Any:
    """Return `choices[a]` element by element; `a` and the choices broadcast together.

    >>> choose([0, 1], [[1.0, 2.0], [10.0, 20.0]]).tolist()
    [1.0, 20.0]
    """
    options = [as_operand(choice) for choice in choices]
    index = index_operand(a, "choose")
    shape = np.broadcast_shapes(tuple(index.shape), *(tuple(o.shape) for o in options))
    table = stack([broadcast_p(option, shape=shape) for option in options])
    first = index if not isinstance(index, np.ndarray) else np.broadcast_to(index, shape)
    grid = [np.arange(n).reshape(-1, *[1] * (len(shape) - k - 1)) for k, n in enumerate(shape)]
    return getitem(table, (first, *grid))


def piecewise(x: Any, condlist: Sequence[Any], funclist: Sequence[Any]) -> Any:
    """Apply to each element the function, or use the number, of its last true condition.

    An extra function applies where no condition is true; without it the result there is 0.

    >>> x = as_operand([-2.0, 3.0])
    >>> piecewise(x, [less(x, 0.0)], [lambda v: -v, lambda v: v]).tolist()
    [2.0, 3.0]
    """
    x = as_operand(x)
    functions = list(funclist)
    if len(functions) not in (len(condlist), len(condlist) + 1):
        raise ArgumentError(
            f"piecewise needs {len(condlist)} or {len(condlist) + 1} functions for "
            f"{len(condlist)} conditions. Got {len(functions)}."
        )
    extra = functions.pop() if len(functions) > len(condlist) else 0
    result = _value_of(extra, x)
    for condition, function in zip(condlist, functions, strict=True):
        result = choose_where(condition, _value_of(function, x), result)
    return result


def _value_of(function: Any, x: Any) -> Any:
    if callable(function):
        return function(x)
    return zeros_like(x) + like(function, x) if isinstance(x, Tensor) else zeros_like(x) + function
