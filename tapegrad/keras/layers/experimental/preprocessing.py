"""`keras.layers.experimental.preprocessing`: layers that `keras.layers` has today."""

from typing import Any

from tapegrad.keras import layers


def __getattr__(name: str) -> Any:
    return getattr(layers, name)
