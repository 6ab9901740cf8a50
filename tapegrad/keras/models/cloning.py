"""clone_model: copy a model with new weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.layers.input_layer import Input, InputLayer
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import copy_of
from tapegrad.keras.models.functional import Functional
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.sequential import Sequential
from tapegrad.keras.symbolic import KerasTensor


def clone_model(
    model: Any,
    input_tensors: Any = None,
    clone_function: Callable[[Any], Any] | None = None,
    call_function: Callable[..., Any] | None = None,
    recursive: bool = False,
) -> Any:
    """Create a model with copies of the layers of another model and newly initialized weights.

    `clone_function` returns the copy of a layer; with `recursive`, also of the layers in models
    that are layers. `call_function(layer, *args, **kwargs)` is called instead of each copy of a
    functional model. The clone begins at `input_tensors` if they are given.

    >>> from tapegrad.keras.layers.core import Dense
    >>> model = Sequential([Input((3,)), Dense(2)])
    >>> other = clone_model(model)
    >>> other.set_weights(model.get_weights())
    >>> other.output_shape, other.layers[0] is model.layers[0]
    ((None, 2), False)
    """

    def make(layer: Any) -> Any:
        if recursive and clone_function and isinstance(layer, Sequential | Functional):
            calls = None if isinstance(layer, Sequential) else call_function
            return clone_model(layer, None, clone_function, calls, recursive)
        return (clone_function or _clone_layer)(layer)

    given = nest.flatten(input_tensors)
    if isinstance(model, Sequential):
        if call_function is not None:
            raise ArgumentError(
                "call_function needs a functional model. The layers of a Sequential are not "
                "called when it is created."
            )
        start = [InputLayer(batch_shape=model.input_shape)] if model._is_told else []
        if given and given[0] is not None:
            start = [InputLayer(batch_shape=given[0].shape, dtype=given[0].dtype)]
        return Sequential([*start, *map(make, model.layers)], name=model.name)
    if not isinstance(model, Functional):
        raise ArgumentTypeError(
            "clone_model takes a Sequential or a functional model. "
            f"Got {type(model).__name__}: call its class to create another model."
        )
    starts = _starts(model, input_tensors, given)
    found = dict(zip(map(id, model.inputs), starts, strict=True))
    return _called_again(model, found, make, call_function)


def _starts(model: Any, structure: Any, given: list[Any]) -> list[Any]:
    """Return the symbolic inputs of the clone."""
    if structure is None:
        return [
            Input(batch_shape=x.shape, dtype=x.dtype, name=x.name, sparse=x.sparse)
            for x in model.inputs
        ]
    if len(given) != len(model.inputs) or not all(isinstance(x, KerasTensor) for x in given):
        raise ArgumentError(
            f"input_tensors must be {len(model.inputs)} symbolic tensors, one for each input of "
            f"the model. Got {structure!r}."
        )
    return given


def _called_again(
    model: Any, found: dict[int, Any], make: Callable[[Any], Any], call: Callable[..., Any] | None
) -> Any:
    """Call copies of the layers of a functional model on other inputs."""
    made: dict[int, Any] = {}

    def now(x: Any) -> Any:
        return found[id(x)] if isinstance(x, KerasTensor) else x

    for node in model._nodes:
        if id(node.layer) not in made:
            made[id(node.layer)] = make(node.layer)
        args, kwargs = nest.map_structure(now, (node.args, node.kwargs))
        layer = made[id(node.layer)]
        outputs = call(layer, *args, **kwargs) if call else layer(*args, **kwargs)
        found.update(zip(map(id, nest.flatten(node.outputs)), nest.flatten(outputs)))
    inputs, outputs = nest.map_structure(now, (model.input, model.output))
    return Functional(inputs, outputs, model.name)


def _clone_layer(layer: Layer) -> Any:
    if isinstance(layer, Model):
        return clone_model(layer)
    made = copy_of(layer, name=layer.name)
    made._name = layer.name  # also if the constructor does not take it
    return made
