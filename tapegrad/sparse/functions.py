"""Functions of sparse tensors. Each computes on the values, so gradients reach them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import StringTensor, is_text, string_tensor, text_array
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import constant, ones
from tapegrad.ops.elementwise.selection import maximum as larger, minimum as smaller
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.scatter import scatter_nd, tensor_scatter_nd_update
from tapegrad.ops.indexing.segment_functions import unsorted_segment_max, unsorted_segment_sum
from tapegrad.ops.shape.functions import (
    broadcast_to,
    expand_dims as expand,
    reshape as reshaped,
    transpose as transposed,
)
from tapegrad.ops.shape.joining import concat as join
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def to_dense(
    sp_input: Any,
    default_value: Any = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Return a tensor with the values, and `default_value`, by default 0, everywhere else.

    >>> to_dense(SparseTensor([[0, 1]], [5], [2, 2])).tolist()
    [[0, 5], [0, 0]]
    """
    places, shape = sp_input.places(), tuple(sp_input.shape)
    if validate_indices:
        _check_order(places, shape)
    values = sp_input.values
    if isinstance(values, StringTensor):
        fill = text_array(default_value if is_text(default_value) else b"").item()
        texts = np.full(shape, fill, object)
        texts[tuple(places.T)] = values.array
        return string_tensor(texts)
    fill = constant(0 if default_value is None else default_value, values.dtype)
    return tensor_scatter_nd_update(broadcast_to(fill, shape), places, values)


def _check_order(places: np.ndarray, shape: tuple[int, ...]) -> None:
    flat = np.ravel_multi_index(tuple(places.T), shape) if len(places) else places[:, 0]
    wrong = np.flatnonzero(np.diff(flat) <= 0)
    if len(wrong):
        what = "repeated" if np.diff(flat)[wrong[0]] == 0 else "out of order"
        raise ArgumentError(
            f"The indices of a sparse tensor must rise and differ. indices[{wrong[0] + 1}] = "
            f"{places[wrong[0] + 1].tolist()} is {what}; tapegrad.sparse.reorder sorts them."
        )


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Return the entries of a tensor that are not zero.

    >>> from_dense([[0, 5], [0, 0]]).indices.tolist()
    [[0, 1]]
    """
    x: Any = constant(tensor)
    array = x.array if isinstance(x, StringTensor) else np.asarray(read_on_host(x, "from_dense"))
    places = np.argwhere(array != (b"" if array.dtype.kind == "O" else 0))
    flat = np.ravel_multi_index(tuple(places.T), array.shape)
    return SparseTensor(places, gather(reshaped(x, (-1,)), flat), array.shape)


def reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Return the values in the order of their indices.

    >>> reorder(SparseTensor([[1], [0]], [3, 4], [2])).values.tolist()
    [4, 3]
    """
    places = sp_input.places()
    order = np.lexsort(places.T[::-1])
    values = gather(sp_input.values, order)
    return SparseTensor(places[order], values, tuple(sp_input.shape))


def add(a: Any, b: Any, threshold: Any = 0) -> Any:
    """Add two sparse tensors, or a sparse tensor and a tensor.

    >>> x = SparseTensor([[0]], [3], [2])
    >>> add(x, x).values.tolist(), add(x, [1, 1]).tolist()
    ([6], [4, 1])
    """
    if not isinstance(a, SparseTensor) or not isinstance(b, SparseTensor):
        dense = [to_dense(x, None, False) if isinstance(x, SparseTensor) else constant(x)
                 for x in (a, b)]  # fmt: skip
        return dense[0] + dense[1]
    return _merged(a, b, unsorted_segment_sum, threshold)


def _merged(a: SparseTensor, b: SparseTensor, segments: Any, threshold: Any = 0) -> SparseTensor:
    places = np.concatenate([a.places(), b.places()])
    keys, ids = np.unique(places, axis=0, return_inverse=True)
    values = segments(join([a.values, b.values], 0), as_tensor(ids.reshape(-1)), len(keys))
    found = SparseTensor(keys, values, tuple(a.shape))
    if not threshold:
        return found
    return retain(found, np.abs(np.asarray(read_on_host(values, "add"))) >= threshold)


def maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Return the larger of two sparse tensors, where missing entries are zeros.

    >>> maximum(SparseTensor([[0]], [-3], [2]), SparseTensor([[1]], [2], [2])).values.tolist()
    [0, 2]
    """
    return _with_zeros(sp_a, sp_b, larger)


def minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Return the smaller of two sparse tensors, where missing entries are zeros.

    >>> minimum(SparseTensor([[0]], [-3], [2]), SparseTensor([[1]], [2], [2])).values.tolist()
    [-3, 0]
    """
    return _with_zeros(sp_a, sp_b, smaller)


def _with_zeros(a: SparseTensor, b: SparseTensor, function: Callable[..., Any]) -> SparseTensor:
    keys = np.unique(np.concatenate([a.places(), b.places()]), axis=0)
    empty = [add(x, SparseTensor(keys, constant(np.zeros(len(keys)), x.dtype), tuple(x.shape)))
             for x in (a, b)]  # fmt: skip
    return SparseTensor(keys, function(empty[0].values, empty[1].values), tuple(a.shape))


def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """Multiply a sparse and a dense matrix, in either order.

    >>> sparse_dense_matmul(SparseTensor([[0, 1]], [2.0], [2, 2]), [[1.0], [3.0]]).tolist()
    [[6.0], [0.0]]
    """
    if isinstance(b, SparseTensor):
        turned = sparse_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return transposed(turned)
    left = transpose(sp_a) if adjoint_a else sp_a
    right = constant(b) if not hasattr(b, "shape") else b
    right = transposed(right) if adjoint_b else right
    rows, columns = left.places().T
    products = expand(left.values, 1) * gather(right, columns)
    return scatter_nd(rows[:, None], products, (left.shape[0], right.shape[1]))


def transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Permute the axes, by default reverse them.

    >>> transpose(SparseTensor([[0, 1]], [5], [2, 3])).shape
    (3, 2)
    """
    order = list(range(len(sp_input.shape)))[::-1] if perm is None else [int(k) for k in perm]
    shape = [sp_input.shape[k] for k in order]
    return reorder(SparseTensor(sp_input.places()[:, order], sp_input.values, shape))


def reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Return the values in another shape, in which one length may be -1.

    >>> reshape(SparseTensor([[1, 0]], [5], [2, 2]), [-1]).indices.tolist()
    [[2]]
    """
    old = tuple(sp_input.shape)
    new = np.zeros(old, np.bool_).reshape(tuple(shape)).shape
    flat = np.ravel_multi_index(tuple(sp_input.places().T), old)
    return SparseTensor(np.stack(np.unravel_index(flat, new), axis=1), sp_input.values, new)


def expand_dims(sp_input: Any, axis: int | None = None, name: str | None = None) -> SparseTensor:
    """Insert an axis of length 1, by default at the end.

    >>> expand_dims(SparseTensor([[1]], [5], [2]), 0).shape
    (1, 2)
    """
    rank = len(sp_input.shape)
    place = rank if axis is None else axis % (rank + 1)
    shape = [*sp_input.shape[:place], 1, *sp_input.shape[place:]]
    return SparseTensor(np.insert(sp_input.places(), place, 0, axis=1), sp_input.values, shape)


def slice(  # TensorFlow's name
    sp_input: Any, start: Any, size: Any, name: str | None = None
) -> SparseTensor:
    """Return the part of a sparse tensor that begins at `start` and has this size.

    >>> slice(SparseTensor([[0, 1], [1, 2]], [5, 6], [2, 3]), [1, 0], [1, 3]).indices.tolist()
    [[0, 2]]
    """
    first = np.asarray(constant(start), np.int64)
    last = np.minimum(first + np.asarray(constant(size), np.int64), tuple(sp_input.shape))
    last = np.maximum(first, last)  # a part beyond the end is empty
    places = sp_input.places()
    kept = np.flatnonzero(((places >= first) & (places < last)).all(axis=1))
    return SparseTensor(places[kept] - first, gather(sp_input.values, kept), last - first)


