"""Fully sharded training: each process holds a part of all weights, gradients and slots.

A layer gathers its weights when it is called and frees them afterwards; so does the sweep on its
way back, where the gradient of each weight is added over all processes and cut at once. Optimizers
see the parts only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.core.world import size_of
from tapegrad.distribute.mirrored import equalize_models
from tapegrad.distribute.process_group import init
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.rnn import RNN
from tapegrad.keras.layers.unit_call import UnitCall
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
    for unit in _units(model):
        shard_unit(unit, smallest)
    return model


def shard_unit(unit: Layer, smallest: int = SMALLEST) -> None:
    """Divide the weights of a layer, and of the layers inside if it is recurrent."""
    weights: list[ShardedWeight] = []
    for layer in _with_inner(unit) if isinstance(unit, RNN) else [unit]:
        chosen = [v for v in _own_weights(layer) if _can_be_cut(layer, v, smallest)]
        for variable in chosen:
            weights.append(cut(variable))
        read_by_calls(layer, chosen)
    if weights:
        unit.__dict__["call"] = UnitCall(unit, weights)


def cut(variable: Variable) -> ShardedWeight:
    """Let a variable hold the shard of this process, and return how to gather it."""
    known = sharded_weight(variable)
    if known is not None:  # several layers share it
        return known
    group, shape = replica_group(), tuple(variable.shape)
    weight = ShardedWeight(shape, gather_shards_p, {"shape": shape, "group": group})
    cut_variable(variable, weight)
    return weight


def read_by_calls(layer: Layer, sharded: Sequence[Variable]) -> None:
    """Let the calls of a layer read its weights through `read_weight`, in the present order."""
    if not sharded:
        return
    state = layer.__dict__
    names = [n for n, value in state.items() if type(value) is Variable and value.trainable]
    for name in names:
        layer._in_float32[name] = state.pop(name)
    layer._forget_held()


def _units(layer: Layer) -> Iterator[Layer]:
    """Yield the layers whose calls gather weights."""
    yield layer
    if not isinstance(layer, RNN):
        for inner in layer._inner_layers():
            yield from _units(inner)


def _with_inner(layer: Layer) -> Iterator[Layer]:
    yield layer
    for inner in layer._inner_layers():
        yield from _with_inner(inner)


def _own_weights(layer: Layer) -> list[Variable]:
    """Return the trainable weights that attributes of the layer refer to."""
    found = [*layer._in_float32.values(), *layer.__dict__.values()]
    return [one for one in found if type(one) is Variable and one.trainable]


def _can_be_cut(layer: Layer, variable: Variable, smallest: int) -> bool:
    if sharded_weight(variable) is not None:
        return True
    regularized = {one.number for one, _ in layer._regularized}
    return (
        math.prod(variable.shape) >= smallest
        and variable.dtype.is_floating
        and variable.constraint is None
        and variable.number not in regularized
    )


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
