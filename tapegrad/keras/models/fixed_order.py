"""Gradients of a batch that have the same bits on any number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.variable import Variable
from tapegrad.distribute.datasets import part_of
from tapegrad.distribute.fixed_order import own_shards, sum_in_order as sum_in_order
from tapegrad.errors import ArgumentError
from tapegrad.ops.collective.sharded_weights import is_sharded
from tapegrad.ops.creation import constant
from tapegrad.ops.random.generator import get_global_generator

DRAWS = 1 << 32
"""How many random draws are kept for each shard, so that no two shards have the same numbers."""


def shards_of(model: Any, data: Any, shards: int) -> Iterator[tuple[Any, Any, bool]]:
    """Yield the shards of a batch that this process computes, of a batch that all processes have.

    With each come its share of the rows, and whether another process computes it, too. A batch
    with fewer rows than shards has one shard per row, and then empty ones.
    """
    if any(is_sharded(variable) for variable in model.trainable_variables):
        raise ArgumentError(
            "same_bits needs whole weights in every process: do not use fully_shard or "
            "ModelParallel with it. shard_states is possible."
        )
    rows = int(nest.flatten(data)[0].shape[0])
    count = min(shards, rows)
    states = _random_states(model)
    before = [state.read_value() for state in states]
    for number in own_shards(shards):
        place = min(number, count - 1)
        first, end = part_of(rows, place, count)
        _set_draws(states, before, place)
        part = nest.map_structure(lambda x, a=first, b=end: x[a:b], data)
        share = (end - first) / rows if number < count else 0.0
        yield part, constant(share, "float32"), number >= count
    _set_draws(states, before, count)


def _random_states(model: Any) -> list[Variable]:
    """Return the states of the random generators that the model may use."""
    own = [v for v in model.variables if v.dtype.name == "uint64" and tuple(v.shape) == (2,)]
    return [get_global_generator().state, *own]


def _set_draws(states: list[Variable], before: list[Any], place: int) -> None:
    """Let the generators continue at the numbers of a shard."""
    for state, value in zip(states, before):
        state.assign(value + np.array([0, place * DRAWS], np.uint64), read_value=False)
