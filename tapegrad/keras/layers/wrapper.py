"""Wrapper: the base class of layers that wrap another layer."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import revived


class Wrapper(Layer):
    """Base class of layers that wrap another layer: it is built, tracked and saved with them.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.core import Dense
    >>> class Doubled(Wrapper):
    ...     def call(self, inputs):
    ...         return 2.0 * self.layer(inputs)
    >>> Doubled(Dense(1, kernel_initializer="ones"))(tapegrad.ones([1, 3])).tolist()
    [[6.0]]
    """

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        layer = revived(layer)
        if not isinstance(layer, Layer):
            raise ArgumentTypeError(
                f"{type(self).__name__} wraps a layer. Got {type(layer).__name__}: {layer!r}."
            )
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
