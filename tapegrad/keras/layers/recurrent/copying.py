"""Layers made from configurations of layers, and copies of layers without their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.layer import Layer


def revived(value: Any) -> Any:
    """Return the layer that a configuration describes; anything else is returned as it is.

    >>> from tapegrad.keras.layers.core import Dense
    >>> revived({"class_name": "Dense", "config": {"units": 3}}).units
    3
    """
    if not isinstance(value, Mapping):
        return value
    name = value.get("class_name")
    # The last one of a name is what its user means who defined it twice.
    found = {cls.__name__: cls for cls in _kinds(Layer)}.get(str(name))
    if found is None:
        raise ArgumentError(
            f"There is no layer {name!r}. Import the module that defines it before the "
            "configuration is read."
        )
    return found.from_config(value.get("config", {}))


def _kinds(cls: type[Layer]) -> Iterator[type[Layer]]:
    for kind in cls.__subclasses__():
        yield kind
        yield from _kinds(kind)


def copy_of(layer: Layer, **changes: Any) -> Any:
    """Return a layer that is made of the same arguments, except for those given here.

    >>> from tapegrad.keras.layers.core import Dense
    >>> copy_of(Dense(3, activation="relu"), name="other").get_config()["activation"]
    'relu'
    """
    arguments = {name: _copied(value) for name, value in layer._arguments.items()}
    return type(layer)(**{**arguments, **changes})


def _copied(value: Any) -> Any:
    if isinstance(value, Layer):
        return copy_of(value)
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    return value
