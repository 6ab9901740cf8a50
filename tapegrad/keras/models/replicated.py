"""Training of a model in several processes, each of which has a part of every batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.world import current_world
from tapegrad.keras.batch_data import Batch
from tapegrad.ops.collective.functions import broadcast
from tapegrad.ops.collective.replicas import share_of_rows, sum_over_processes


def replicas_of(optimizer: Any) -> int:
    """Return how many replicas the strategy has in whose scope an optimizer was made."""
    found: int = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_replicas", 1)
    return found


def equalize(variables: Iterable[Any]) -> None:
    """Give the variables of all replicas the values of the first one, before training begins."""
    for variable in variables:
        if variable.dtype.is_floating:
            variable.assign(broadcast(variable))


def share_of(loss: Any, outputs: Any) -> Any:
    """Return the weight of the loss of this replica in the mean over the rows of all replicas.

    The gradients of the replicas are added, so that the sum is the gradient of that mean.
    """
    return share_of_rows(loss, int(nest.flatten(outputs)[0].shape[0]))


def own_rows(batch: Batch) -> Batch:
    """Return the rows of a batch of all replicas that belong to this one.

    If there are more replicas than rows, all of them get the whole batch: the mean is the same.
    """
    world = current_world()

    def rows(x: Any) -> Any:
        count = x.shape[0]
        if count < world.size:
            return x
        return x[world.rank * count // world.size : (world.rank + 1) * count // world.size]

    return tuple(None if one is None else nest.map_structure(rows, one) for one in batch)  # type: ignore[return-value]


def add_metrics(metrics: Iterable[Any]) -> None:
    """Add the states of metrics over all replicas, at the end of an epoch."""
    variables = [variable for metric in metrics for variable in metric.variables]
    for variable, total in zip(variables, sum_over_processes([v.read_value() for v in variables])):
        variable.assign(total)


def average_states(variables: Iterable[Any]) -> None:
    """Average what layers have observed in each replica, such as the means of batches."""
    found = [variable for variable in variables if variable.dtype.is_floating]
    size = current_world().size
    for variable, total in zip(found, sum_over_processes([v.read_value() for v in found])):
        variable.assign(total / size)
