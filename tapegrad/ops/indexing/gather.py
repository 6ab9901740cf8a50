"""Gathering entries along an axis by integer indices, and the sparse gradient of row gathers.

All indexing with integer arrays uses one primitive, `take_p`. Several indexed axes are first
merged into one, and their indices into positions along it (`linear_index_p`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.index_check import NOWHERE, check_range, is_checking
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive
from tapegrad.core.values import host
from tapegrad.core.values.convert import register_tensor_conversion_function, to_host_array
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.shape import joining
from tapegrad.ops.shape.primitives import broadcast_p, permute_p, reshape_p


def _join_indices(
    xp: Any, *arrays: Any, lengths: tuple[int, ...], axes: tuple[int, ...], name: str
) -> Any:
    # Do not read the values here: on a GPU that would synchronize. An index out of range becomes
    # the position NOWHERE, which is out of range too, and not a valid position of another row.
    total, wrong = None, None
    for array, length in zip(arrays, lengths, strict=True):
        index = xp.astype(array, np.dtype("int64"))
        index = xp.where(index < 0, index + length, index)
        outside = (index < 0) | (index >= length)
        total = index if total is None else total * length + index
        wrong = outside if wrong is None else wrong | outside
    nowhere = xp.full((), NOWHERE, dtype=np.dtype("int64"), device=arrays[0].device)
    return xp.where(wrong, nowhere, total)


linear_index_p = nondifferentiable("linear_index", _join_indices, broadcasts=True)


def _offset(xp: Any, indices: Any, *, axis: int, length: int) -> Any:
    count = indices.shape[axis]
    steps = xp.arange(count, dtype=indices.dtype, device=indices.device) * length
    return indices + xp.reshape(steps, (count, *[1] * (indices.ndim - axis - 1)))


offset_index_p: Primitive = nondifferentiable(
    "offset_index",
    _offset,
    batch=lambda size, batched, x, *, axis, length: offset_index_p(x, axis=axis + 1, length=length),
)


def _take(xp: Any, x: Any, indices: Any, *, axis: int) -> Any:
    taken = xp.take(x, xp.reshape(indices, (-1,)), axis=axis)
    return xp.reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def hits(xp: Any, indices: Any, size: int, rank: int) -> Any:
    """Compare every index with every position, for namespaces without scatter."""
    flat = xp.reshape(indices, (-1, 1))
    found = flat == xp.arange(size, dtype=flat.dtype, device=flat.device)
    return xp.reshape(found, (*found.shape, *[1] * rank))


def scatter_sum(xp: Any, t: Any, indices: Any, *, axis: int, size: int) -> Any:
    """Sum entries at their positions, using Array API functions only."""
    outer, inner = t.shape[:axis], t.shape[axis + indices.ndim :]
    rows = xp.reshape(t, (math.prod(outer), math.prod(indices.shape), 1, math.prod(inner)))
    zero = xp.zeros((), dtype=t.dtype, device=t.device)
    placed = xp.where(hits(xp, indices, size, 1), rows, zero)
    return xp.reshape(xp.sum(placed, axis=1, dtype=t.dtype), (*outer, size, *inner))


take_p = Primitive("take", _take)
take_p.vjps(
    lambda t, x1_shape, x2, *, axis: take_add_p(t, x2, axis=axis, size=x1_shape[axis]), None
)
take_p.jvps(lambda t, x2, *, axis: take_p(t, x2, axis=axis), None)

take_add_p: Primitive = Primitive("take_add", scatter_sum)
take_add_p.vjps(lambda t, x2, *, axis, size: take_p(t, x2, axis=axis), None)
take_add_p.jvps(lambda t, x2, *, axis, size: take_add_p(t, x2, axis=axis, size=size), None)
take_add_p.result_shape = lambda t, indices, *, axis, size: (
    *t.shape[:axis],
    size,
    *t.shape[axis + len(indices.shape) :],
)

# Programs make it of a sum with take_add_p; there its result may lie where `x` does.
added_rows_p: Primitive = nondifferentiable(
    "added_rows",
    lambda xp, x, v, indices, *, axis: (
        x + scatter_sum(xp, v, indices, axis=axis, size=x.shape[axis])
    ),
)

# take_p along axis 0, for gathers whose gradient may stay sparse.
gather_rows_p = Primitive("gather_rows", lambda xp, x, indices: _take(xp, x, indices, axis=0))
gather_rows_p.vjps(lambda t, x1_shape, x2: take_add_p(t, x2, axis=0, size=x1_shape[0]), None)
gather_rows_p.jvps(lambda t, x2: gather_rows_p(t, x2), None)


@take_p.batch
def _batch_take(size: int, batched: tuple[bool, bool], x: Any, indices: Any, *, axis: int) -> Any:
    if not batched[1]:
        return take_p(x, indices, axis=axis + 1)
    if not batched[0]:
        return move_axis(take_p(x, indices, axis=axis), axis, 0)
    return take_pairwise(x, indices, axis)


@gather_rows_p.batch
def _batch_gather(size: int, batched: tuple[bool, bool], x: Any, indices: Any) -> Any:
    return _batch_take(size, batched, x, indices, axis=0)


@take_add_p.batch
def _batch_add(
    count: int, batched: tuple[bool, bool], t: Any, indices: Any, *, axis: int, size: int
) -> Any:
    if not batched[1]:
        return take_add_p(t, indices, axis=axis + 1, size=size)
    if not batched[0]:
        t = broadcast_p(t, shape=(count, *t.shape))
    shifted = offset_index_p(indices, axis=0, length=size)
    total = take_add_p(move_axis(t, 0, axis), shifted, axis=axis, size=count * size)
    return split_axis(total, axis, count)


def take_pairwise(x: Any, indices: Any, axis: int) -> Any:
    """Take the entries `indices[k]` of each `x[k]` along its axis `axis`."""
    shifted = offset_index_p(indices, axis=0, length=x.shape[axis + 1])
    return move_axis(take_p(merge_first(x, axis), shifted, axis=axis), axis, 0)


def merge_first(x: Any, axis: int) -> Any:
    """Move axis 0 in front of axis `axis + 1` and merge the two."""
    moved = move_axis(x, 0, axis)
    shape = moved.shape
    return reshape_p(
        moved, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    )


def split_axis(x: Any, axis: int, count: int) -> Any:
    """Undo `merge_first`."""
    shape = x.shape
    length = shape[axis] // count if count else 0
    parts = reshape_p(x, shape=(*shape[:axis], count, length, *shape[axis + 1 :]))
    return move_axis(parts, axis, 0)


def move_axis(x: Any, source: int, target: int) -> Any:
    """Move one axis; the others keep their order."""
    if source == target:
        return x
    order = [axis for axis in range(len(x.shape)) if axis != source]
    order.insert(target, source)
    return permute_p(x, axes=tuple(order))


# Indices


def index_operand(value: Any, name: str) -> Any:
    """Return integer indices as a NumPy array if they are host values, else as an operand."""
    if isinstance(value, Variable):
        value = value.shared_value()
    on_host = not isinstance(value, Tensor) and type(value) not in INTERPRETERS
    index = _host_index(value) if on_host else value
    dtype_kind = as_dtype(index.dtype).kind if on_host else index.dtype.kind
    if dtype_kind not in "iu":
        raise ArgumentTypeError(
            f"{name} needs integer indices. Got {index.dtype}; cast them with "
            "tapegrad.cast(indices, 'int64')."
        )
    return index


def _host_index(value: Any) -> Any:
    if hasattr(value, "shape") and not isinstance(value, np.ndarray | np.generic):
        return as_operand(value)  # an array of another backend
    if joining.holds_tensors(value):
        return as_operand(value)
    index = to_host_array(value) if isinstance(value, list | tuple) else np.asarray(value)
    return index if index.size else index.astype(np.int64)


def linear_index(
    x: Any, arrays: Sequence[Any], lengths: tuple[int, ...], axes: tuple[int, ...], name: str
) -> Any:
    """Return positions along the merged axes as an operand on the device of `x`.

    Host indices are checked; indices on a device only inside `debug.check_indices()`.
    """
    if all(isinstance(array, np.ndarray | np.generic | int) for array in arrays):
        check_and_join = linear_index_p.kernel(np.ndarray)
        return place_next_to(x, check_and_join(*arrays, lengths=lengths, axes=axes, name=name))
    placed = [
        place_next_to(x, np.asarray(array))
        if isinstance(array, np.ndarray | np.generic | int)
        else array
        for array in arrays
    ]
    if is_checking():
        for array, length, axis in zip(placed, lengths, axes, strict=True):
            check_range(name, array, length, axis)
    return linear_index_p(*placed, lengths=lengths, axes=axes, name=name)


def place_next_to(x: Any, value: Any) -> Any:
    """Return a host array as a tensor on the device of `x`; the tensor may share its memory."""
    while type(x) in INTERPRETERS:
        x = x.tensor
    array = x.array if isinstance(x, Tensor) else x
    if isinstance(array, np.ndarray | np.generic):
        return wrap(value) if isinstance(x, Tensor) else value
    placed = host.place_like(value, array)
    return wrap(placed) if isinstance(x, Tensor) else placed


def gather(
    params: Any,
    indices: Any,
    validate_indices: bool | None = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Return the slices of `params` at `indices` along an axis.

    Along the first axis of a Variable the gradient is an `IndexedSlices`. The first `batch_dims`
    axes of `params` and `indices` are batch axes and must agree. An index out of range raises an
    error on the CPU; on a GPU it gives zeros, or an error inside `debug.check_indices()`.

    >>> gather([10.0, 20.0, 30.0], [2, 0]).tolist()
    [30.0, 10.0]
    """
    params = as_operand(params)
    index = index_operand(indices, "gather")
    batch = normalize_axis(batch_dims, len(index.shape) + 1, "gather") if batch_dims else 0
    where = batch if axis is None else normalize_axis(axis, len(params.shape), "gather")
    _check_rank(params, where, batch)
    flat = linear_index(params, [index], (params.shape[where],), (where,), "gather")
    if batch:
        return _gather_in_batches(params, flat, where, batch)
    return gather_rows_p(params, flat) if where == 0 else take_p(params, flat, axis=where)


