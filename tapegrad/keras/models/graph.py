"""Convert the graph of a functional model to a configuration and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.core.values import nest
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.saving.objects import (
    Place,
    deserialize_keras_object,
    serialize_keras_object,
)
from tapegrad.keras.symbolic import KerasTensor


def graph_config(network: Any) -> dict[str, Any]:
    """Return the configuration from which `graph_ends` rebuilds a graph.

    It lists the layers, their calls in order, and the inputs and outputs.
    """
    places = {id(x): Place(number) for number, x in enumerate(network.inputs)}
    layers = list({id(node.layer): node.layer for node in network._nodes}.values())
    numbers = {id(layer): number for number, layer in enumerate(layers)}
    calls: list[Any] = []
    count = len(places)

    def placed(x: Any) -> Any:
        return places[id(x)] if isinstance(x, KerasTensor) else x

    for node in network._nodes:
        given = nest.map_structure(placed, (node.args, node.kwargs))
        calls.append([numbers[id(node.layer)], *given])
        for number, x in enumerate(nest.flatten(node.outputs), count):
            places.setdefault(id(x), Place(number))
        count += len(nest.flatten(node.outputs))
    ends = nest.map_structure(placed, [network.input, network.output])
    graph = {"inputs": network.inputs, "layers": layers, "calls": calls, "ends": ends}
    config: dict[str, Any] = serialize_keras_object(graph)
    return config


def graph_ends(config: Mapping[str, Any]) -> Any:
    """Rebuild a graph from its configuration, and return its inputs and outputs."""
    graph = deserialize_keras_object({key: config[key] for key in ("inputs", "layers", "calls")})
    tensors = [
        Input(batch_shape=x.shape, dtype=x.dtype, name=x.name, sparse=x.sparse)
        for x in graph["inputs"]
    ]

    def tensor_at(place: Any) -> Any:
        return tensors[place.number] if isinstance(place, Place) else place

    for number, *given in graph["calls"]:
        args, kwargs = nest.map_structure(tensor_at, given)
        tensors += nest.flatten(graph["layers"][number](*args, **kwargs))
    return nest.map_structure(tensor_at, deserialize_keras_object(config["ends"]))
