"""Scatter: write entries by integer indices. Every function returns a new tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive
from tapegrad.core.values.convert import read_on_host, to_tensor
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import DTypeError, ShapeError
from tapegrad.ops.creation import full_like_p, zeros_for
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.indexing.gather import (
    hits,
    index_operand,
    merge_first,
    move_axis,
    nd_index,
    offset_index_p,
    scatter_sum,
    split_axis,
    take_add_p,
    take_p,
)
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.shape.primitives import broadcast_p, lift_unbatched, reshape_p

# Replace along one axis


def _last_hit(xp: Any, indices: Any, size: int) -> Any:
    """Return the number of the last index that refers to each position, -1 for none."""
    found = hits(xp, indices, size, 0)
    order = xp.arange(found.shape[0], dtype=np.dtype("int64"), device=indices.device)
    none = xp.full((1, size), -1, dtype=order.dtype, device=indices.device)
    return xp.max(xp.concat([none, xp.where(found, order[:, None], -1)]), axis=0)


def _set(xp: Any, x: Any, v: Any, indices: Any, *, axis: int) -> Any:
    last = _last_hit(xp, indices, x.shape[axis])
    count = math.prod(indices.shape)
    if not count:
        return xp.asarray(x, copy=True)
    rows = xp.reshape(v, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    new = xp.take(rows, xp.maximum(last, xp.zeros_like(last)), axis=axis)
    written = xp.reshape(last >= 0, (-1, *[1] * (x.ndim - axis - 1)))
    return xp.where(written, new, x)


def _take_last(xp: Any, t: Any, indices: Any, *, axis: int) -> Any:
    flat = xp.reshape(indices, (-1,))
    order = xp.arange(flat.shape[0], dtype=np.dtype("int64"), device=t.device)
    keep = xp.take(_last_hit(xp, indices, t.shape[axis]), flat) == order
    zero = xp.zeros((), dtype=t.dtype, device=t.device)
    taken = xp.take(t, flat, axis=axis)
    taken = xp.where(xp.reshape(keep, (-1, *[1] * (t.ndim - axis - 1))), taken, zero)
    return xp.reshape(taken, (*t.shape[:axis], *indices.shape, *t.shape[axis + 1 :]))


def _cleared(t: Any, indices: Any, axis: int) -> Any:
    """Return `t` with zeros at the indices."""
    shape = (*t.shape[:axis], *indices.shape, *t.shape[axis + 1 :])
    nothing = broadcast_p(zeros_for(t, (), t.dtype), shape=shape)
    return take_set_p(t, nothing, indices, axis=axis)


# take_set_p(x, v, indices): of repeated indices the last one wins and gets the gradient.
take_set_p = Primitive("take_set", _set)
take_set_p.vjps(
    lambda t, x3, *, axis: _cleared(t, x3, axis),
    lambda t, x3, *, axis: take_last_p(t, x3, axis=axis),
    None,
)
take_set_p.jvps(
    lambda t, x3, *, axis: _cleared(t, x3, axis),
    lambda t, x3, x1_shape, *, axis: _put(t, x3, x1_shape[axis], axis),
    None,
)

take_last_p: Primitive = Primitive("take_last", _take_last)
take_last_p.vjps(lambda t, x2, x1_shape, *, axis: _put(t, x2, x1_shape[axis], axis), None)
take_last_p.jvps(lambda t, x2, *, axis: take_last_p(t, x2, axis=axis), None)


def _put(v: Any, indices: Any, size: int, axis: int) -> Any:
    """Return zeros with `v` written at the indices: the transpose of `take_last_p`."""
    inner = v.shape[axis + len(indices.shape) :]
    nothing = zeros_for(v, (*v.shape[:axis], size, *inner), v.dtype)
    return take_set_p(nothing, v, indices, axis=axis)


@take_set_p.batch
def _batch_set(
    size: int, batched: tuple[bool, ...], x: Any, v: Any, indices: Any, *, axis: int
) -> Any:
    x, v = lift_unbatched(size, batched[:2], x, v)
    if not batched[2]:
        return take_set_p(x, v, indices, axis=axis + 1)
    shifted = offset_index_p(indices, axis=0, length=x.shape[axis + 1])
    result = take_set_p(merge_first(x, axis), move_axis(v, 0, axis), shifted, axis=axis)
    return split_axis(result, axis, size)


@take_last_p.batch
def _batch_last(size: int, batched: tuple[bool, ...], t: Any, indices: Any, *, axis: int) -> Any:
    if not batched[1]:
        return take_last_p(t, indices, axis=axis + 1)
    if not batched[0]:
        t = broadcast_p(t, shape=(size, *t.shape))
    shifted = offset_index_p(indices, axis=0, length=t.shape[axis + 1])
    return move_axis(take_last_p(merge_first(t, axis), shifted, axis=axis), axis, 0)


# Elementwise maximum or minimum of rows


def _extreme(xp: Any, x: Any, v: Any, indices: Any, *, largest: bool) -> Any:
    if not indices.shape[0]:
        return xp.asarray(x, copy=True)
    candidates = xp.where(hits(xp, indices, x.shape[0], x.ndim - 1), v[:, None, ...], x[None, ...])
    best = xp.max(candidates, axis=0) if largest else xp.min(candidates, axis=0)
    return xp.maximum(x, best) if largest else xp.minimum(x, best)


def _shares(xp: Any, x: Any, v: Any, indices: Any, y: Any) -> tuple[Any, Any]:
    wins = xp.astype(v == xp.take(y, indices, axis=0), x.dtype)
    own = xp.astype(x == y, x.dtype)
    count = own + scatter_sum(xp, wins, indices, axis=0, size=x.shape[0])
    share = 1.0 / xp.maximum(count, xp.ones_like(count))
    return own * share, wins * xp.take(share, indices, axis=0)


# The fraction of the gradient that goes to x and to each row of v; ties share it equally.
extreme_shares_p = nondifferentiable("extreme_shares", _shares, many=True)

take_extreme_p = Primitive("take_extreme", _extreme)


@take_extreme_p.vjp
def _extreme_vjp(t: Any, x1: Any, x2: Any, x3: Any, y: Any) -> tuple[Any, Any, None]:
    own, theirs = extreme_shares_p(x1, x2, x3, y)
    return t * own, take_p(t, x3, axis=0) * theirs, None


@take_extreme_p.jvp
def _extreme_jvp(ts: Any, x1: Any, x2: Any, x3: Any, y: Any) -> Any:
    own, theirs = extreme_shares_p(x1, x2, x3, y)
    tangents = []
    if ts[0] is not None:
        tangents.append(ts[0] * own)
    if ts[1] is not None:
        tangents.append(take_add_p(ts[1] * theirs, x3, axis=0, size=x1.shape[0]))
    return tangents[0] if len(tangents) == 1 else arithmetic.add(*tangents)


def _merge_batch(size: int, batched: tuple[bool, ...], *args: Any) -> tuple[Any, ...]:
    """Merge the batch axis into the rows, and offset the indices of each example accordingly."""
    x, v, indices, *rest = lift_unbatched(size, batched, *args)
    shifted = offset_index_p(indices, axis=0, length=x.shape[1])
    x, v, shifted, *rest = (merge_first(value, 0) for value in (x, v, shifted, *rest))
    return (x, v, shifted, *rest)


@take_extreme_p.batch
def _batch_extreme(size: int, batched: tuple[bool, ...], *args: Any, largest: bool) -> Any:
    return split_axis(take_extreme_p(*_merge_batch(size, batched, *args), largest=largest), 0, size)


@extreme_shares_p.batch
def _batch_shares(size: int, batched: tuple[bool, ...], *args: Any) -> tuple[Any, ...]:
    shares = extreme_shares_p(*_merge_batch(size, batched, *args))
    return tuple(split_axis(share, 0, size) for share in shares)


# TensorFlow's functions, whose `indices` hold coordinates along the last axis


def _prepare(tensor: Any, indices: Any, updates: Any, name: str) -> tuple[Any, Any, Any]:
    """Return `tensor` with its indexed axes merged, the updates as rows, and flat positions."""
    tensor = as_operand(tensor)
    updates = like(updates, tensor)
    index = index_operand(indices, name)
    shape = tuple(tensor.shape)
    flat = nd_index(tensor, index, shape, name)
    depth = index.shape[-1]
    wanted = (*index.shape[:-1], *shape[depth:])
    if updates.shape != wanted:
        raise ShapeError(
            f"{name} needs updates of shape {wanted} for indices of shape {index.shape}. "
            f"Got {updates.shape}."
        )
    count = math.prod(index.shape[:-1])
    merged = reshape_p(tensor, shape=(math.prod(shape[:depth]), *shape[depth:]))
    rows = reshape_p(updates, shape=(count, *shape[depth:]))
    return merged, rows, reshape_p(flat, shape=(count,))


def like(value: Any, example: Any) -> Any:
    """Return `value` as an operand; host values take the dtype and device of `example`."""
    if isinstance(example, Tensor) and type(value) not in INTERPRETERS:
        return to_tensor(value, like=example)
    return as_operand(value)


def fitted(value: Any, example: Any, name: str) -> Any:
    """Return `like(value, example)`, or raise if the dtype of `example` cannot hold its values."""
    value = like(value, example)
    order = "biufc"
    if order.find(kind_of(value)) > order.find(kind_of(example)):
        raise DTypeError(
            f"{name} cannot write {value.dtype} values into a tensor of {example.dtype}. Cast one "
            f"of them: tapegrad.cast(x, '{value.dtype}')."
        )
    return value


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Add updates at their coordinates into zeros of `shape`.

    >>> scatter_nd([[1], [1]], [1.0, 2.0], [3]).tolist()
    [0.0, 3.0, 0.0]
    """
    updates = as_operand(updates)
    index = index_operand(indices, "scatter_nd")
    wanted = check_wholes("shape", shape)
    flat = nd_index(updates, index, wanted, "scatter_nd")
    depth = index.shape[-1]
    if updates.shape != (*index.shape[:-1], *wanted[depth:]):
        raise ShapeError(
            f"scatter_nd needs updates of shape {(*index.shape[:-1], *wanted[depth:])} for "
            f"indices of shape {index.shape}. Got {updates.shape}."
        )
    total = take_add_p(updates, flat, axis=0, size=math.prod(wanted[:depth]))
    return reshape_p(total, shape=wanted)