def _check_rank(params: Any, axis: int, batch: int) -> None:
    if len(params.shape) == 0:
        raise ShapeError("gather needs params with at least one axis. Got a 0-d tensor.")
    if axis < batch:
        raise ArgumentError(
            f"gather needs axis >= batch_dims. Got axis={axis} and batch_dims={batch}."
        )


def _gather_in_batches(params: Any, indices: Any, axis: int, batch: int) -> Any:
    lead = tuple(params.shape[:batch])
    if tuple(indices.shape[:batch]) != lead:
        raise ShapeError(
            f"gather with batch_dims={batch} needs equal leading axes. "
            f"Got {lead} and {tuple(indices.shape[:batch])}."
        )
    count = math.prod(lead)
    x = reshape_p(params, shape=(count, *params.shape[batch:]))
    flat = reshape_p(indices, shape=(count, *indices.shape[batch:]))
    taken = take_pairwise(x, flat, axis - batch)
    return reshape_p(taken, shape=(*lead, *taken.shape[1:]))


def gather_nd(
    params: Any,
    indices: Any,
    batch_dims: int = 0,
    name: str | None = None,
    bad_indices_policy: str = "",
) -> Any:
    """Return the slices of `params` at the coordinates along the last axis of `indices`.

    >>> gather_nd([[1.0, 2.0], [3.0, 4.0]], [[1, 0], [0, 1]]).tolist()
    [3.0, 2.0]
    """
    params = as_operand(params)
    index = index_operand(indices, "gather_nd")
    lead = tuple(params.shape[:batch_dims])
    if tuple(index.shape[:batch_dims]) != lead:
        raise ShapeError(
            f"gather_nd with batch_dims={batch_dims} needs equal leading axes. "
            f"Got {lead} and {tuple(index.shape[:batch_dims])}."
        )
    inner = tuple(params.shape[batch_dims:])
    flat = nd_index(params, index, inner, "gather_nd")
    depth = index.shape[-1]
    if not batch_dims:
        merged = reshape_p(params, shape=(math.prod(inner[:depth]), *inner[depth:]))
        return take_p(merged, flat, axis=0)
    count = math.prod(lead)
    merged = reshape_p(params, shape=(count, math.prod(inner[:depth]), *inner[depth:]))
    rows = reshape_p(flat, shape=(count, *flat.shape[batch_dims:]))
    taken = take_pairwise(merged, rows, 0)
    return reshape_p(taken, shape=(*lead, *taken.shape[1:]))


