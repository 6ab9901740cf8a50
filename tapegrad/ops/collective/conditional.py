"""Collective calls that are made only if a condition holds, the same one in all processes.

Steps of optimizers that accumulate gradients use them: the condition is known on the device, and
only the call that makes the step communicates. All operands of a call travel together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.world import Group, size_of
from tapegrad.ops.casting.cast import cast_p
from tapegrad.ops.collective.parts import own_shard, shard_length
from tapegrad.ops.collective.rehearsal import Collective, Rehearsal, communicator_for

Arrays = Sequence[Any]


def _declare(
    name: str, exchange: Callable[..., Arrays], otherwise: Callable[..., Arrays]
) -> Collective:
    """Declare a call that returns `exchange` or, if nothing is due, `otherwise` of the arrays."""

    def forward(xp: Any, condition: Any, *arrays: Any, group: Group, **params: Any) -> Any:
        communicator = communicator_for(xp, arrays[0], group)
        is_due = type(communicator) is not Rehearsal and backend_of(condition).to_host(condition)
        if is_due:
            return tuple(exchange(xp, communicator, arrays, size_of(group), **params))
        return tuple(otherwise(xp, arrays, group, **params))

    made = Collective(name, forward, many=True, differentiable=False)
    made.joins_results = True
    made.needs_host = True  # it reads the condition
    return made


def _flat(xp: Any, arrays: Arrays) -> Any:
    return xp.concat([xp.reshape(x, (-1,)) for x in arrays])


def _like(xp: Any, flat: Any, arrays: Arrays) -> list[Any]:
    """Return the parts of a vector in the shapes of arrays."""
    found, first = [], 0
    for x in arrays:
        count = math.prod(x.shape)
        found.append(xp.reshape(flat[first : first + count], x.shape))
        first += count
    return found


def _same(xp: Any, arrays: Arrays, group: Group, **params: Any) -> Arrays:
    return arrays


# Sums


def _sum(xp: Any, communicator: Any, arrays: Arrays, size: int) -> Arrays:
    return _like(xp, communicator.all_reduce(_flat(xp, arrays), "sum"), arrays)


sum_when_p = _declare("sum_when", _sum, _same)
"""Sums over all replicas, or the operands."""


# Shards


def _scatter(xp: Any, communicator: Any, arrays: Arrays, size: int) -> Arrays:
    rows = []
    for x in arrays:
        count = math.prod(x.shape)
        length = shard_length(count, size)
        flat = xp.reshape(x, (count,))
        if length * size != count:
            zeros = xp.zeros((length * size - count,), dtype=x.dtype, device=x.device)
            flat = xp.concat([flat, zeros])
        rows.append(xp.reshape(flat, (size, length)))
    total = communicator.reduce_scatter(xp.concat(rows, axis=1))
    return _like(xp, total, [row[0, ...] for row in rows])


def _own_shards(xp: Any, arrays: Arrays, group: Group) -> Arrays:
    return [own_shard(xp, x, group=group) for x in arrays]


scatter_when_p = _declare("scatter_when", _scatter, _own_shards)
"""The shards of this process of sums over all processes, or those of the operands."""


def _gather(xp: Any, communicator: Any, arrays: Arrays, size: int) -> Arrays:
    parts, wholes = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
    rows = communicator.all_gather(_flat(xp, parts))
    found, first = [], 0
    for part, whole in zip(parts, wholes):
        (length,) = part.shape
        flat = xp.reshape(rows[:, first : first + length], (-1,))
        found.append(xp.reshape(flat[: math.prod(whole.shape)], whole.shape))
        first += length
    return found


def _wholes(xp: Any, arrays: Arrays, group: Group) -> Arrays:
    return arrays[len(arrays) // 2 :]


gather_when_p = _declare("gather_when", _gather, _wholes)
"""The arrays whose shards are the first half of the operands, or the second half of these."""


# Sums in half precision


def _sum_rounded(xp: Any, communicator: Any, arrays: Arrays, size: int, *, dtype: Any) -> Arrays:
    x, own_rest, sum_rest = arrays
    (count,), wide = x.shape, x.dtype

    def cast(array: Any, to: Any) -> Any:
        return cast_p.kernel(type(array))(array, dtype=to)

    wanted = x + own_rest
    sent = cast(wanted, dtype)
    own_rest = wanted - cast(sent, wide)
    (length,) = sum_rest.shape
    if length * size != count:
        zeros = xp.zeros((length * size - count,), dtype=sent.dtype, device=x.device)
        sent = xp.concat([sent, zeros])
    rows = communicator.all_to_all(xp.reshape(sent, (size, length)))
    wanted = xp.sum(cast(rows, wide), axis=0) + sum_rest
    sent = cast(wanted, dtype)
    sum_rest = wanted - cast(sent, wide)
    total = xp.reshape(communicator.all_gather(sent), (size * length,))
    return cast(total[:count], wide), own_rest, sum_rest


rounded_sum_when_p = _declare("rounded_sum_when", _sum_rounded, _same)
"""The sum of vectors in half precision and what rounding took in both stages, or the operands.

The operands are the vector and what rounding took before, from it and from the part of the sum.
"""
