"""Fully sharded training: each process holds a part of all weights, gradients and slots.

A layer gathers its weights when it is called and frees them afterwards. The reverse sweep does the
same, and adds the gradient of each weight over all processes and cuts it at once. Optimizers
see the parts only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.core.world import size_of
from tapegrad.distribute.mirrored import equalize_models
from tapegrad.distribute.process_group import init
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.unit_call import UnitCall
from tapegrad.keras.layers.units import (
    can_be_sharded,
    read_by_calls,
    units_of,
    weights_of_unit,
)
from tapegrad.ops.collective.parts import gather_shards_p
from tapegrad.ops.collective.replicas import replica_group, replicas_in_sync, set_replicas
from tapegrad.ops.collective.sharded_weights import (
    ShardedWeight,
    cut_variable,
    set_sharded,
    sharded_weight,
)

SMALLEST = 1024
"""Weights with fewer elements stay whole in every process, such as biases."""


def fully_shard(model: Any, smallest: int = SMALLEST) -> Any:
    """Divide the weights of a model among all processes, and return the model.

    Call it once, after the model is built and before its optimizer makes a step. Then train as
    with a strategy: by `fit`, or by a loop that divides the loss by the global batch size. Weights
    with fewer than `smallest` elements, with a regularizer or with a constraint stay whole. To
    read or save whole weights, use `whole_weights`.

    >>> from tapegrad import keras
    >>> model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32)])
    >>> fully_shard(model).layers[0].kernel.shape  # of one process
    (2048,)
    """
    init()
    if not model.variables:
        raise ArgumentError(
            "fully_shard needs a model with weights. Call model.build(input_shape) first, or call "
            "the model once."
        )
    if replicas_in_sync() == 1:
        set_replicas(size_of(replica_group()), replica_group())
    equalize_models(model.variables)
    for _, unit in units_of(model):
        _shard_unit(unit, smallest)
    return model


def _shard_unit(unit: Layer, smallest: int) -> None:
    """Divide the weights of a layer, and of the cells inside if it is recurrent."""
    chosen = [
        (layer, variable)
        for _, layer, variable in weights_of_unit(unit)
        if sharded_weight(variable) is not None
        or (can_be_sharded(layer, variable) and math.prod(variable.shape) >= smallest)
    ]
    weights = [_cut(variable) for _, variable in chosen]
    if weights:
        read_by_calls(list(dict.fromkeys(layer for layer, _ in chosen)))
        unit.__dict__["call"] = UnitCall(unit, weights)


def _cut(variable: Variable) -> ShardedWeight:
    """Let a variable hold the shard of this process, and return how to gather it."""
    known = sharded_weight(variable)
    if known is not None:  # several layers share it
        return known
    params = {"shape": tuple(variable.shape), "group": replica_group()}
    weight = ShardedWeight(variable.shape, gather_shards_p, params)
    cut_variable(variable, weight)
    return weight


@contextmanager
def whole_weights(model: Any) -> Iterator[Any]:
    """Let the variables of a sharded model hold whole weights inside the block, e.g. to save them.

    All processes enter the block. What is assigned inside is kept.

    >>> from tapegrad import keras
    >>> model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32)])
    >>> with whole_weights(fully_shard(model)):
    ...     model.layers[0].kernel.shape
    (64, 32)
    """
    found = [(v, sharded_weight(v)) for v in model.variables]
    sharded = [(variable, weight) for variable, weight in found if weight is not None]
    for variable, weight in sharded:
        variable.become(weight.gather(variable.read_value()))
        set_sharded(variable, None)
    try:
        yield model
    finally:
        for variable, weight in sharded:
            cut_variable(variable, weight)
