"""Training of a model in several processes, each of which has a part of every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.core.values import nest
from tapegrad.keras.batch_data import Batch
from tapegrad.ops.collective.functions import broadcast
from tapegrad.ops.collective.replicas import (
    own_replica,
    replicas_in_sync,
    share_of_rows,
    sum_over_processes,
)
from tapegrad.ops.collective.sharded_weights import is_sharded


def replicas_of(optimizer: Any) -> int:
    """Return how many replicas the strategy has in whose scope an optimizer was made."""
    found: int = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_replicas", 1)
    return max(found, replicas_in_sync())


_preparations: list[Callable[[Any], None]] = []


def prepare_by(preparation: Callable[[Any], None]) -> None:
    """Call a function with each model before it is trained by `fit`, e.g. to shard its weights."""
    _preparations[:] = [preparation]


def prepare(model: Any) -> None:
    """Make a built model ready for training in several processes."""
    for preparation in _preparations:
        preparation(model)


def equalize(variables: Iterable[Any]) -> None:
    """Give the variables of all replicas the values of the first one, before training begins."""
    for variable in variables:
        if variable.dtype.is_floating and not is_sharded(variable):
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
    place, size = own_replica()

    def rows(x: Any) -> Any:
        count = x.shape[0]
        if count < size:
            return x
        return x[place * count // size : (place + 1) * count // size]

    return tuple(None if one is None else nest.map_structure(rows, one) for one in batch)  # type: ignore[return-value]


def add_metrics(metrics: Iterable[Any]) -> None:
    """Add the states of metrics over all replicas, at the end of an epoch."""
    variables = [variable for metric in metrics for variable in metric.variables]
    for variable, total in zip(variables, sum_over_processes([v.read_value() for v in variables])):
        variable.assign(total)


def average_states(variables: Iterable[Any]) -> None:
    """Average what layers have observed in each replica, such as the means of batches."""
    found = [variable for variable in variables if variable.dtype.is_floating]
    _, size = own_replica()
    for variable, total in zip(found, sum_over_processes([v.read_value() for v in found])):
        variable.assign(total / size)
