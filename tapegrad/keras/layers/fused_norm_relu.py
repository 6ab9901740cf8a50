"""Batch normalisation and the ReLU behind it, called together: one step of a model for both.

The two stay layers of the model. A model that calls them one after the other calls what stands for
both in their place, which saves a pass over the data in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.engine.switch import is_on
from tapegrad.keras import activations
from tapegrad.keras.layers.activation_layers import ReLU
from tapegrad.keras.layers.core import Activation
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.normalization import BatchNormalization


class NormalizedRelu(Layer):
    """Stands for two built layers; as long as both are plain, they are one primitive.

    >>> import tapegrad
    >>> norm, relu = BatchNormalization(epsilon=0.0), ReLU()
    >>> norm.build((None, 1))
    >>> NormalizedRelu(norm, relu)(tapegrad.constant([[1.0], [3.0]]), training=True).tolist()
    [[0.0], [1.0]]
    """

    supports_masking = True

    def __init__(self, norm: BatchNormalization, relu: ReLU | Activation) -> None:
        super().__init__(name=norm.name, dtype=norm.dtype_policy)
        self.norm, self.relu, self.built = norm, relu, True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        norm, relu = self.norm, self.relu
        if _is_plain(relu) and "call" not in vars(norm) and norm.activity_regularizer is None:
            return norm.normalize(inputs, training, mask, relu=True)
        return relu(norm(inputs, training=training, mask=mask))


def can_join(first: Layer, second: Layer) -> bool:
    """Whether there is something that stands for both layers."""
    return (
        is_on()
        and type(first) is BatchNormalization
        and type(second) in (ReLU, Activation)
        and first.compute_dtype == second.compute_dtype
        and _is_plain(second)
    )


def joined(layers: Sequence[Layer]) -> list[Layer]:
    """Return layers that follow one another, pairs in one where that can be."""
    found: list[Any] = []
    for layer in layers:
        if found and can_join(found[-1], layer):
            found[-1] = NormalizedRelu(found[-1], layer)  # type: ignore[arg-type]
        else:
            found.append(layer)
    return found


def _is_plain(layer: Any) -> bool:
    """Whether a layer is a ReLU and nothing else: layers may be changed after they were made."""
    if "call" in vars(layer) or layer.activity_regularizer is not None:
        return False
    if type(layer) is Activation:
        return layer.activation is activations.relu
    return not layer.negative_slope and layer.max_value is None and not layer.threshold