def concat(
    axis: int, sp_inputs: Sequence[Any], expand_nonconcat_dims: bool = False, name: Any = None
) -> SparseTensor:
    """Join sparse tensors along an axis.

    >>> x = SparseTensor([[0, 1]], [5], [1, 2])
    >>> concat(0, [x, x]).indices.tolist()
    [[0, 1], [1, 1]]
    """
    rank = len(sp_inputs[0].shape)
    place, begin, parts = normalize_axis(axis, rank, "concat"), 0, []
    _check_other_lengths(place, [tuple(one.shape) for one in sp_inputs], expand_nonconcat_dims)
    for one in sp_inputs:
        shift = np.zeros(rank, np.int64)
        shift[place] = begin
        parts.append(one.places() + shift)
        begin += one.shape[place]
    shape = np.max([tuple(one.shape) for one in sp_inputs], axis=0)
    shape[place] = begin
    values = join([one.values for one in sp_inputs], 0)
    return reorder(SparseTensor(np.concatenate(parts), values, shape))


def _check_other_lengths(axis: int, shapes: list[tuple[int, ...]], may_differ: bool) -> None:
    others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
    if len({len(shape) for shape in shapes}) > 1 or (len(others) > 1 and not may_differ):
        raise ShapeError(
            f"concat along axis {axis} needs equal lengths of the other axes. Got {shapes}. "
            "With expand_nonconcat_dims=True the longest is taken."
        )


def retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Return the values where a vector is true.

    >>> retain(SparseTensor([[0], [1]], [5, 6], [2]), [False, True]).values.tolist()
    [6]
    """
    kept = np.flatnonzero(np.asarray(constant(to_retain)))
    places = sp_input.places()[kept]
    return SparseTensor(places, gather(sp_input.values, kept), tuple(sp_input.shape))


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the values of sparse tensors with equal indices.

    >>> map_values(lambda v: v + 1, SparseTensor([[0]], [5], [2])).values.tolist()
    [6]
    """
    sparse = [one for one in (*args, *kwargs.values()) if isinstance(one, SparseTensor)]
    if not sparse:
        return op(*args, **kwargs)
    if any(not np.array_equal(one.places(), sparse[0].places()) for one in sparse[1:]):
        raise ArgumentError("map_values needs sparse tensors with equal indices.")
    inner = [one.values if isinstance(one, SparseTensor) else one for one in args]
    named = {key: one.values if isinstance(one, SparseTensor) else one
             for key, one in kwargs.items()}  # fmt: skip
    return sparse[0].with_values(op(*inner, **named))


def reduce_sum(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Add the values along axes, by default along all.

    >>> reduce_sum(SparseTensor([[0, 0], [0, 1]], [5, 6], [2, 2]), axis=1).tolist()
    [11, 0]
    """
    return _reduced(sp_input, axis, keepdims, unsorted_segment_sum, output_is_sparse)


def reduce_max(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the largest of the values along axes; where there are none, 0.

    >>> reduce_max(SparseTensor([[0, 0], [0, 1]], [-5, -6], [2, 2]), axis=1).tolist()
    [-5, 0]
    """
    return _reduced(sp_input, axis, keepdims, unsorted_segment_max, output_is_sparse)


def _reduced(x: SparseTensor, axis: Any, keepdims: Any, segments: Any, stays_sparse: bool) -> Any:
    rank = len(x.shape)
    wanted = None if axis is None else np.atleast_1d(axis).tolist()
    gone = list(normalize_axes(wanted, rank, "A reduction"))
    kept = [k for k in range(rank) if k not in gone]
    places = x.places()[:, kept]
    keys, ids = np.unique(places, axis=0, return_inverse=True)
    if not kept:
        keys, ids = np.zeros((min(1, len(places)), 0), np.int64), np.zeros(len(places), np.int64)
    values = segments(x.values, as_tensor(ids.reshape(-1)), len(keys))
    shape = [x.shape[k] for k in kept]
    if keepdims:
        for k in sorted(gone):
            keys, shape = np.insert(keys, k, 0, axis=1), [*shape[:k], 1, *shape[k:]]
    if stays_sparse:
        return SparseTensor(keys, values, shape)
    if not shape:
        return reshaped(values, ()) if len(keys) else constant(0, x.dtype)
    return to_dense(SparseTensor(keys, values, shape))


def eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = "float32", name: str | None = None
) -> SparseTensor:
    """Return a matrix with ones on its diagonal.

    >>> eye(2).indices.tolist()
    [[0, 0], [1, 1]]
    """
    columns = num_rows if num_columns is None else num_columns
    places = np.arange(min(num_rows, columns))
    return SparseTensor(
        np.stack([places, places], axis=1), ones([len(places)], dtype), [num_rows, columns]
    )
