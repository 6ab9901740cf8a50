"""Calls of layers whose weights are divided along an axis: tensor parallelism.

A `Dense` layer multiplies with its own columns or rows only, and an `Embedding` looks up its own
columns. Other layers gather their weights and compute the same in all processes of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.keras.layers.core import Dense, Embedding
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.unit_call import UnitCall
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.parts import (
    copy_to_group_p,
    join_in_group_p,
    own_part_p,
    sum_in_group_p,
)
from tapegrad.ops.collective.sharded_weights import ShardedWeight, sharded_weight
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.products.functions import matmul


def parallel_call(layer: Layer, weights: Sequence[ShardedWeight]) -> UnitCall:
    """Return the call of a layer with sharded weights."""
    kinds: dict[type, tuple[str, type[UnitCall]]] = {
        Dense: ("kernel", ParallelDense),
        Embedding: ("embeddings", ParallelEmbedding),
    }
    name, kind = kinds.get(type(layer), ("", UnitCall))
    weight = sharded_weight(layer._in_float32[name]) if name in layer._in_float32 else None
    axis = None if weight is None else weight.params.get("axis")
    is_known = axis == -1 or (axis is not None and kind is ParallelDense)
    return kind(layer, weights) if is_known else UnitCall(layer, weights)


def _own(layer: Layer, name: str) -> tuple[Any, ShardedWeight | None]:
    """Return the part of a weight that this process holds, in the compute dtype."""
    variable: Variable = layer._in_float32[name]
    return cast(variable, layer.compute_dtype), sharded_weight(variable)


class ParallelDense(UnitCall):
    """Multiplies with the columns or rows of the kernel that this process holds."""

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        layer = self.layer
        kernel, weight = _own(layer, "kernel")
        assert weight is not None
        group = weight.group
        if weight.params["axis"] == -1:
            y = matmul(copy_to_group_p(inputs, group=group), kernel)
            y = join_in_group_p(y, axis=-1, group=group)
        else:
            own = own_part_p(inputs, axis=-1, group=group)
            y = sum_in_group_p(matmul(own, kernel), group=group)
        if layer.use_bias:
            y = y + layer.bias  # gathered if it is divided
        return y if layer.activation is None else layer.activation(y)


class ParallelEmbedding(UnitCall):
    """Looks up the columns that this process holds, and joins them."""

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        table, weight = _own(self.layer, "embeddings")
        assert weight is not None
        indices = cast(inputs, "int32") if inputs.dtype.is_floating else inputs
        return join_in_group_p(gather(table, indices), axis=-1, group=weight.group)