def tensor_scatter_nd_update(
    tensor: Any, indices: Any, updates: Any, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Return `tensor` with slices replaced; of repeated coordinates the last one wins.

    >>> tensor_scatter_nd_update([1.0, 2.0, 3.0], [[0]], [9.0]).tolist()
    [9.0, 2.0, 3.0]
    """
    tensor = as_operand(tensor)
    updates = fitted(updates, tensor, "tensor_scatter_nd_update")
    merged, rows, flat = _prepare(tensor, indices, updates, "tensor_scatter_nd_update")
    result = take_set_p(merged, rows, flat, axis=0)
    return reshape_p(result, shape=tuple(tensor.shape))


def tensor_scatter_nd_add(
    tensor: Any, indices: Any, updates: Any, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Return `tensor` with updates added at their coordinates.

    >>> tensor_scatter_nd_add([1.0, 2.0], [[0], [0]], [1.0, 1.0]).tolist()
    [3.0, 2.0]
    """
    tensor = as_operand(tensor)
    _, rows, flat = _prepare(tensor, indices, updates, "tensor_scatter_nd_add")
    return arithmetic.add(tensor, _summed(tensor, rows, flat))


def tensor_scatter_nd_sub(
    tensor: Any, indices: Any, updates: Any, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Return `tensor` with updates subtracted at their coordinates.

    >>> tensor_scatter_nd_sub([1.0, 2.0], [[1]], [1.0]).tolist()
    [1.0, 1.0]
    """
    tensor = as_operand(tensor)
    _, rows, flat = _prepare(tensor, indices, updates, "tensor_scatter_nd_sub")
    return arithmetic.subtract(tensor, _summed(tensor, rows, flat))


def _summed(tensor: Any, rows: Any, flat: Any) -> Any:
    size = math.prod(tensor.shape[: len(tensor.shape) - len(rows.shape) + 1])
    return reshape_p(take_add_p(rows, flat, axis=0, size=size), shape=tuple(tensor.shape))


def tensor_scatter_nd_max(
    tensor: Any, indices: Any, updates: Any, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Return the maximum of `tensor` and the updates; ties share the gradient equally.

    >>> tensor_scatter_nd_max([1.0, 2.0], [[0], [1]], [5.0, 0.0]).tolist()
    [5.0, 2.0]
    """
    return _scatter_extreme(tensor, indices, updates, "tensor_scatter_nd_max", largest=True)


def tensor_scatter_nd_min(
    tensor: Any, indices: Any, updates: Any, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Return the minimum of `tensor` and the updates; ties share the gradient equally.

    >>> tensor_scatter_nd_min([1.0, 2.0], [[0], [1]], [5.0, 0.0]).tolist()
    [1.0, 0.0]
    """
    return _scatter_extreme(tensor, indices, updates, "tensor_scatter_nd_min", largest=False)


def _scatter_extreme(tensor: Any, indices: Any, updates: Any, name: str, largest: bool) -> Any:
    tensor = as_operand(tensor)
    updates = fitted(updates, tensor, name)
    merged, rows, flat = _prepare(tensor, indices, updates, name)
    result = take_extreme_p(merged, rows, flat, largest=largest)
    return reshape_p(result, shape=tuple(tensor.shape))


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Any:
    """Interleave the rows of several tensors at the positions in `indices`; later rows win.

    >>> dynamic_stitch([[0, 2], [1]], [[1.0, 3.0], [2.0]]).tolist()
    [1.0, 2.0, 3.0]
    """
    positions = [
        read_on_host(index_operand(index, "dynamic_stitch"), "dynamic_stitch()")
        for index in indices
    ]
    first = as_operand(data[0])
    parts = [first, *(fitted(part, first, "dynamic_stitch") for part in data[1:])]
    inner = tuple(first.shape[positions[0].ndim :])
    size = 1 + max((int(position.max()) for position in positions if position.size), default=-1)
    result = full_like_p(first, shape=(size, *inner), value=0, dtype=numpy_dtype(first.dtype))
    for position, part in zip(positions, parts, strict=True):
        if part.shape != (*position.shape, *inner):
            raise ShapeError(
                f"dynamic_stitch needs data of shape {(*position.shape, *inner)} for indices of "
                f"shape {position.shape}. Got {part.shape}."
            )
        coordinates = position.reshape(*position.shape, 1)
        result = tensor_scatter_nd_update(result, coordinates, part)
    return result