def nd_index(x: Any, indices: Any, shape: tuple[int, ...], name: str) -> Any:
    """Convert coordinates along the last axis to positions along the merged leading axes."""
    if not len(indices.shape) or indices.shape[-1] > len(shape):
        raise ShapeError(
            f"{name} needs indices with at most {len(shape)} coordinates along their last axis, "
            f"one per axis of shape {shape}. Got indices of shape {indices.shape}."
        )
    depth = indices.shape[-1]
    if depth == 0:
        return place_next_to(x, np.zeros(indices.shape[:-1], np.int64))
    columns = [_column(indices, k) for k in range(depth)]
    return linear_index(x, columns, shape[:depth], tuple(range(depth)), name)


def _column(indices: Any, k: int) -> Any:
    if isinstance(indices, np.ndarray):
        return indices[..., k]
    return slice_p(indices, index=(*(slice(None),) * (len(indices.shape) - 1), k))


def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: str | None = None) -> Any:
    """Return the rows of `params` for each id.

    >>> import tapegrad
    >>> table = tapegrad.Variable([[1.0, 2.0], [3.0, 4.0]])
    >>> embedding_lookup(table, [1, 1]).shape
    (2, 2)
    """
    if isinstance(params, list | tuple) and len(params) == 1:
        params = params[0]
    if isinstance(params, list | tuple):
        raise ArgumentError(
            f"embedding_lookup needs one table. Got {len(params)}; concatenate them with "
            "tapegrad.concat."
        )
    if max_norm is not None:
        raise ArgumentError("embedding_lookup does not support max_norm. Clip the rows it returns.")
    return gather(params, ids)


