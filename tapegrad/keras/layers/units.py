"""Units of a model: the layers whose calls gather sharded weights and free them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.rnn import RNN


def units_of(layer: Layer, prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """Yield the layers that are units, with their paths, such as "block/dense/"."""
    yield prefix, layer
    if not isinstance(layer, RNN):
        for inner in layer._inner_layers():
            yield from units_of(inner, f"{prefix}{inner.name}/")


def weights_of_unit(unit: Layer, prefix: str = "") -> Iterator[tuple[str, Layer, Variable]]:
    """Yield the trainable weights of a unit with their paths and the layers that hold them.

    A recurrent layer gathers the weights of its cells, which are called at every step.
    """
    for variable in own_weights(unit):
        yield f"{prefix}{variable.name.removesuffix(':0')}", unit, variable
    if isinstance(unit, RNN):
        for inner in unit._inner_layers():
            for path, layer, variable in _of_inner(inner, f"{prefix}{inner.name}/"):
                yield path, layer, variable


def _of_inner(layer: Layer, prefix: str) -> Iterator[tuple[str, Layer, Variable]]:
    for variable in own_weights(layer):
        yield f"{prefix}{variable.name.removesuffix(':0')}", layer, variable
    for inner in layer._inner_layers():
        yield from _of_inner(inner, f"{prefix}{inner.name}/")


def own_weights(layer: Layer) -> list[Variable]:
    """Return the trainable weights that attributes of the layer refer to."""
    found = [*layer._in_float32.values(), *layer.__dict__.values()]
    return [one for one in found if type(one) is Variable and one.trainable]


def can_be_sharded(layer: Layer, variable: Variable) -> bool:
    """Return whether nothing but calls of the layer computes with a weight."""
    regularized = {one.number for one, _ in layer._regularized}
    is_plain = variable.constraint is None and variable.number not in regularized
    return is_plain and bool(variable.dtype.is_floating)


def read_by_calls(layers: Sequence[Any]) -> None:
    """Let the calls of layers read their weights through `read_weight`, in the present order."""
    for layer in layers:
        state = layer.__dict__
        for name in [n for n, one in state.items() if type(one) is Variable and one.trainable]:
            layer._in_float32[name] = state.pop(name)
        layer._forget_held()
