"""The graph of a functional model in the form of Keras' own files."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import FileFormatError
from tapegrad.keras.layers.core import Operation
from tapegrad.keras.layers.input_layer import InputLayer
from tapegrad.keras.saving.keras_records import (
    OPERATIONS,
    divided_arguments,
    operation_class,
)
from tapegrad.keras.saving.objects import deserialize_keras_object
from tapegrad.keras.symbolic import KerasTensor

_Key = tuple[str, int, int]


class _Reference:
    """A tensor of the graph: the name of a layer, the number of its call, and of the output."""

    def __init__(self, history: Any) -> None:
        name, call, output = history
        self.key: _Key = str(name), int(call), int(output)


def keras_graph_ends(config: Mapping[str, Any]) -> tuple[Any, Any]:
    """Build the graph that a functional model of Keras has, and return its inputs and outputs."""
    tensors: dict[_Key, Any] = {}
    waiting: list[tuple[Any, str, int, Any]] = []
    for record in config["layers"]:
        layer, name = deserialize_keras_object(record), record["name"]
        calls = record["inbound_nodes"]
        if isinstance(layer, InputLayer):
            tensors[name, 0, 0] = layer.output
            continue
        layer._name = name
        waiting += [(layer, name, number, _arguments(call)) for number, call in enumerate(calls)]
    while waiting:
        later = [one for one in waiting if not _called(*one, tensors)]
        if len(later) == len(waiting):
            raise FileFormatError(f"Layer {later[0][1]!r} is called on a tensor that is not there.")
        waiting = later
    return _ends(config["input_layers"], tensors), _ends(config["output_layers"], tensors)


def _arguments(call: Any) -> Any:
    if isinstance(call, list):  # as Keras 2 writes them
        tensors = [_Reference(one[:3]) for one in call]
        return [[tensors[0] if len(tensors) == 1 else tensors], dict(call[0][3])]
    return [_with_references(call["args"]), _with_references(call["kwargs"])]


def _with_references(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_references(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("class_name") == "__keras_tensor__":
        return _Reference(value["config"]["keras_history"])
    if "class_name" in value:
        return deserialize_keras_object(value)
    return {key: _with_references(one) for key, one in value.items()}


def _called(layer: Any, name: str, number: int, given: Any, tensors: dict[_Key, Any]) -> bool:
    """Call a layer if the tensors that it needs are there; return whether it was called."""
    needed = [one.key for one in nest.flatten(given) if isinstance(one, _Reference)]
    if any(key not in tensors for key in needed) or (
        number and (name, number - 1, 0) not in tensors
    ):
        return False
    args, kwargs = nest.map_structure(
        lambda one: tensors[one.key] if isinstance(one, _Reference) else one, given
    )
    if isinstance(layer, Operation):
        args = [*layer.options.pop("subscripts", "").split(), *args]
        if layer.function is operator.getitem and isinstance(args[1], list):
            args[1] = tuple(args[1])  # Keras keeps the parts of an index as a list
        layer.options.update({key: v for key, v in kwargs.items() if v is not None})
        kwargs = {}
    outputs = layer(*args, **{key: v for key, v in kwargs.items() if v is not None})
    for index, one in enumerate(nest.flatten(outputs)):
        tensors[name, number, index] = one
    return True


def _ends(value: Any, tensors: Mapping[_Key, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _ends(one, tensors) for key, one in value.items()}
    if not isinstance(value, list) or not value:
        raise FileFormatError("Its inputs or outputs are damaged.")
    if isinstance(value[0], str):
        key = _Reference(value).key
        if key not in tensors:
            raise FileFormatError(f"Its output {key} is not there.")
        return tensors[key]
    ends = [_ends(one, tensors) for one in value]
    return ends[0] if len(ends) == 1 else ends


def keras_graph_config(network: Any, written: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the configuration of a functional model as Keras writes it.

    `written` turns a layer, or an argument of a call, into JSON values.
    """
    names: dict[int, str] = {}
    calls: dict[int, list[Any]] = {}
    layers: dict[int, Any] = {}
    places: dict[int, list[Any]] = {}
    for x in network.inputs:
        places[id(x)] = [x.name, 0, 0]
    for node in network._nodes:
        layer, place = node.layer, id(node.layer)
        layers[place] = layer
        names.setdefault(place, layer.name)
        known = calls.setdefault(place, [])
        for index, x in enumerate(nest.flatten(node.outputs)):
            places.setdefault(id(x), [names[place], len(known), index])
        known.append(node)

    def reference(x: Any) -> Any:
        if not isinstance(x, KerasTensor):
            return written(x)
        config = {"shape": list(x.shape), "dtype": x.dtype, "keras_history": places[id(x)]}
        return {"class_name": "__keras_tensor__", "config": config}

    records = [_input_record(x) for x in network.inputs]
    for place, layer in layers.items():
        record, nodes = _record(layer, calls[place], written)
        nodes = [{"args": nest.map_structure(reference, list(args)),
                  "kwargs": nest.map_structure(reference, dict(kwargs))}
                 for args, kwargs in nodes]  # fmt: skip
        records.append({**record, "name": names[place], "inbound_nodes": nodes})
    return {
        "name": network.name,
        "trainable": network.trainable,
        "layers": records,
        "input_layers": nest.map_structure(lambda x: _Leaf(places[id(x)]), network.input),
        "output_layers": nest.map_structure(lambda x: _Leaf(places[id(x)]), network.output),
    }


class _Leaf(list[Any]):
    """A reference in the structure of inputs or outputs."""


def _input_record(x: Any) -> dict[str, Any]:
    config = {"batch_shape": list(x.shape), "dtype": x.dtype, "name": x.name}
    if x.sparse:
        config["sparse"] = True
    record = {"module": "keras.layers", "class_name": "InputLayer", "config": config}
    return {**record, "registered_name": None, "name": x.name, "inbound_nodes": []}


def _record(
    layer: Any, nodes: list[Any], written: Callable[[Any], Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Return the record of a layer, and the arguments of its calls."""
    if not isinstance(layer, Operation):
        return written(layer), [(node.args, node.kwargs) for node in nodes]
    found = [_divided(layer, node) for node in nodes]
    config = {"name": layer.name, **{k: written(v) for k, v in found[0][1].items()}}
    name = operation_class(layer.function)
    is_image = layer.function.__module__.endswith("image_functions")
    module = f"{OPERATIONS}.image" if is_image else OPERATIONS
    record = {"module": module, "class_name": name, "config": config}
    return {**record, "registered_name": name}, [(operands, {}) for operands, _ in found]


def _divided(layer: Any, node: Any) -> tuple[list[Any], dict[str, Any]]:
    def is_tensor(value: Any) -> bool:
        return any(isinstance(one, KerasTensor) for one in nest.flatten(value))

    return divided_arguments(layer.function, node.args, layer.options, is_tensor)
