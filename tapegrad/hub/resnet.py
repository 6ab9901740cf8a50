"""ResNet: residual networks of images, with basic or bottleneck blocks."""

from __future__ import annotations

from typing import Any

from tapegrad.hub.transformer import activation
from tapegrad.keras.layers import (
    BatchNormalization,
    Conv2D,
    Dense,
    Layer,
    MaxPooling2D,
    ZeroPadding2D,
)
from tapegrad.keras.models import Model
from tapegrad.ops.casting.promotion import operand
from tapegrad.ops.reduction.primitives import mean


class Convolution(Layer):
    """A convolution with zeros around the image, batch normalization and an activation."""

    def __init__(self, width: int, size: int, stride: int = 1, name: str | None = "relu") -> None:
        super().__init__()
        self.padding = ZeroPadding2D(size // 2)
        self.convolution = Conv2D(width, size, strides=stride, use_bias=False)
        self.normalization = BatchNormalization(momentum=0.9, epsilon=1e-5)
        self.activation = activation(name) if name else None

    def call(self, x: Any, training: Any = None) -> Any:
        found = self.normalization(self.convolution(self.padding(x)), training=training)
        return found if self.activation is None else self.activation(found)


class Residual(Layer):
    """Two or three convolutions beside the identity or a convolution of size 1."""

    def __init__(self, config: dict[str, Any], inputs: int, width: int, stride: int) -> None:
        super().__init__()
        name = config.get("hidden_act", "relu")
        if config.get("layer_type", "bottleneck") == "basic":
            self.layer = [Convolution(width, 3, stride, name), Convolution(width, 3, 1, None)]
        else:
            inner = width // 4
            early = bool(config.get("downsample_in_bottleneck", False))
            self.layer = [
                Convolution(inner, 1, stride if early else 1, name),
                Convolution(inner, 3, 1 if early else stride, name),
                Convolution(width, 1, 1, None),
            ]
        changes = inputs != width or stride != 1
        self.shortcut = Convolution(width, 1, stride, None) if changes else None
        self.activation = activation(name)

    def call(self, x: Any, training: Any = None) -> Any:
        around = x if self.shortcut is None else self.shortcut(x, training=training)
        for one in self.layer:
            x = one(x, training=training)
        return self.activation(x + around)


class Stage(Layer):
    """Residual blocks of one width."""

    def __init__(
        self, config: dict[str, Any], inputs: int, width: int, depth: int, stride: int
    ) -> None:
        super().__init__()
        self.layers = [
            Residual(config, width if k else inputs, width, 1 if k else stride)
            for k in range(depth)
        ]

    def call(self, x: Any, training: Any = None) -> Any:
        for block in self.layers:
            x = block(x, training=training)
        return x


class Encoder(Layer):
    """All stages."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        widths = config.get("hidden_sizes", [256, 512, 1024, 2048])
        before = [config.get("embedding_size", 64), *widths[:-1]]
        first = 2 if config.get("downsample_in_first_stage", False) else 1
        depths = config.get("depths", [3, 4, 6, 3])
        self.stages = [
            Stage(config, inputs, width, depth, 2 if k else first)
            for k, (inputs, width, depth) in enumerate(zip(before, widths, depths, strict=True))
        ]

    def call(self, x: Any, training: Any = None) -> Any:
        for stage in self.stages:
            x = stage(x, training=training)
        return x


class Embedder(Layer):
    """The first convolution; `embedder` is its name in the files."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, name = config.get("embedding_size", 64), config.get("hidden_act", "relu")
        self.embedder = Convolution(width, 7, 2, name)
        self.padding = ZeroPadding2D(1)
        self.pooler = MaxPooling2D(3, strides=2)

    def call(self, x: Any, training: Any = None) -> Any:
        # The activation is not negative where zeros are padded, so they leave the maximum alone.
        return self.pooler(self.padding(self.embedder(x, training=training)))


class ResNet(Model):
    """From images, shape (batch, height, width, channels), to features or logits.

    `head` is "hidden" for the last feature maps, "pooled" for their means, or "classes" for logits.

    >>> import numpy as np
    >>> config = {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1],
    ...           "layer_type": "basic"}
    >>> tuple(ResNet(config, "classes", 3)(np.zeros((1, 32, 32, 3), "float32")).shape)
    (1, 3)
    """

    prefix = "resnet."
    ignored = r".*\.num_batches_tracked"

    def __init__(self, config: dict[str, Any], head: str = "hidden", labels: int = 2) -> None:
        super().__init__()
        self.config, self.head = config, head
        self.embedder = Embedder(config)
        self.encoder = Encoder(config)
        # In the files the classifier is the second of two layers.
        self.classifier: list[Any] = [None, Dense(labels)] if head == "classes" else []

    def call(self, images: Any, training: Any = None) -> Any:
        x = self.embedder(operand(images), training=training)
        x = self.encoder(x, training=training)
        if self.head == "hidden":
            return x
        pooled = mean(x, (1, 2))
        return self.classifier[1](pooled) if self.head == "classes" else pooled
