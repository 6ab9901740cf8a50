"""Create layers from configurations, and copy layers without their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.configured import accepted
from tapegrad.keras.layers.layer import Layer


def revived(value: Any) -> Any:
    """Return the layer that a configuration describes; other values are returned unchanged.

    >>> from tapegrad.keras.layers.core import Dense
    >>> revived({"class_name": "Dense", "config": {"units": 3}}).units
    3
    """
    if not isinstance(value, Mapping):
        return value
    name = value.get("class_name")
    # If a class was defined twice (in a notebook, say), the last definition counts.
    found = {cls.__name__: cls for cls in _kinds(Layer)}.get(str(name))
    if found is None:
        raise ArgumentError(
            f"There is no layer class {name!r}. Import the module that defines it before you read "
            "the configuration."
        )
    return found.from_config(value.get("config", {}))


def _kinds(cls: type[Layer]) -> Iterator[type[Layer]]:
    for kind in cls.__subclasses__():
        yield kind
        yield from _kinds(kind)


def copy_of(layer: Layer, **changes: Any) -> Any:
    """Return a new layer with the same constructor arguments, except for the given changes.

    >>> from tapegrad.keras.layers.core import Dense
    >>> copy_of(Dense(3, activation="relu"), name="other").get_config()["activation"]
    'relu'
    """
    arguments = {name: _copied(value) for name, value in layer._arguments.items()}
    return type(layer)(**accepted(type(layer), {**arguments, **changes}))


def _copied(value: Any) -> Any:
    if isinstance(value, Layer):
        return copy_of(value)
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    return value
