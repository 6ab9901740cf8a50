"""clone_model: copy a model with new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.layers.input_layer import Input, InputLayer
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import copy_of
from tapegrad.keras.models.functional import Functional
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential
from tapegrad.keras.symbolic import KerasTensor


def clone_model(model: Any, *, clone_function: Callable[[Any], Any] | None = None) -> Any:
    """Create a model with copies of the layers of another model and newly initialized weights.

    `clone_function` returns the copy of a layer.

    >>> from tapegrad.keras.layers.core import Dense
    >>> model = Sequential([Input((3,)), Dense(2)])
    >>> other = clone_model(model)
    >>> other.set_weights(model.get_weights())
    >>> other.output_shape, other.layers[0] is model.layers[0]
    ((None, 2), False)
    """
    make = clone_function or _clone_layer
    if isinstance(model, Sequential):
        start = [InputLayer(batch_shape=model.input_shape)] if model._is_told else []
        return Sequential([*start, *map(make, model.layers)], name=model.name)
    if not isinstance(model, Functional):
        raise ArgumentTypeError(
            "clone_model takes a Sequential or a functional model. "
            f"Got {type(model).__name__}: call its class to create another model."
        )
    made: dict[int, Any] = {}
    found = {
        id(x): Input(batch_shape=x.shape, dtype=x.dtype, name=x.name, sparse=x.sparse)
        for x in model.inputs
    }

    def now(x: Any) -> Any:
        return found[id(x)] if isinstance(x, KerasTensor) else x

    for node in model._nodes:
        if id(node.layer) not in made:
            made[id(node.layer)] = make(node.layer)
        args, kwargs = nest.map_structure(now, (node.args, node.kwargs))
        outputs = made[id(node.layer)](*args, **kwargs)
        found.update(zip(map(id, nest.flatten(node.outputs)), nest.flatten(outputs)))
    inputs, outputs = nest.map_structure(now, (model.input, model.output))
    return Functional(inputs, outputs, model.name)


def _clone_layer(layer: Layer) -> Any:
    if isinstance(layer, Model):
        return clone_model(layer)
    made = copy_of(layer, name=layer.name)
    made._name = layer.name  # also if the constructor does not take it
    return made
