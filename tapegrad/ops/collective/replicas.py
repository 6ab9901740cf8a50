"""Replicas: processes that train copies of one model on different data.

Strategies set how many replicas there are; optimizers and models ask, and combine their gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapegrad.core.world import Group, current_world, rank_in, size_of
from tapegrad.ops.collective.conditional import sum_when_p
from tapegrad.ops.collective.parts import sum_over_replicas_p
from tapegrad.ops.shape.joining import concat, split
from tapegrad.ops.shape.primitives import reshape_p

BUCKET = 25_000_000
"""The most bytes that one call adds."""

LARGE = 1_000_000
"""The bytes from which a tensor has a separate call, because a copy costs more than that."""

_replicas: ContextVar[int] = ContextVar("tapegrad_replicas", default=1)


class _Settings:
    """What holds for the whole process."""

    group: Group = None
    shards: int | None = None


def fixed_shards() -> int | None:
    """Return into how many shards batches are cut for sums in a fixed order, or None.

    >>> fixed_shards() is None
    True
    """
    return _Settings.shards


@contextmanager
def using_fixed_shards(shards: int | None) -> Iterator[None]:
    """Let models that are trained inside the block add gradients of shards in a fixed order."""
    before, _Settings.shards = _Settings.shards, shards
    try:
        yield
    finally:
        _Settings.shards = before


def replicas_in_sync() -> int:
    """Return the number of replicas of the current strategy.

    >>> replicas_in_sync()
    1
    """
    return _replicas.get()


@contextmanager
def using_replicas(count: int) -> Iterator[None]:
    """Let optimizers and models that are made or used inside the block combine gradients."""
    token = _replicas.set(count)
    try:
        yield
    finally:
        _replicas.reset(token)


def set_replicas(count: int, group: Group) -> None:
    """Set the number of replicas from now on, and the processes that are the replicas of this one.

    Other processes compute parts of the same replicas.
    """
    _replicas.set(count)
    _Settings.group = group


def replica_group() -> Group:
    """Return the processes that have the same part of the model and other data.

    >>> replica_group() is None  # all processes
    True
    """
    return _Settings.group


def own_replica() -> tuple[int, int]:
    """Return the number of this replica, and that of all replicas.

    >>> own_replica()
    (0, 1)
    """
    return rank_in(_Settings.group), size_of(_Settings.group)


def sum_over_processes(tensors: Sequence[Any], when: Any = None) -> list[Any]:
    """Return the sums of tensors over all replicas, with few calls: tensors travel in buckets.

    The last tensors travel first, because the gradients of the last layers are ready first.

    With a boolean tensor `when`, nothing travels unless it is true, and the tensors are returned.

    >>> import tapegrad
    >>> [one.tolist() for one in sum_over_processes([tapegrad.constant([1.0, 2.0])])]
    [[1.0, 2.0]]
    """
    found = [*tensors]
    if current_world().is_alone or (own_replica()[1] == 1 < current_world().size):
        return found
    last = len(found) - 1
    for backwards in buckets(found[::-1]):
        places = [last - place for place in backwards]
        if when is None and len(places) == 1:
            found[places[0]] = sum_over_replicas_p(tensors[places[0]], group=_Settings.group)
            continue
        if when is not None:
            totals = sum_when_p(when, *[tensors[p] for p in places], group=_Settings.group)
            for place, total in zip(places, totals):
                found[place] = total
            continue
        flat = [reshape_p(tensors[p], shape=(math.prod(tensors[p].shape),)) for p in places]
        total = sum_over_replicas_p(concat(flat, 0), group=_Settings.group)
        sizes = [math.prod(one.shape) for one in flat]
        for place, part in zip(places, split(total, sizes, 0)):
            found[place] = reshape_p(part, shape=tuple(tensors[place].shape))
    return found


def buckets(tensors: Sequence[Any], most: int = BUCKET) -> list[list[int]]:
    """Return the positions of tensors that travel together: of one dtype, and not too large.

    >>> import tapegrad
    >>> buckets([tapegrad.zeros([3]), tapegrad.zeros([2], "int32"), tapegrad.zeros([4])])
    [[0, 2], [1]]
    """
    found: list[list[int]] = []
    latest: dict[str, tuple[list[int], int]] = {}
    for place, tensor in enumerate(tensors):
        dtype = str(tensor.dtype)
        size = math.prod(tensor.shape) * int(tensor.dtype.size)
        if size >= min(LARGE, most):
            found.append([place])
            continue
        places, filled = latest.get(dtype, ([], 0))
        if not places or filled + size > most:
            places, filled = [], 0
            found.append(places)
        places.append(place)
        latest[dtype] = places, filled + size
    return found


def share_of_rows(tensor: Any, rows: int) -> Any:
    """Return which share of the rows of all replicas this one has, as a number like `tensor`."""
    count = tensor * 0 + rows
    return count / sum_over_replicas_p(count, group=_Settings.group)
