"""Sums with the same bits on any number of processes.

Floating-point sums depend on their order, so training on two processes rounds otherwise than on
one. Here the batch is cut into a fixed number of virtual shards. Each is computed alone, wherever
it is, and the results are added in a fixed tree over the numbers of the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.world import current_world
from tapegrad.distribute.datasets import part_of
from tapegrad.errors import ArgumentError
from tapegrad.ops.collective.functions import all_gather
from tapegrad.ops.collective.replicas import using_fixed_shards
from tapegrad.ops.shape.joining import stack, unstack


def sum_over_shards(fn: Callable[..., Any], batch: Sequence[Any], shards: int) -> Any:
    """Return the sum over virtual shards of `fn(*shard)`, the same bits in any world.

    `batch` are tensors of equal length, the same in all processes. Shard `i` has the `i`-th part of
    their rows. `fn` returns tensors whose shapes do not depend on the shard, such as a loss and
    gradients; a recorded function is best. Every process calls it for its part of the shards, and
    all processes get the sum.

    >>> import tapegrad
    >>> x = tapegrad.constant([1.0, 2.0, 3.0, 4.0])
    >>> float(sum_over_shards(lambda part: tapegrad.reduce_sum(part * part), [x], shards=4))
    30.0
    """
    tensors = [as_operand(tensor) for tensor in batch]
    rows = {int(tensor.shape[0]) for tensor in tensors}
    if len(rows) != 1 or min(rows) < shards:
        raise ArgumentError(
            "sum_over_shards needs tensors of one length and at least one row per shard. "
            f"Got lengths {sorted(rows)} and {shards} shards."
        )
    found = []
    for number in own_shards(shards):
        first, end = part_of(min(rows), min(number, shards - 1), shards)
        found.append(fn(*[tensor[first:end] for tensor in tensors]))
    return sum_in_order(found, shards)


@contextmanager
def same_bits(shards: int) -> Iterator[None]:
    """Let `fit` reach the same bits of all weights on any number of processes, inside the block.

    Every batch is cut into `shards` parts whose gradients are added in a fixed order. Losses,
    metrics and moving averages may still differ in their last bits.

    >>> with same_bits(shards=8):
    ...     pass  # model.fit(x, y)
    """
    if type(shards) is not int or shards < 1:
        raise ArgumentError(f"shards must be a number of parts from 1. Got {shards!r}.")
    with using_fixed_shards(shards):
        yield


def own_shards(shards: int) -> range:
    """Return the numbers of the shards that this process computes.

    All processes compute equally many. Numbers from `shards` on stand for the last shard once more.

    >>> list(own_shards(3))
    [0, 1, 2]
    """
    world = current_world()
    most = -(-shards // world.size)
    return range(world.rank * most, (world.rank + 1) * most)


def sum_in_order(found: Sequence[Any], shards: int) -> Any:
    """Return the sum of the structures of all shards, of which `found` are those of this process.

    >>> float(sum_in_order([1.0, 2.0, 3.0], 3))
    6.0
    """
    flat = [[as_operand(one) for one in nest.flatten(result)] for result in found]
    totals = [_tree_sum(_of_all(parts, shards)) for parts in zip(*flat)]
    return nest.pack_sequence_as(found[0], totals)


def _of_all(parts: Sequence[Any], shards: int) -> list[Any]:
    """Return the results of all shards, in order."""
    return list(unstack(all_gather(stack(parts))))[:shards]


def _tree_sum(values: list[Any]) -> Any:
    """Add values in pairs of neighbours, then the sums likewise."""
    while len(values) > 1:
        last = values[-1:] if len(values) % 2 else []
        values = [a + b for a, b in zip(values[::2], values[1::2])] + last
    return values[0]
