"""layers.serialize and layers.deserialize: configurations of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.saving.objects import deserialize_keras_object, serialize_keras_object


def serialize(layer: Any) -> Any:
    """Return the class and configuration of a layer as JSON values; weights are not included.

    That of None is None.

    >>> from tapegrad.keras.layers.core import Dense
    >>> serialize(Dense(3))["config"]["units"]
    3
    """
    if layer is None:
        return None
    if not isinstance(layer, Layer):
        raise ArgumentTypeError(
            f"serialize() takes a layer. Got {type(layer).__name__}: {layer!r}."
        )
    return serialize_keras_object(layer)


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create a layer from the result of `serialize`; `custom_objects` are searched first.

    A layer is returned as it is: the `from_config` of a class gets its inner layers ready.

    >>> from tapegrad.keras.layers.core import Dense
    >>> deserialize(serialize(Dense(3))).units
    3
    """
    if isinstance(config, Layer):
        return config
    if not isinstance(config, Mapping) or not {"class_name", "config"} <= config.keys():
        raise ArgumentError(
            "deserialize() takes the result of serialize(), a mapping with 'class_name' and "
            f"'config'. Got {config!r}."
        )
    found = deserialize_keras_object({"module": "keras.layers", **config}, custom_objects)
    if not isinstance(found, Layer):
        raise ArgumentError(
            f"{config['class_name']!r} is not a layer, but {type(found).__name__}. Use "
            "keras.saving.deserialize_keras_object for other objects."
        )
    return found
