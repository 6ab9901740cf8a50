"""Primitives of sharded weights and of tensor parallelism, among all processes or a group.

Two conventions meet here. A *shard* is an equal part of the flat elements of a weight: to gather
the shards has the sum of all cotangents, cut again into shards, as its transpose. This is the
function of all processes together that primitives.py describes.

In tensor parallelism the processes of a group compute the same values, and each has the gradient
of the one loss that they share. There, what is computed once per process must not be added: the
transpose of a sum passes the cotangent on, and that of a copy for all processes is a sum.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import linear, nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.world import Group, rank_in, size_of
from tapegrad.errors import ShapeError
from tapegrad.ops.collective.rehearsal import Collective, communicator_for
from tapegrad.ops.collective.started import start_sum, start_sum_over, starts


def shard_length(count: int, parts: int) -> int:
    """Return the number of elements of each shard; the last shards may be padded with zeros.

    >>> shard_length(10, 4)
    3
    """
    return -(-count // parts)


def own_shard(xp: Any, x: Any, *, group: Group = None, lead: int = 0) -> Any:
    """Return the shard of this process of an array that all have; nothing is added.

    The first `lead` axes stay as they are.
    """
    first_axes, shape = x.shape[:lead], x.shape[lead:]
    count, parts = math.prod(shape), size_of(group)
    length = shard_length(count, parts)
    first = min(rank_in(group) * length, count)
    part = xp.reshape(x, (*first_axes, count))[..., first : first + length]
    missing = length - part.shape[-1]
    if missing:
        zeros = xp.zeros((*first_axes, missing), dtype=x.dtype, device=x.device)
        part = xp.concat([part, zeros], axis=-1)
    return part


def _gather(xp: Any, x: Any, *, shape: tuple[int, ...], group: Group) -> Any:
    *lead, length = x.shape
    rows = communicator_for(xp, x, group).all_gather(x)
    flat = xp.reshape(xp.moveaxis(rows, 0, -2), (*lead, rows.shape[0] * length))
    return xp.reshape(flat[..., : math.prod(shape)], (*lead, *shape))


def rows_to_scatter(xp: Any, x: Any, shape: tuple[int, ...], group: Group) -> Any:
    """Return an array as one row per process, padded with zeros; the rows come before other axes.

    `shape` are the last axes, which are divided.
    """
    lead = x.shape[: len(x.shape) - len(shape)]
    count, parts = math.prod(shape), size_of(group)
    length = shard_length(count, parts)
    flat = xp.reshape(x, (*lead, count))
    if length * parts != count:
        zeros = xp.zeros((*lead, length * parts - count), dtype=x.dtype, device=x.device)
        flat = xp.concat([flat, zeros], axis=-1)
    return xp.moveaxis(xp.reshape(flat, (*lead, parts, length)), -2, 0)


def _scatter(xp: Any, x: Any, *, shape: tuple[int, ...], group: Group) -> Any:
    return communicator_for(xp, x, group).reduce_scatter(rows_to_scatter(xp, x, shape, group))


own_shard_p: Primitive = nondifferentiable(
    "own_shard",
    own_shard,
    batch=lambda size, batched, x, *, group=None, lead=0: own_shard_p(
        x, group=group, lead=lead + 1
    ),
)
"""The shard of this process of a value that all processes have."""

gather_shards_p: Primitive = linear(
    "gather_shards",
    _gather,
    transpose=lambda t, *, shape, group: scatter_shards_p(t, shape=shape, group=group),
    batch=lambda size, batched, x, **params: gather_shards_p(x, **params),
    kind=Collective,
)
"""The weight of a shape whose shards the processes hold."""

scatter_shards_p: Primitive = linear(
    "scatter_shards",
    _scatter,
    transpose=lambda t, *, shape, group: gather_shards_p(t, shape=shape, group=group),
    batch=lambda size, batched, x, **params: scatter_shards_p(x, **params),
    kind=Collective,
)
"""The shard of the sum of the operands of all processes."""


def _start_gather(xp: Any, x: Any, *, shape: tuple[int, ...], group: Group) -> Any:
    if len(x.shape) > 1:
        return _gather(xp, x, shape=shape, group=group)  # a batch of weights is copied at the end
    rows = communicator_for(xp, x, group).start_all_gather(x)
    return xp.reshape(xp.reshape(rows, (math.prod(rows.shape),))[: math.prod(shape)], shape)


def _start_scatter(xp: Any, x: Any, *, shape: tuple[int, ...], group: Group) -> Any:
    communicator = communicator_for(xp, x, group)
    return communicator.start_reduce_scatter(rows_to_scatter(xp, x, shape, group))


start_gather_p = starts("start_gather_shards", gather_shards_p, _start_gather)
start_scatter_p = starts("start_scatter_shards", scatter_shards_p, _start_scatter)


def _sum(xp: Any, x: Any, *, group: Group) -> Any:
    return communicator_for(xp, x, group).all_reduce(x, "sum")


def _copy(xp: Any, x: Any, *, group: Group) -> Any:
    return x


def _join(xp: Any, x: Any, *, axis: int, group: Group) -> Any:
    shape = [*x.shape]
    shape[axis] = _length(x, axis) * size_of(group)
    rows = xp.moveaxis(communicator_for(xp, x, group).all_gather(x), 0, axis - 1)
    return xp.reshape(rows, tuple(shape))


def _length(x: Any, axis: int) -> int:
    if x.ndim < -axis:
        raise ShapeError(
            f"A tensor of shape {tuple(x.shape)} cannot be split between processes along its axis "
            f"{axis}, because it has {x.ndim} axes."
        )
    length: int = x.shape[axis]
    return length


def own_part(xp: Any, x: Any, *, axis: int, group: Group) -> Any:
    """Return the part of this process along an axis that is counted from the end."""
    length = _length(x, axis) // size_of(group)
    first = rank_in(group) * length
    after = [slice(None)] * (-axis - 1)
    return x[(..., slice(first, first + length), *after)]


sum_in_group_p: Primitive = linear(
    "sum_in_group",
    _sum,
    transpose=lambda t, *, group: copy_to_group_p(t, group=group),
    batch=lambda size, batched, x, **params: sum_in_group_p(x, **params),
    kind=Collective,
)
"""The sum of partial results of the processes; each gets the cotangent of the whole."""

sum_over_replicas_p: Primitive = linear(
    "sum_over_replicas",
    _sum,
    transpose=lambda t, *, group: sum_over_replicas_p(t, group=group),
    batch=lambda size, batched, x, **params: sum_over_replicas_p(x, **params),
    kind=Collective,
)
"""The sum of what replicas have computed from different data; cotangents are added as well."""
start_sum_p = starts("start_sum", sum_over_replicas_p, start_sum)
start_sum_p.overwriting = start_sum_over


copy_to_group_p: Primitive = linear(
    "copy_to_group",
    _copy,
    transpose=lambda t, *, group: sum_in_group_p(t, group=group),
    batch=lambda size, batched, x, **params: copy_to_group_p(x, **params),
)
"""A value that all processes have and of which each computes another part; cotangents are added."""

join_in_group_p: Primitive = linear(
    "join_in_group",
    _join,
    transpose=lambda t, *, axis, group: own_part_p(t, axis=axis, group=group),
    batch=lambda size, batched, x, **params: join_in_group_p(x, **params),
    kind=Collective,
)
"""The parts of all processes, joined along an axis that is counted from the end."""

own_part_p: Primitive = linear(
    "own_part",
    own_part,
    transpose=lambda t, *, axis, group: join_in_group_p(t, axis=axis, group=group),
    batch=lambda size, batched, x, **params: own_part_p(x, **params),
    selects=True,
)
"""The part of this process of a value that all have, along an axis counted from the end."""