# The sparse gradient of a row gather


class RowGradient:
    """A sparse cotangent in a sweep: rows (arrays or tensors), their indices, the dense shape."""

    __slots__ = ("indices", "shape", "values")

    def __init__(self, values: Any, indices: Any, shape: tuple[int, ...]) -> None:
        self.values = values
        self.indices = indices
        self.shape = shape

    def as_indexed_slices(self) -> IndexedSlices:
        return IndexedSlices(_tensor(self.values), _tensor(self.indices), self.shape)

    def dense(self) -> Any:
        """Return the dense cotangent, an array or a tensor like the rows."""
        return take_add_p(self.values, self.indices, axis=0, size=self.shape[0])


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


def _sparse_cotangent(t: Any, x1_shape: tuple[int, ...], x2: Any) -> Any:
    if type(t) in INTERPRETERS or type(x2) in INTERPRETERS:
        return take_add_p(t, x2, axis=0, size=x1_shape[0])
    count = math.prod(x2.shape)
    rows = reshape_p(t, shape=(count, *x1_shape[1:]))
    return RowGradient(rows, reshape_p(x2, shape=(count,)), tuple(x1_shape))


gather_rows_p.sparse(_sparse_cotangent)
gather_rows_p.plain_rules = None  # the fast path of the sweep would ignore the sparse rule


def add_row_gradients(first: Any, second: Any) -> Any:
    """Add two cotangents, at least one of them sparse; the sum of two sparse ones is sparse."""
    if isinstance(first, RowGradient) and isinstance(second, RowGradient):
        values = joining.concat([first.values, second.values], 0)
        return RowGradient(values, joining.concat([first.indices, second.indices], 0), first.shape)
    return arithmetic.add(_dense(first), _dense(second))


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, RowGradient) else value


def _dense_tensor(slices: IndexedSlices) -> Any:
    size = slices.shape[0]
    return take_add_p(slices.values, slices.indices, axis=0, size=size)


register_tensor_conversion_function(IndexedSlices, _dense_tensor)
