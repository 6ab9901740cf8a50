"""Replicas: processes that train copies of one model on different data.

Strategies set how many replicas there are; optimizers and models ask, and combine their gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapegrad.core.world import current_world
from tapegrad.ops.collective.primitives import all_reduce_p
from tapegrad.ops.shape.joining import concat, split
from tapegrad.ops.shape.primitives import reshape_p

_replicas: ContextVar[int] = ContextVar("tapegrad_replicas", default=1)


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


def sum_over_processes(tensors: Sequence[Any]) -> list[Any]:
    """Return the sums of tensors over all processes, with one call per dtype.

    >>> import tapegrad
    >>> [one.tolist() for one in sum_over_processes([tapegrad.constant([1.0, 2.0])])]
    [[1.0, 2.0]]
    """
    found = [*tensors]
    if current_world().size == 1:
        return found
    by_dtype: dict[str, list[int]] = {}
    for place, tensor in enumerate(tensors):
        by_dtype.setdefault(str(tensor.dtype), []).append(place)
    for places in by_dtype.values():
        shapes = [tuple(tensors[place].shape) for place in places]
        sizes = [math.prod(shape) for shape in shapes]
        flat = [reshape_p(tensors[p], shape=(size,)) for p, size in zip(places, sizes)]
        total = all_reduce_p(concat(flat, 0))
        for place, shape, part in zip(places, shapes, split(total, sizes, 0)):
            found[place] = reshape_p(part, shape=shape)
    return found


def share_of_rows(tensor: Any, rows: int) -> Any:
    """Return which share of the rows of all replicas this one has, as a number like `tensor`."""
    count = tensor * 0 + rows
    return count / all_reduce_p(count)
